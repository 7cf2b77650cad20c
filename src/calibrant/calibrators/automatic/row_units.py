"""What of the calibration rows is held out together, and counts as one observation."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import IntArray, Vector
from calibrant.calibrators.class_order import canonical_class_order
from calibrant.calibrators.inner_folds import row_keys
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import LARGEST_COUNT
from calibrant.numerics.kernels import content_order, starts_of_equals
from calibrant.numerics.simplex import softmax
from calibrant.objective import ArraySource
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["KnownRows", "known_rows", "merged_copies"]


# Equal rows that together weigh more than this share of a fold are observations of a coarse classifier, not copies.
SHARE_OF_FOLD = 0.25

# Copies have the label of what they are copies of. If more than this share of the predictions that occur several times
# have several labels, the classifier is coarse, and equal rows are observations of their own.
SHARE_WITH_SEVERAL_LABELS = 0.02


@dataclass(frozen=True, eq=False)
class KnownRows:
    """Calibration rows by what they contain, whatever their order, their space and the order of the classes.

    Attributes
    ----------
    keys : tuple of ndarray of shape (n,)
        Numbers to sort rows by.
    units : ndarray of shape (n,)
        Equal for rows that are held out together.
    counts : ndarray of shape (n,)
        How many rows each one stands for: its weight. Where equal rows are copies, whole weights are divided by their
        greatest common divisor.
    places : ndarray of shape (n,)
        In how many parts each one is dealt out to folds: its count if these are observations of their own, else one.
    class_order : ndarray of shape (K,)
        Column numbers in an order that follows any permutation of the classes.
    """

    keys: tuple[Vector, ...]
    units: IntArray
    counts: Vector
    places: IntArray
    class_order: IntArray


def merged_copies(data: LabelledPredictions) -> LabelledPredictions:
    """Return every pair of scores and label once, with the number of its rows as weight.

    A weight of two and the row given twice are then the same data. Weights that are not whole stay as they are, and so do
    rows that are all different.
    """
    if data.weights is not None and not _are_whole(data.weights):
        return data
    scores = data.predictions.scores
    order = content_order(scores, (data.labels,))
    new = np.zeros(data.n_rows, dtype=np.bool_)
    new[starts_of_equals(scores, order)] = True
    new[1:] |= np.diff(data.labels[order]) != 0
    if new.all():
        return data
    first = order[new]
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    return data.take(first, np.add.reduceat(weights[order], np.flatnonzero(new)))


def known_rows(data: LabelledPredictions, n_folds: int) -> KnownRows:
    """Find out which rows are copies of each other.

    A map that is fitted on a copy of the very row it is judged by knows its label, so copies are held out together; a row
    of weight two is then held out as two equal rows are. Where a classifier gives out few different rows, as trees do, or
    rounded ones, equal rows are no copies: all mistakes at one score would be held out at once, and be missing where
    the map is learnt. They are dealt out one by one, and so are equal rows that make up a good part of a fold.
    """
    probabilities = _as_probabilities(data.predictions)
    counts = _counts(data.weights, data.n_rows)
    order = content_order(probabilities.scores, (data.labels, counts))
    new_score = np.zeros(data.n_rows, dtype=np.bool_)
    new_score[starts_of_equals(probabilities.scores, order)] = True
    new = new_score.copy()
    new[1:] |= np.diff(data.labels[order]) != 0
    unit_of_place = np.cumsum(new) - 1
    weights = np.bincount(unit_of_place, counts[order])
    small = weights <= SHARE_OF_FOLD * counts.sum() / n_folds
    divisible = _are_whole(counts) and counts.max() < LARGEST_COUNT
    if _is_coarse(np.cumsum(new_score) - 1, new, counts[order] if divisible else np.ones(data.n_rows)):
        small[:] = False
        if data.weights is not None:
            counts = data.weights
            divisible = _are_whole(counts) and counts.max() < LARGEST_COUNT
    units, places = np.empty((2, data.n_rows), dtype=np.intp)
    units[order] = np.where(small[unit_of_place], unit_of_place, data.n_rows + np.arange(data.n_rows))
    places[order] = np.where(small[unit_of_place], 1, counts[order]) if divisible else 1
    data = replace(data, predictions=probabilities)
    return KnownRows(row_keys(data), units, counts, places, canonical_class_order(ArraySource(data)))


def _is_coarse(score_of_place: IntArray, starts_label: NDArray[np.bool_], counts: Vector) -> bool:
    """Tell whether predictions that occur several times have several labels more often than copies would."""
    n_labels = np.bincount(score_of_place, starts_label)
    repeated = np.bincount(score_of_place, counts) > 1
    return bool((n_labels > 1).sum() > SHARE_WITH_SEVERAL_LABELS * repeated.sum())


def _are_whole(weights: Vector) -> bool:
    return bool(np.array_equal(weights, np.round(weights)) and weights.max() <= 2**53)


def _as_probabilities(predictions: Predictions) -> Predictions:
    """Return what rows are known by in either space, in float64."""
    scores = predictions.scores.astype(np.float64)
    return Predictions(softmax(scores) if predictions.space is Space.LOGITS else scores, Space.PROBABILITIES)


def _counts(weights: Vector | None, n_rows: int) -> Vector:
    """Return weights as multiples of what they have in common if they are whole, as they are if not."""
    if weights is None:
        return np.ones(n_rows)
    if not _are_whole(weights):
        return weights
    return weights / float(np.gcd.reduce(weights.astype(np.int64)))
