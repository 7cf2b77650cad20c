"""Isotonic regression with one point more: its value there, for every place that the point could have."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.numerics.isotonic import Levels, block_starts, levels
from calibrant.numerics.step_functions import StepFunctions

__all__ = ["AddedPoint"]


@dataclass(frozen=True, eq=False)
class AddedPoint:
    r"""Value of an isotonic fit at a point that is added to its rows, as two step functions of the score.

    With rows :math:`(s_i, o_i)` of weight :math:`w_i`, and outcomes between 0 and 1,

    .. math:: g_v(s) = \text{value at } s \text{ of the isotonic fit to all rows and } (s, v), \qquad v = 0, 1

    where the added point has weight 1. Both functions are non-decreasing, and :math:`g_0 < g_1`.

    Attributes
    ----------
    zero_scores, zero_values : ndarray of shape (a,), (a + 1,)
        Where :math:`g_0` rises, and its values below, between and above; a step belongs to what is above it.
        Neighbouring values differ, and a is at most the number of distinct scores.
    one_scores, one_values : ndarray of shape (b,), (b + 1,)
        The same for :math:`g_1`; a step belongs to what is below it.

    Notes
    -----
    *Ties.* A further 0 is never above the row before it, so that both are pooled: between two scores of the rows,
    the fit is that with the point at the lower of them. A further 1 goes with the upper one in the same way.
    So each function has a step at scores of rows only, and the two kinds of place, at a score and between two
    of them, differ in nothing but the side of that step.

    *Sweep.* Add a 1 in front of level a, within a block of the fit to the rows alone. Pooled with what comes
    next, it is never below the value of that block, hence never pooled across the block's beginning; and since it
    only pushes upwards, what it is pooled with ends where some block ends. With :math:`W` and :math:`S` the
    weight and the sum of outcomes up to a level, and e through the ends of blocks after a,

    .. math:: g_1 = \max_{a' \le a} \min_e \frac{S_e - S_{a'} + 1}{W_e - W_{a'} + 1}

    The minimum is where the slope of the next block is no longer less, which bisection finds for all levels at
    once; the maximum is a running one. The case of a 0 is its mirror image. This replaces the two stacks of
    :cite:`vovk2015`, which go from level to level. Costs a sort and O(m log B) for m distinct scores and B
    blocks. Values are exact to the last bits for whole-number weights, otherwise to 1e-16 times their sum.

    Examples
    --------
    >>> added = AddedPoint.to(np.array([0.2, 0.4, 0.6]), np.array([0, 1, 1]))
    >>> with_zero, with_one = added(np.array([0.1, 0.4, 0.5, 0.7]))
    >>> with_zero.round(3), with_one
    (array([0.   , 0.5  , 0.5  , 0.667]), array([0.5, 1. , 1. , 1. ]))
    """

    zero_scores: Vector
    zero_values: Vector
    one_scores: Vector
    one_values: Vector

    @classmethod
    def to(cls, scores: Vector, outcomes: NDArray[np.generic], weights: Vector | None = None) -> Self:
        """Tabulate both functions for some rows, of positive weights if they have any."""
        rows = levels(scores, outcomes, weights)
        places = rows.score.astype(np.float64)
        reversed_rows = Levels(rows.score[::-1], rows.weight[::-1], (rows.weight - rows.outcome_sum)[::-1])
        return cls(*_steps(places, 1 - _with_one(reversed_rows)[::-1]), *_steps(places, _with_one(rows)))

    def __call__(self, scores: Vector) -> tuple[Vector, Vector]:
        """Return the values of both functions at some scores; costs O(log m) each."""
        return (
            self.zero_values[np.searchsorted(self.zero_scores, scores, side="right")],
            self.one_values[np.searchsorted(self.one_scores, scores, side="left")],
        )


def _with_one(rows: Levels) -> Vector:
    """Return the value of a 1 in front of every level and behind the last, (m + 1,)."""
    starts = block_starts(rows.weight, rows.outcome_sum)
    value = np.add.reduceat(rows.outcome_sum, starts) / np.add.reduceat(rows.weight, starts)
    weight_before, sum_before = (
        np.append(0.0, np.cumsum(entries)) for entries in (rows.weight, rows.outcome_sum)
    )
    ends = np.append(starts[1:], len(rows.weight))
    weight_at_end, sum_at_end = weight_before[ends], sum_before[ends]

    def pooled(block: NDArray[np.intp]) -> Vector:
        """Mean of the added 1 and all levels from its own to the last of a block."""
        mean: Vector = (sum_at_end[block] - sum_before[:-1] + 1) / (
            weight_at_end[block] - weight_before[:-1] + 1
        )
        return mean

    last = len(ends) - 1
    low = np.repeat(np.arange(len(ends)), np.diff(np.append(starts, len(rows.weight))))
    high = np.full_like(low, last)
    for _ in range(last.bit_length()):
        middle = (low + high) // 2
        further = value[np.minimum(middle + 1, last)] < pooled(middle)
        low, high = np.where(further, np.minimum(middle + 1, high), low), np.where(further, high, middle)
    # The ends of the range can only be missed by the rounding of weights.
    return np.append(np.clip(np.maximum.accumulate(pooled(low)), 0.0, 1.0), 1.0)


def _steps(scores: Vector, values: Vector) -> tuple[Vector, Vector]:
    """Return the scores at which one of m + 1 values is followed by another, and the different values."""
    steps = StepFunctions(scores, values[np.newaxis]).distinct()
    return steps.places, steps.values[0]
