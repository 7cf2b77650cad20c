"""What of the calibration rows is held out together, and counts as one observation."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.inner_folds import row_keys
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.kernels import content_order, starts_of_equals
from calibrant.numerics.simplex import softmax
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["KnownRows", "known_rows"]

Rows = NDArray[np.intp]
Vector = NDArray[np.float64]

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
        How many rows each one stands for: its weight, as a multiple of what all whole weights have in common.
    """

    keys: tuple[Vector, ...]
    units: Rows
    counts: Vector


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
    if _is_coarse(np.cumsum(new_score) - 1, new):
        small[:] = False
    units = np.empty(data.n_rows, dtype=np.intp)
    units[order] = np.where(small[unit_of_place], unit_of_place, data.n_rows + np.arange(data.n_rows))
    return KnownRows(row_keys(replace(data, predictions=probabilities)), units, counts)


def _is_coarse(score_of_place: Rows, starts_label: NDArray[np.bool_]) -> bool:
    """Tell whether predictions that occur several times have several labels more often than copies would."""
    n_labels = np.bincount(score_of_place, starts_label)
    repeated = np.bincount(score_of_place) > 1
    return bool((n_labels > 1).sum() > SHARE_WITH_SEVERAL_LABELS * repeated.sum())


def _as_probabilities(predictions: Predictions) -> Predictions:
    """Return what rows are known by in either space, in float64."""
    scores = predictions.scores.astype(np.float64)
    return Predictions(softmax(scores) if predictions.space is Space.LOGITS else scores, Space.PROBABILITIES)


def _counts(weights: Vector | None, n_rows: int) -> Vector:
    """Return weights as multiples of what they have in common if they are whole, as they are if not."""
    if weights is None:
        return np.ones(n_rows)
    if not np.array_equal(weights, np.round(weights)) or weights.max() > 2**53:
        return weights
    return weights / float(np.gcd.reduce(weights.astype(np.int64)))
