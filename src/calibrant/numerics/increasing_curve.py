"""Smooth increasing functions of one variable, given by their slopes at knots."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Matrix, Vector

__all__ = ["IncreasingCurve", "Pieces", "parabolas"]


@dataclass(frozen=True, eq=False)
class Pieces:
    r"""The pieces between knots :math:`t_1 < \dots < t_m`, and two beyond the ends.

    A function whose slope is :math:`\xi_j` at knot j, straight in between and constant beyond the ends, is a parabola
    on every piece and zero at the last knot if

    .. math:: g(x) = -\int_x^{t_m} \sum_j \xi_j\, \psi_j(s)\, ds,

    with hat functions :math:`\psi_j \ge 0`. It is linear in the slopes. With the place
    :math:`u \in [0, 1]` of x on its piece, :math:`g = a + u (b + u c)`, where a, b and c depend on the piece only.

    Attributes
    ----------
    knots : ndarray of shape (m,)
        At least two, strictly increasing.

    Examples
    --------
    >>> pieces = Pieces(np.array([0.0, 1.0, 2.0]))
    >>> pieces.locate(np.array([-3.0, 0.5, 2.0]))
    array([0, 1, 3])
    >>> pieces.values(np.array([1.0, 1.0, 3.0]), np.array([-1.0, 0.0, 1.5, 2.0, 3.0]))
    array([-4.  , -3.  , -1.25,  0.  ,  3.  ])
    """

    knots: Vector

    def locate(self, x: FloatArray) -> NDArray[np.intp]:
        """Return the number of the piece of every x: 0 before the first knot, m from the last one on."""
        return np.searchsorted(self.knots, x, side="right")

    def places(self, x: FloatArray, piece: NDArray[np.integer]) -> Vector:
        """Return where on its piece every x lies: from 0 to 1, beyond the ends in units of the nearest piece."""
        starts, rates = self.frames()
        place: Vector = x - starts.take(piece)
        place *= rates.take(piece)
        return place

    def coefficients(self, slopes: Vector) -> tuple[Vector, Vector, Vector]:
        """Return a, b and c of every piece, each (..., m + 1), for slopes (..., m)."""
        widths = np.diff(self.knots)
        rises = slopes[..., :-1] * widths
        bends = np.diff(slopes, axis=-1) * (widths / 2)
        level = np.zeros((*slopes.shape[:-1], 1))
        # Summed from the end: near the last knot, where it matters most, nothing large cancels.
        below = -np.cumsum((rises + bends)[..., ::-1], axis=-1)[..., ::-1]
        base = np.concatenate([below[..., :1], below, level], axis=-1)
        beyond = slopes[..., -1:] * widths[-1]
        rise = np.concatenate([rises[..., :1], rises, beyond], axis=-1)
        bend = np.concatenate([level, bends, level], axis=-1)
        return base, rise, bend

    def features(self) -> tuple[Matrix, Matrix, Matrix]:
        """Return a, b and c as matrices (m + 1, m) that multiply the slopes."""
        base, rise, bend = self.coefficients(np.eye(len(self.knots)))
        return base.T, rise.T, bend.T

    def features_at(self, x: Vector) -> Matrix:
        """Return the row (m,) for every x, (..., m), whose product with the slopes is the value there."""
        piece = self.locate(x)
        place = self.places(x, piece)[..., np.newaxis]
        base, rise, bend = self.features()
        rows: Matrix = base[piece] + place * (rise[piece] + place * bend[piece])
        return rows

    def values(self, slopes: Vector, x: FloatArray) -> Vector:
        """Return the value at every x, in its shape."""
        piece = self.locate(x)
        return parabolas(self.coefficients(slopes), piece, self.places(x, piece))

    def frames(self) -> tuple[Vector, Vector]:
        """Return where every piece has its place zero, and one over the length of its unit."""
        widths = np.diff(self.knots)
        starts = np.append(self.knots[0], self.knots)
        return starts, 1 / np.concatenate([widths[:1], widths, widths[-1:]])


def parabolas(
    coefficients: tuple[Vector, Vector, Vector], piece: NDArray[np.integer], place: Vector
) -> Vector:
    """Return a + u (b + u c) with the coefficients of each entry's piece; a new array."""
    base, rise, bend = coefficients
    values: Vector = bend.take(piece)
    values *= place
    values += rise.take(piece)
    values *= place
    values += base.take(piece)
    return values


@dataclass(frozen=True, eq=False)
class IncreasingCurve:
    r"""A function with positive slopes at knots, hence increasing everywhere.

    Between two knots its slope is :math:`(1 - u)\, \xi_j + u\, \xi_{j+1}` with :math:`0 \le u \le 1`, at least the
    smaller of the two, and beyond the ends it is that of the nearest knot. So the slope is positive everywhere,
    not only at the knots, and :math:`g(y) - g(x) = \int_x^y g' > 0` for all :math:`x < y`.

    Attributes
    ----------
    knots, slopes : ndarray of shape (m,)
    level : float
        Value at the last knot.

    Examples
    --------
    >>> curve = IncreasingCurve(np.array([0.0, 1.0]), np.array([0.0, 2.0]), level=1.0)
    >>> curve(np.array([-1.0, 0.0, 0.5, 1.0, 2.0]))
    array([0.  , 0.  , 0.25, 1.  , 3.  ])
    """

    knots: Vector
    slopes: Vector
    level: float = 0.0

    def __call__(self, x: FloatArray) -> Vector:
        """Return the value at every x, in its shape; O(log m) each."""
        return Pieces(self.knots).values(self.slopes, x) + self.level
