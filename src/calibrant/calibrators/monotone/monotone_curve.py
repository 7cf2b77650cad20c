"""Non-decreasing curves through the blocks of an isotonic fit, with ends away from 0 and 1."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.numerics.curves import KnottedCurve
from calibrant.numerics.isotonic import block_starts, levels
from calibrant.numerics.rounding import midpoint
from calibrant.numerics.row_blocks import row_blocks

__all__ = ["ROWS_AT_ENDS", "SLOPE", "Interpolation", "PooledScores", "Ties", "fitted_curve"]


# Pairs that are sorted at a time: enough for a cheap look-up of the positives in each part, and little memory.
PAIRS_AT_A_TIME = 2**20


@dataclass(frozen=True, eq=False)
class PooledScores:
    """Groups of adjacent scores that any isotonic fit pools, in increasing order.

    Attributes
    ----------
    low, high : ndarray of shape (m,)
        Smallest and largest score of each group.
    weight : ndarray of shape (m,)
        Total weight of its scores.
    outcome_sum : ndarray of shape (m,)
        Weight of the events.
    score_sum : ndarray of shape (m,)
        Weighted sum of the scores.
    """

    low: Vector
    high: Vector
    weight: Vector
    outcome_sum: Vector
    score_sum: Vector

    @classmethod
    def of_event(cls, scores: Vector, outcomes: NDArray[np.bool_], weights: Vector | None) -> Self:
        """Group equal scores of one event; costs a sort."""
        rows = levels(scores, outcomes, weights)
        score = rows.score.astype(np.float64)
        return cls(score, score, rows.weight, rows.outcome_sum, rows.weight * score)

    @classmethod
    def of_all_pairs(
        cls, probabilities: FloatArray, labels: NDArray[np.intp], weights: Vector | None
    ) -> Self:
        """Group the n K pairs of a probability and an indicator of the true class.

        Only n of the pairs are positive, and any isotonic fit pools a positive pair with the negative ones up to the next
        positive. So there are at most n + 1 groups, one for each distinct probability of a true class and one for all
        smaller probabilities. Costs O(nK log n) time and O(n) memory besides that of :data:`PAIRS_AT_A_TIME` pairs.

        >>> groups = PooledScores.of_all_pairs(np.array([[0.1, 0.9], [0.3, 0.7]]), np.array([1, 0]), None)
        >>> groups.low, groups.high, groups.weight, groups.outcome_sum
        (array([0.1, 0.3, 0.9]), array([0.1, 0.7, 0.9]), array([1., 2., 1.]), array([0., 1., 1.]))
        """
        n_rows, n_classes = probabilities.shape
        own = probabilities[np.arange(n_rows), labels]
        marks, mark_of_row = np.unique(own, return_inverse=True)
        positive = np.append(0.0, np.bincount(mark_of_row, weights, len(marks)))
        others, score_sum, high = (np.zeros(len(marks) + 1) for _ in range(3))
        low = np.append(probabilities.min(), marks).astype(np.float64)
        min_rows = max(1, PAIRS_AT_A_TIME // n_classes)
        for rows in row_blocks(n_rows, n_classes, probabilities.itemsize, min_rows):
            scores = probabilities[rows].ravel()
            if weights is None:
                scores = np.sort(scores)
                weight = other_weight = np.ones_like(scores)
            else:
                order = np.argsort(scores)
                scores = scores[order]
                weight = weights[rows][order // n_classes]
                other_weight = np.where(labels[rows][order // n_classes] == order % n_classes, 0.0, weight)
            ends = np.append(np.searchsorted(scores, marks), len(scores))
            starts = np.append(0, ends[:-1])
            filled = np.flatnonzero(ends > starts)
            begins = starts[filled]
            high[filled] = np.maximum(high[filled], scores[ends[filled] - 1])
            others[filled] += np.add.reduceat(other_weight, begins, dtype=np.float64)
            score_sum[filled] += np.add.reduceat(weight * scores, begins, dtype=np.float64)
        if weights is None:
            others -= positive
        groups = (low, high, others + positive, positive, score_sum)
        empty_first = int(groups[2][0] == 0)
        return cls(*(array[empty_first:] for array in groups))


Interpolation = Literal["linear", "step"]
Ties = Literal["keep", "centered", "strict"]

ROWS_AT_ENDS = "such as 1 row at ends that would be certain"
"""An example of smoothing, for an error."""

SLOPE = 1e-9
"""Multiple of the score that is added to make a map strictly increasing; that of the Mix-n-Match program."""


def fitted_curve(
    groups: PooledScores, smoothing: float, ties: Ties, interpolation: Interpolation = "linear"
) -> KnottedCurve:
    """Return the isotonic fit to some groups of scores as a curve; O(m).

    End blocks with a single outcome would be exactly 0 or 1. A pseudo-row of the other outcome is added below or above all
    rows, and blocks are pooled again. Its weight is ``smoothing`` less the weight of that outcome in the block.
    """
    starts, value = _blocks(groups, smoothing)
    last = np.append(starts[1:], len(groups.low)) - 1
    low, high = groups.low[starts], groups.high[last]
    if interpolation == "step":
        return _stepped(low, high, value)
    if ties == "centered":
        centre = np.add.reduceat(groups.score_sum, starts) / np.add.reduceat(groups.weight, starts)
        return _with_ends(np.clip(centre, low, high), value, value[0] / 2, (1 + value[-1]) / 2)
    scores = np.column_stack([low, high]).ravel()
    values = np.repeat(value, 2)
    distinct = np.append(True, scores[1:] > scores[:-1])
    scores, values = scores[distinct], values[distinct]
    if ties == "keep":
        return KnottedCurve(scores, values)
    level = _with_ends(scores, values, value[0], value[-1])
    return KnottedCurve(level.knots, (level.values + SLOPE * level.knots) / (1 + SLOPE))


def _blocks(groups: PooledScores, smoothing: float) -> tuple[NDArray[np.intp], Vector]:
    """Return first group and value of every block, with the ends shrunk."""
    weight, outcome_sum = groups.weight, groups.outcome_sum
    starts = block_starts(weight, outcome_sum)
    first, last = slice(starts[1] if len(starts) > 1 else None), slice(starts[-1], None)
    events_below = float(outcome_sum[first].sum())
    others_above = float((weight[last] - outcome_sum[last]).sum())
    if min(events_below, others_above) < smoothing:
        weight, outcome_sum = weight.copy(), outcome_sum.copy()
        # An event below all rows and a non-event above all rows, each with the weight that its end block lacks.
        below, above = max(0.0, smoothing - events_below), max(0.0, smoothing - others_above)
        weight[0] += below
        outcome_sum[0] += below
        weight[-1] += above
        starts = block_starts(weight, outcome_sum)
    return starts, np.add.reduceat(outcome_sum, starts) / np.add.reduceat(weight, starts)


def _stepped(low: Vector, high: Vector, value: Vector) -> KnottedCurve:
    """Step at the midpoint of adjacent blocks, so that the curve is equivariant under exchange of the classes."""
    return KnottedCurve(np.append(low[:1], midpoint(high[:-1], low[1:])), value, steps=True)


def _with_ends(scores: Vector, values: Vector, at_zero: float, at_one: float) -> KnottedCurve:
    """Extend a curve to the ends 0 and 1 of the scores."""
    below, above = scores[:1] > 0, scores[-1:] < 1
    return KnottedCurve(
        np.concatenate([np.zeros(1)[below], scores, np.ones(1)[above]]),
        np.concatenate([np.array([at_zero])[below], values, np.array([at_one])[above]]),
    )
