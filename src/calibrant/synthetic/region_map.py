"""RegionMap: a calibration map with jumps, as those of trees and bins."""

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Matrix
from calibrant.errors import ParameterError
from calibrant.numerics.row_blocks import row_blocks
from calibrant.options import check_whole, is_number
from calibrant.synthetic.calibration_map import CalibrationMap

__all__ = ["RegionMap"]


@dataclass(frozen=True)
class RegionMap(CalibrationMap):
    r"""Calibration map with jumps: the simplex is divided into regions, each pulled towards its own point.

    .. math:: c(p) = (1 - a) \, p + a \, q_{r(p)}, \qquad r(p) = \arg\min_r \lVert p - m_r \rVert

    with centres :math:`m_r` and points :math:`q_r` drawn uniformly from the simplex.

    Parameters
    ----------
    n_regions : int, default=12
        Number of regions.
    strength : float, default=0.3
        :math:`a` from 0 to 1; at 1 the true probabilities are constant in every region.
    random_state : int, default=0
        Seed of the centres and points.

    Notes
    -----
    Costs O(n K n_regions) time, and memory for one block of rows by regions.

    Examples
    --------
    >>> RegionMap(1, strength=1.0)([[1.0, 0.0, 0.0], [0.2, 0.5, 0.3]]).round(3)          # one region, one answer
    array([[0.001, 0.252, 0.747],
           [0.001, 0.252, 0.747]])
    """

    n_regions: int = 12
    strength: float = 0.3
    random_state: int = 0

    def __post_init__(self) -> None:
        check_whole("n_regions", self.n_regions)
        check_whole("random_state", self.random_state, 0)
        if not is_number(self.strength) or not 0 <= self.strength <= 1:
            raise ParameterError(f"strength must be a number from 0 to 1, not {self.strength!r}.")

    def _map(self, rows: Matrix) -> Matrix:
        even = np.ones(rows.shape[1])
        generator = np.random.default_rng(self.random_state)
        centres = generator.dirichlet(even, self.n_regions)
        points = generator.dirichlet(even, self.n_regions)
        squares = np.einsum("rk,rk->r", centres, centres)
        result = np.empty_like(rows)
        for block in row_blocks(len(rows), self.n_regions):
            nearest = (squares - 2 * (rows[block] @ centres.T)).argmin(axis=1)
            result[block] = (1 - self.strength) * rows[block] + self.strength * points[nearest]
        return result
