"""Isotonic regression: the closest non-decreasing step function."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from calibrant.arrays import FloatArray
from calibrant.numerics.curves import KnottedCurve

__all__ = ["IsotonicFit", "Levels", "block_starts", "isotonic_fit", "levels"]


@dataclass(frozen=True, eq=False)
class Levels:
    """Rows in order of their scores, those of equal score as one.

    Attributes
    ----------
    score : ndarray of shape (m,)
        The distinct scores, increasing, in their own float type.
    weight : ndarray of shape (m,)
        Total weight of the rows of each; their number if rows have no weights.
    outcome_sum : ndarray of shape (m,)
        Weighted sum of their outcomes.
    """

    score: FloatArray
    weight: NDArray[np.float64]
    outcome_sum: NDArray[np.float64]

    @property
    def mean_outcome(self) -> NDArray[np.float64]:
        """Mean outcome of each level, (m,)."""
        return self.outcome_sum / self.weight


@dataclass(frozen=True, eq=False)
class IsotonicFit:
    """Blocks of scores, each with the mean outcome of its rows.

    Attributes
    ----------
    low, high : ndarray of shape (B,)
        Smallest and largest score of each block, from low to high.
    value : ndarray of shape (B,)
        Mean outcome of each block, strictly increasing.
    weight : ndarray of shape (B,)
        Total weight of each block.
    """

    low: FloatArray
    high: FloatArray
    value: NDArray[np.float64]
    weight: NDArray[np.float64]

    def __call__(self, scores: FloatArray) -> NDArray[np.float64]:
        """Return the fitted value of every score; linear between blocks, constant beyond the outermost.

        A score from inside a block gets the value of that block to the last bit. Costs O(n log B).
        """
        knots = np.column_stack([self.low, self.high]).ravel()
        values = np.repeat(self.value, 2)
        # A block of one score has its two ends in one place; a curve wants increasing places.
        distinct = np.concatenate([[True], knots[1:] > knots[:-1]])
        return KnottedCurve(knots[distinct], values[distinct])(scores)


def levels(
    scores: FloatArray, outcomes: NDArray[np.generic], weights: NDArray[np.float64] | None = None
) -> Levels:
    """Sort rows by score and add up those of equal score; costs a sort, O(n) memory.

    >>> grouped = levels(np.array([0.3, 0.1, 0.3]), np.array([True, True, False]))
    >>> grouped.score, grouped.weight, grouped.outcome_sum
    (array([0.1, 0.3]), array([1., 2.]), array([1., 1.]))
    """
    order = np.argsort(scores)
    ordered = scores[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    ordered_outcomes = outcomes[order].astype(np.float64)
    if weights is None:
        weight = np.diff(np.append(starts, len(ordered))).astype(np.float64)
        outcome_sum = np.add.reduceat(ordered_outcomes, starts)
    else:
        ordered_weights = weights[order]
        weight = np.add.reduceat(ordered_weights, starts)
        outcome_sum = np.add.reduceat(ordered_weights * ordered_outcomes, starts)
    return Levels(ordered[starts], weight, outcome_sum)


def isotonic_fit(
    scores: FloatArray, outcomes: NDArray[np.generic], weights: NDArray[np.float64] | None = None
) -> IsotonicFit:
    r"""Fit outcomes by a non-decreasing function of the scores.

    .. math:: \min_g \sum_i w_i (o_i - g(s_i))^2, \qquad g \text{ non-decreasing}

    by pooling adjacent violators. Equal scores get one value, as a function must, and neighbours of equal
    value are one block. For outcomes of 0 and 1 the same fit minimises every other proper loss too, the
    logarithmic one among them. Costs a sort and O(n).

    >>> fit = isotonic_fit(np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 1, 0, 1]))
    >>> fit.low, fit.high, fit.value
    (array([0.1, 0.2, 0.4]), array([0.1, 0.3, 0.4]), array([0. , 0.5, 1. ]))
    """
    rows = levels(scores, outcomes, weights)
    starts = block_starts(rows.weight, rows.outcome_sum)
    weight, value = _pooled(rows.weight, rows.outcome_sum, starts)
    last = np.append(starts[1:], len(rows.score)) - 1
    return IsotonicFit(rows.score[starts], rows.score[last], value, weight)


def block_starts(weight: NDArray[np.float64], outcome_sum: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the place of the first level of every block, for levels in order of their scores; O(m).

    Mean outcomes of blocks increase strictly, by more than the rounding of their sums.

    >>> block_starts(np.ones(4), np.array([0.0, 1.0, 0.0, 1.0]))
    array([0, 1, 3])
    """
    starts: NDArray[np.intp] = isotonic_regression(outcome_sum / weight, weights=weight).blocks[:-1]
    _, value = _pooled(weight, outcome_sum, starts)
    # Blocks that are equal in truth may differ by the rounding of their sums, in either direction.
    rounding = 4 * np.finfo(np.float64).eps * np.abs(value).max()
    while not (in_order := value[1:] > value[:-1] + rounding).all():
        starts = starts[np.concatenate([[True], in_order])]
        _, value = _pooled(weight, outcome_sum, starts)
    return starts


def _pooled(
    weight: NDArray[np.float64], outcome_sum: NDArray[np.float64], starts: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weight and mean outcome of the blocks of levels that begin at ``starts``."""
    total = np.add.reduceat(weight, starts)
    return total, np.add.reduceat(outcome_sum, starts) / total
