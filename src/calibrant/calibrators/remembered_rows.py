"""Rows that are remembered as they are: all of them while they are few, a sample of them later."""

from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["ROWS_AT_HAND", "followed_by", "most_rows", "stored", "thinned"]

# Up to so many rows are kept as they are, since a fit to few rows is too rough a place to expand a loss around.
ROWS_AT_HAND = 1000


def most_rows(n_classes: int) -> int:
    """Return how many rows are kept at most: with many classes a few of each."""
    return max(ROWS_AT_HAND, 3 * n_classes)


def stored(data: LabelledPredictions) -> dict[str, Any]:
    """Return rows as plain arrays, which a file can hold."""
    predictions = data.predictions
    return {
        "scores": np.array(predictions.scores),
        "space": predictions.space.value,
        "names": predictions.classes,
        "floor": predictions.declared_floor,
        "labels": data.labels,
        "classes": data.classes,
        "weights": data.weights,
    }


def followed_by(memory: dict[str, Any], data: LabelledPredictions, kept: float) -> LabelledPredictions:
    """Return stored rows, whose weights fade, followed by those of a batch; the batch alone if none are stored."""
    if "labels" not in memory:
        return data
    predictions = Predictions(
        np.vstack([memory["scores"], data.predictions.scores]),
        Space(memory["space"]),
        memory["names"],
        memory["floor"],
    )
    weights = None
    if kept < 1 or memory["weights"] is not None or data.weights is not None:
        old = np.ones(len(memory["labels"])) if memory["weights"] is None else memory["weights"]
        new = np.ones(data.n_rows) if data.weights is None else data.weights
        weights = np.concatenate([old * kept, new])
    together = LabelledPredictions(
        predictions, np.concatenate([memory["labels"], data.labels]), memory["classes"], weights
    )
    # What has faded below the smallest float counts no more.
    return together if weights is None or weights.min() > 0 else together.take(weights > 0)


def thinned(data: LabelledPredictions, size: int = ROWS_AT_HAND // 2) -> LabelledPredictions:
    """Return about ``size`` rows that stand for all, in their order; every class keeps its total weight.

    Each class is cut into parts of equal weight, and of each part one row is taken at random, by numbers that follow from
    the rows themselves: the same rows give the same sample. A class never loses its last row, and a rare one has more
    rows than its share, each of less weight. Costs O(nK) to read the rows and O(n + K) otherwise.
    """
    n_classes = data.n_classes
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    size = max(size, n_classes)
    totals, counts = data.class_weights, np.bincount(data.labels, minlength=n_classes)
    sizes = np.maximum(size * totals / totals.sum(), max(1, size // (4 * n_classes))).astype(np.intp)
    sizes = np.minimum(sizes, counts)
    generator = np.random.default_rng(crc32(data.predictions.scores.tobytes()))
    order = np.argsort(data.labels, kind="stable")
    chosen: list[NDArray[np.intp]] = []
    for own, n_chosen in zip(np.split(order, np.cumsum(counts)[:-1]), sizes, strict=True):
        mass = np.cumsum(weights[own])
        if n_chosen:
            places = (np.arange(n_chosen) + generator.random(n_chosen)) / n_chosen * mass[-1]
            chosen.append(own[np.minimum(np.searchsorted(mass, places, "right"), len(own) - 1)])
    rows = np.sort(np.concatenate(chosen))
    of_row = data.labels[rows]
    return data.take(rows, totals[of_row] / sizes[of_row])
