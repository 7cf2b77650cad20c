"""A set of increasing curves on the same knots, for averages over draws of a monotone process."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.increasing_curve import IncreasingCurve, Pieces, parabolas
from calibrant.numerics.row_blocks import BlockSums
from calibrant.objective.losses import softmax_in_place

__all__ = ["MonotoneCurves"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MonotoneCurves:
    """Increasing functions with common knots.

    Attributes
    ----------
    knots : ndarray of shape (m,)
    slopes : ndarray of shape (n_curves, m)
        Positive.
    levels : ndarray of shape (n_curves,)
        Values at the last knot.

    Examples
    --------
    >>> curves = MonotoneCurves(np.array([-1.0, 0.0]), np.array([[1.0, 1.0], [2.0, 2.0]]), np.zeros(2))
    >>> curves(np.array([-1.0, 0.0, 1.0]))
    array([[-1.,  0.,  1.], [-2.,  0.,  2.]])
    >>> curves.mean_softmax(np.log([[0.5, 0.25, 0.25]])).round(4)         # half of 1/2, 1/4, 1/4 and of 2/3, 1/6, 1/6
    array([[0.5833, 0.2083, 0.2083]])
    """

    knots: Vector
    slopes: Matrix
    levels: Vector

    def __len__(self) -> int:
        return len(self.slopes)

    def __iter__(self) -> Iterator[IncreasingCurve]:
        """Go through the curves one by one."""
        for slopes, level in zip(self.slopes, self.levels, strict=True):
            yield IncreasingCurve(self.knots, slopes, float(level))

    def __call__(self, x: FloatArray) -> Vector:
        """Return the value of every curve at every x, (n_curves, ...)."""
        return np.stack([curve(x) for curve in self])

    def mean_softmax(self, scores: FloatArray) -> Matrix:
        r"""Return :math:`\frac1n \sum_g \mathrm{softmax}(g(z_{i1}), \dots, g(z_{iK}))`, (n, K).

        Every curve keeps the order of a row, hence so does the mean, but for rounding. Costs O(nK) time
        for each curve; memory for the result and one block of rows.
        """
        pieces = Pieces(self.knots)
        tables = list(zip(*pieces.coefficients(self.slopes), strict=True))
        result = np.zeros(scores.shape)

        def fill(rows: slice) -> int:
            piece = pieces.locate(scores[rows])
            place = pieces.places(scores[rows], piece)
            total = result[rows]
            for table in tables:
                shares = parabolas(table, piece, place)
                softmax_in_place(shares)
                total += shares
            total /= len(tables)
            return 1

        with BlockSums.over(*scores.shape) as in_all_blocks:
            in_all_blocks(fill)
        return result
