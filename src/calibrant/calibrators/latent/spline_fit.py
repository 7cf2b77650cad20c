"""The spline of cumulative differences, and what its slope adds to a score."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.latent.axis_cells import AxisCells
from calibrant.numerics.natural_spline import NaturalSpline, mean_slope_basis, natural_basis

__all__ = ["SplineFit"]

Vector = NDArray[np.float64]

NEXT_TO_NOTHING = 1e-9  # weight of a score that no row has


@dataclass(frozen=True, eq=False)
class SplineFit:
    """A natural spline through the cumulative differences between outcomes and scores.

    Attributes
    ----------
    cells : AxisCells
        What it was fitted to.
    spline : NaturalSpline
    slopes : ndarray of shape (m,)
        Its mean slope along every cell.
    rank : int
        How many slopes the cells determine.

    Examples
    --------
    >>> cells = AxisCells.of(np.full(4, 0.5), np.array([True, True, True, False]), None, least_variance=0.1)
    >>> fit = SplineFit.to_steps(np.linspace(0, 1, 3), cells)
    >>> scores, corrections, _ = fit.corrections()
    >>> scores, corrections.round(3)
    (array([0. , 0.5, 1. ]), array([0.1 , 0.25, 0.1 ]))
    """

    cells: AxisCells
    spline: NaturalSpline
    slopes: Vector
    rank: int

    @classmethod
    def to_steps(cls, knots: Vector, cells: AxisCells) -> Self:
        """Fit mean slopes along the cells, each with the length of its cell as weight."""
        basis = mean_slope_basis(knots, cells.starts, cells.ends)
        length = cells.ends - cells.starts
        spline, rank = NaturalSpline.fit(knots, basis, cells.rises / length, length)
        return cls(cells, spline, basis @ spline.values, rank)

    @classmethod
    def to_sums(cls, knots: Vector, cells: AxisCells) -> Self:
        """Fit the sums at the ends of the cells, with as much weight as there are rows."""
        basis = natural_basis(knots, cells.ends)
        spline, rank = NaturalSpline.fit(knots, basis, np.cumsum(cells.rises), cells.weight)
        slopes = mean_slope_basis(knots, cells.starts, cells.ends) @ spline.values
        return cls(cells, spline, slopes, rank)

    @property
    def chi_squared(self) -> float:
        """Weighted sum of the squared slopes; about the rank, by chance alone, on an axis of variance."""
        length = self.cells.ends - self.cells.starts
        return self.cells.total * float(length @ self.slopes**2)

    def corrections(self, share: float = 1.0) -> tuple[Vector, Vector, Vector]:
        """Return scores from 0 to 1, what this share of the slopes adds there, and how much each score weighs."""
        score, weight = self.cells.score, self.cells.weight
        first, last = self.spline.slope(self.spline.knots[[0, -1]])[:, np.newaxis]
        at_zero, at_one = score[:1] > 0, score[-1:] < 1
        scores = np.concatenate([np.zeros(1)[at_zero], score, np.ones(1)[at_one]])
        slopes = np.concatenate([first[at_zero], self.slopes, last[at_one]])
        # No row has these two scores: they are to follow their neighbours.
        unseen = np.full(1, NEXT_TO_NOTHING * weight.min())
        weights = np.concatenate([unseen[at_zero], weight, unseen[at_one]])
        variance = np.maximum(scores * (1 - scores), self.cells.least_variance)
        return scores, share * slopes * variance, weights
