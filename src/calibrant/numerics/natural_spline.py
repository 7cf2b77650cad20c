"""Natural cubic splines: smooth curves through a few knots, and the best of them for some data."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.interpolate import CubicSpline

from calibrant.arrays import Matrix, Vector

__all__ = ["NaturalSpline", "mean_slope_basis", "natural_basis"]


# Shorter stretches lose the digits of a difference; over them Simpson's rule is exact for a parabola, and off by
# about the square of their length where a knot lies inside.
SHORT = 1e-6

# Directions in which the data say less than this, relative to the clearest, say nothing.
RANK_TOLERANCE = 1e-8


def natural_basis(knots: Vector, x: Vector, order: int = 0) -> Matrix:
    r"""Return the values at x of the m natural splines that are one at one knot and zero at all others, (n, m).

    They are cubic between knots, with two continuous derivatives of which the second is zero at both ends, and straight
    lines beyond the first and the last knot. ``order`` is that of the derivative, 0 or 1. Costs O(nm) time and memory.

    >>> natural_basis(np.array([0.0, 1.0]), np.array([0.25, 2.0]))
    array([[ 0.75,  0.25], [-1.  ,  2.  ]])
    >>> natural_basis(np.array([0.0, 1.0]), np.array([0.25]), order=1)
    array([[-1.,  1.]])
    """
    basis = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
    inside = np.clip(x, knots[0], knots[-1])
    slopes: Matrix = basis(inside, 1)
    if order == 1:
        return slopes
    values: Matrix = basis(inside)
    # scipy would continue the outermost cubics.
    values += (x - inside)[:, np.newaxis] * slopes
    return values


def mean_slope_basis(knots: Vector, starts: Vector, ends: Vector) -> Matrix:
    """Return the mean slope of each basis spline from every start to its end, (n, m); of one place the slope there.

    >>> mean_slope_basis(np.array([0.0, 1.0]), np.array([0.25, 0.5]), np.array([0.75, 0.5]))
    array([[-1.,  1.], [-1.,  1.]])
    """
    length = ends - starts
    long = length > SHORT
    means = np.empty((len(starts), len(knots)))
    difference = natural_basis(knots, ends[long]) - natural_basis(knots, starts[long])
    means[long] = difference / length[long, np.newaxis]
    if not long.all():
        starts, ends = starts[~long], ends[~long]
        middle = natural_basis(knots, (starts + ends) / 2, order=1)
        outer = natural_basis(knots, starts, order=1) + natural_basis(knots, ends, order=1)
        means[~long] = (outer + 4 * middle) / 6
    return means


@dataclass(frozen=True, eq=False)
class NaturalSpline:
    """A piecewise cubic with two continuous derivatives, straight from its outermost knots on.

    Attributes
    ----------
    knots : ndarray of shape (m,)
        Where the pieces meet, strictly increasing, two or more.
    values : ndarray of shape (m,)
        Values there.

    Examples
    --------
    >>> spline = NaturalSpline(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.0]))
    >>> spline(np.array([0.5, 1.0, 3.0])), spline.slope(np.array([1.0]))
    (array([ 0.6875,  1.    , -1.5   ]), array([0.]))
    """

    knots: Vector
    values: Vector

    @classmethod
    def fit(cls, knots: Vector, basis: Matrix, targets: Vector, weights: Vector) -> tuple[Self, int]:
        r"""Return the spline of least squares, and how many of its m values the data determine.

        .. math:: \min_y \sum_i w_i (t_i - (B y)_i)^2

        where the rows of B are :func:`natural_basis` for targets that are values, or :func:`mean_slope_basis` for
        targets that are mean slopes. Of several solutions that with the least sum of squares at the knots is taken.
        """
        root = np.sqrt(weights)
        values, _, rank, _ = np.linalg.lstsq(
            basis * root[:, np.newaxis], targets * root, rcond=RANK_TOLERANCE
        )
        return cls(knots, values.astype(np.float64)), int(rank)

    def __call__(self, x: Vector) -> Vector:
        """Return the value at every x, (n,)."""
        values: Vector = natural_basis(self.knots, x) @ self.values
        return values

    def slope(self, x: Vector) -> Vector:
        """Return the first derivative at every x, (n,)."""
        slopes: Vector = natural_basis(self.knots, x, order=1) @ self.values
        return slopes
