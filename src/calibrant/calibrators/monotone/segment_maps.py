"""Increasing functions that are linear between knots, as sums of columns times parameters, and their penalty."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.numerics.linear_segments import LinearSegments

__all__ = ["SegmentMaps", "mixed_log_odds"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# As a share of the slope of temperature scaling: flat to the eye, and still increasing.
LEAST_SLOPE = 1e-3


@dataclass(frozen=True, eq=False)
class SegmentMaps:
    r"""The functions :math:`u(x) = b + \sum_j s_j\, g_j(x)` of given knots, in the parameters :math:`\theta = (b, s)`.

    :math:`g_j` are the features of :class:`~calibrant.numerics.linear_segments.LinearSegments`, so that b is the
    value at the first knot, or at zero without knots.

    Attributes
    ----------
    knots : ndarray of shape (m - 1,)
        Strictly increasing.

    Examples
    --------
    >>> maps = SegmentMaps(np.array([-1.0, 0.0, 3.0]))
    >>> maps.middle, maps.unchanged
    (0.0, array([-1.,  1.,  1.,  1.,  1.]))
    >>> maps.unchanged @ maps.columns(np.array([-2.0, 0.5, 4.0]))
    array([-2. ,  0.5,  4. ])

    A function that is shifted by two, wherever it is looked at, costs four:

    >>> away = np.array([2.0, 0.0, 0.0, 0.0, 0.0])
    >>> float(away @ maps.strengths(1.0, 1.0, 1.0) @ away)
    4.0
    """

    knots: Vector

    @cached_property
    def segments(self) -> LinearSegments:
        """The functions without their value b."""
        return LinearSegments(self.knots)

    @property
    def n_slopes(self) -> int:
        """Number of slopes, m."""
        return self.segments.n_segments

    @property
    def middle(self) -> float:
        """Where the shift is measured: the median of the knots; zero without knots.

        If the two classes change places the knots change their signs, and so does this.
        """
        return float(np.median(self.knots)) if len(self.knots) else 0.0

    @property
    def unchanged(self) -> Vector:
        """The parameters of the identity, (m + 1,)."""
        return np.append(self.knots[0] if len(self.knots) else 0.0, np.ones(self.n_slopes))

    @property
    def lower(self) -> Vector:
        """Lower bounds of the parameters, (m + 1,)."""
        return np.append(-np.inf, np.full(self.n_slopes, LEAST_SLOPE))

    def columns(self, x: Vector) -> Matrix:
        """Return what every parameter is multiplied by, (m + 1, n); O(nm)."""
        columns = np.empty((self.n_slopes + 1, len(x)))
        columns[0] = 1.0
        columns[1:] = self.segments.features(x)
        return columns

    def strengths(self, intercept_penalty: float, slope_penalty: float, difference_penalty: float) -> Matrix:
        r"""Return the matrix M, (m + 1, m + 1), of a penalty on what differs from the identity, :math:`d^\top M d`.

        .. math:: \lambda_b \big(u(c) - c\big)^2 + \lambda_s \sum_j (s_j - 1)^2 + \lambda_d \sum_j (s_{j+1} - s_j)^2

        with c the :attr:`middle`.
        """
        at_middle = self.columns(np.array([self.middle]))[:, 0]
        differences = np.diff(np.eye(self.n_slopes), axis=0)
        strengths: Matrix = intercept_penalty * np.outer(at_middle, at_middle)
        strengths[1:, 1:] += slope_penalty * np.eye(self.n_slopes)
        strengths[1:, 1:] += difference_penalty * differences.T @ differences
        return strengths


def mixed_log_odds(log_odds: Vector, steepness: float, share: float) -> Vector:
    """Return log-odds times the steepness, with a share of the even chance mixed in.

    >>> mixed_log_odds(np.log([9.0, 1.0]), 0.5, 0.0).round(3), mixed_log_odds(np.array([1e9]), 1.0, 0.5).round(3)
    (array([1.099, 0.   ]), array([1.099]))
    """
    scaled = log_odds * steepness
    if share == 0:
        return scaled
    happens, fails = ((1 - share) * expit(part) + share / 2 for part in (scaled, -scaled))
    mixed: Vector = np.log(happens) - np.log(fails)
    return mixed
