"""Summary of the data: rows, classes, zeros, ties and weights."""

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.row_blocks import BlockSums
from calibrant.numerics.simplex import softmax
from calibrant.report.contents import DataSummary
from calibrant.report.rows import Rows
from calibrant.space import Space

__all__ = ["data_summary"]


def data_summary(rows: Rows, n_left_out: int, split: str) -> DataSummary:
    """Return the summary of all rows of positive weight; reads the predictions once, in blocks."""
    data = rows.data
    confidence, own, n_zeros = _read(rows)
    weights = data.weights
    _, counts = np.unique(confidence, return_counts=True)
    hits = data.predictions.predicted == data.labels
    class_weights = data.class_weights
    present = np.bincount(data.labels, minlength=data.n_classes) > 0
    total = data.total_weight
    effective = float(data.n_rows) if weights is None else total**2 / float(weights @ weights)
    return DataSummary(
        n_rows=data.n_rows,
        n_classes=data.n_classes,
        space=str(data.predictions.space.value),
        float_type=str(data.predictions.scores.dtype),
        classes=rows.class_names,
        class_counts=tuple(class_weights.tolist()),
        absent_classes=tuple(
            name for name, is_present in zip(rows.class_names, present, strict=True) if not is_present
        ),
        effective_rows=effective,
        weighted=weights is not None,
        n_groups=rows.n_groups,
        n_zeros=n_zeros,
        n_refuted=int(np.count_nonzero(own == 0)),
        n_distinct=len(counts),
        largest_tie=float(counts.max() / data.n_rows),
        mean_confidence=rows.mean(confidence),
        accuracy=rows.mean(hits),
        split=split,
        n_left_out=n_left_out,
    )


def _read(rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return confidences, probabilities of the true class, and the number of probabilities that are exactly zero.

    Only zeros in given probabilities count: a softmax is never zero, though its float may be.
    """
    scores, space = rows.predictions.scores, rows.predictions.space
    predicted, labels = rows.predictions.predicted, rows.data.labels
    confidence, own = np.empty(rows.n_rows), np.empty(rows.n_rows)

    def read(block: slice) -> int:
        part = scores[block]
        given = space is Space.PROBABILITIES
        probabilities = part if given else np.asarray(softmax(part))
        every = np.arange(len(part))
        confidence[block] = np.minimum(probabilities[every, predicted[block]], 1.0)
        # A softmax that rounds to zero still has a finite logarithm.
        own[block] = probabilities[every, labels[block]] if given else 1.0
        return int(part.size - np.count_nonzero(part)) if given else 0

    with BlockSums.over(rows.n_rows, rows.n_classes, scores.itemsize) as in_all_blocks:
        n_zeros = in_all_blocks(read)
    return confidence, own, int(n_zeros)
