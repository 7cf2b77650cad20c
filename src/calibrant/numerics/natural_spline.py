"""Natural cubic splines: smooth curves through a few knots, and the best of them for some data."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["NaturalSpline", "mean_slope_basis", "natural_basis"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Shorter stretches lose the digits of a difference; over them Simpson's rule is exact for a parabola, and off by
# about the square of their length where a knot lies inside.
SHORT = 1e-6

# Directions in which the data say less than this, relative to the clearest, say nothing.
RANK_TOLERANCE = 1e-8


def natural_basis(knots: Vector, x: Vector, order: int = 0) -> Matrix:
    r"""Return the values at x of the m natural splines that are one at one knot and zero at all others, (n, m).

    With :math:`M` the second derivatives at the knots, which solve a tridiagonal system and are zero at both
    ends, the spline between two knots at distance d, :math:`u` and :math:`1 - u` of the way from them, is

    .. math:: (1 - u) y_j + u y_{j+1} + \tfrac{d^2}{6} \left[ ((1 - u)^3 - (1 - u)) M_j + (u^3 - u) M_{j+1} \right]

    and a straight line beyond the first and the last knot. ``order`` is that of the derivative, 0 or 1. Costs O(nm)
    time and memory, and O(m^3) once.

    >>> natural_basis(np.array([0.0, 1.0]), np.array([0.25, 2.0]))
    array([[ 0.75,  0.25], [-1.  ,  2.  ]])
    >>> natural_basis(np.array([0.0, 1.0]), np.array([0.25]), order=1)
    array([[-1.,  1.]])
    """
    curvature = _second_derivatives(knots)
    inside = np.clip(x, knots[0], knots[-1])
    left = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, len(knots) - 2)
    distance = np.diff(knots)[left]
    right_share = (inside - knots[left]) / distance
    left_share = 1 - right_share
    rows = np.arange(len(x))
    slopes = _combined(
        curvature, left, distance / 6 * (1 - 3 * left_share**2), distance / 6 * (3 * right_share**2 - 1)
    )
    slopes[rows, left] -= 1 / distance
    slopes[rows, left + 1] += 1 / distance
    if order == 1:
        return slopes
    values = _combined(
        curvature,
        left,
        distance**2 / 6 * (left_share**3 - left_share),
        distance**2 / 6 * (right_share**3 - right_share),
    )
    values[rows, left] += left_share
    values[rows, left + 1] += right_share
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


def _second_derivatives(knots: Vector) -> Matrix:
    """Return the matrix that makes second derivatives at the knots of the values there, (m, m)."""
    n_knots = len(knots)
    curvature = np.zeros((n_knots, n_knots))
    if n_knots == 2:
        return curvature
    distance = np.diff(knots)
    before, after = np.diag(distance[:-1]), np.diag(distance[1:])
    system = (before + after) / 3
    system[1:, :-1] += np.diag(distance[1:-1]) / 6
    system[:-1, 1:] += np.diag(distance[1:-1]) / 6
    bends = np.zeros((n_knots - 2, n_knots))
    inner = np.arange(n_knots - 2)
    bends[inner, inner] = 1 / distance[:-1]
    bends[inner, inner + 1] = -1 / distance[:-1] - 1 / distance[1:]
    bends[inner, inner + 2] = 1 / distance[1:]
    curvature[1:-1] = np.linalg.solve(system, bends)
    return curvature


def _combined(curvature: Matrix, left: NDArray[np.intp], of_left: Vector, of_right: Vector) -> Matrix:
    """Return for every place its multiples of the second derivatives at the knots on its two sides, (n, m)."""
    combined: Matrix = of_left[:, np.newaxis] * curvature[left]
    combined += of_right[:, np.newaxis] * curvature[left + 1]
    return combined
