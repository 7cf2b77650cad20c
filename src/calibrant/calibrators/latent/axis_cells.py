"""Scores of one event on an axis that counts rows or their variance, in a limited number of cells."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from calibrant.numerics.isotonic import levels

__all__ = ["MOST_CELLS", "AxisCells"]

Vector = NDArray[np.float64]

MOST_CELLS = 1024
"""More distinct scores than this are pooled with their neighbours on the axis.

Beside the distance of the knots of a spline a cell is then a point, and neither a fit nor what it stores grows with the
number of rows.
"""

FARTHEST = 64.0  # log-odds beyond which scores are not told apart


@dataclass(frozen=True, eq=False)
class AxisCells:
    """Neighbouring scores of one event on the axis of a spline, from the lowest to the highest.

    Attributes
    ----------
    score : ndarray of shape (m,)
        Mean score of each, strictly increasing.
    weight : ndarray of shape (m,)
        Total weight of its rows.
    starts, ends : ndarray of shape (m,)
        Stretch of the axis from 0 to 1 that belongs to it.
    rises : ndarray of shape (m,)
        How much the cumulative difference between outcomes and scores rises along it.
    total : float
        What the axis counts, over all cells.
    least_variance : float
        What it counts at least for a row.

    Examples
    --------
    >>> cells = AxisCells.of(np.array([0.5, 0.1, 0.5]), np.array([True, False, False]), None, least_variance=1.0)
    >>> cells.score, cells.weight, cells.ends.round(3), cells.rises.round(3), cells.total
    (array([0.1, 0.5]), array([1., 2.]), array([0.333, 1.   ]), array([-0.033,  0.   ]), 3.0)
    """

    score: Vector
    weight: Vector
    starts: Vector
    ends: Vector
    rises: Vector
    total: float
    least_variance: float

    @classmethod
    def of(
        cls, scores: Vector, outcomes: NDArray[np.bool_], weights: Vector | None, least_variance: float
    ) -> Self:
        """Sort scores, and pool those that share a cell of the axis; costs the sort.

        The axis counts variances p (1 - p) of outcomes, but at least ``least_variance`` for a row: rows if it is 1.
        """
        groups = levels(scores, outcomes, weights)
        score, weight = groups.score.astype(np.float64), groups.weight
        length = weight * np.maximum(score * (1 - score), least_variance)
        ends = np.cumsum(length)
        total = float(ends[-1])
        first = np.arange(len(score))
        if len(score) > MOST_CELLS:
            # Scores next to 0 or 1 that differ by a factor differ much in what a small correction means for them.
            log_odds = np.floor(np.clip(logit(score), -FARTHEST, FARTHEST))
            number = np.floor((ends - length / 2) / total * MOST_CELLS) + log_odds
            first = np.flatnonzero(np.append(True, number[1:] > number[:-1]))
        last = np.append(first[1:], len(score)) - 1
        weight_of_cells = np.add.reduceat(weight, first)
        mean_score = np.add.reduceat(weight * score, first) / weight_of_cells
        return cls(
            # Rounding must not move a mean out of its cell.
            score=np.clip(mean_score, score[first], score[last]),
            weight=weight_of_cells,
            starts=np.append(0.0, ends[last[:-1]] / total),
            ends=ends[last] / total,
            rises=np.add.reduceat(groups.outcome_sum - weight * score, first) / total,
            total=total,
            least_variance=least_variance,
        )
