"""Functions of one variable that are linear between knots, as sums of segments with their own slopes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from calibrant.arrays import FloatArray, Vector
from calibrant.numerics.row_blocks import BlockSums

__all__ = ["LinearSegments", "Range", "summed_quantiles", "weighted_quantiles"]


# Points of the grid on which values are counted, and number of its refinements around the quantiles.
GRID, ZOOMS = 4096, 2
# Share of the weight on either side of a quantile that rounding may move. Between two values without others in between,
# such as those of two classes that mirror each other, the quantile becomes their midpoint.
MARGIN = 1e-6


@dataclass(frozen=True, eq=False)
class LinearSegments:
    r"""The features :math:`g_1(x), \dots, g_m(x)` of a function that is linear between m - 1 knots.

    .. math:: \varphi(x) = \sum_{j=1}^m s_j\, g_j(x), \qquad
              g_1 = \min(x, k_1) - k_1, \quad g_j = \mathrm{clip}(x, k_{j-1}, k_j) - k_{j-1}, \quad
              g_m = \max(x, k_{m-1}) - k_{m-1}

    so that :math:`s_j` is the slope between two neighbouring knots, or beyond the outer ones, and the
    function is zero at the first knot. With all slopes one it is :math:`x - k_1`. Without knots it is
    :math:`s_1 x`.

    Attributes
    ----------
    knots : ndarray of shape (m - 1,)
        Strictly increasing.

    Notes
    -----
    Values cost O(log m) per number, features O(m) of time and memory: hand over blocks of rows. Both have the float
    type of what comes in.

    Examples
    --------
    >>> segments = LinearSegments(np.array([0.0, 1.0]))
    >>> x = np.array([-2.0, 0.5, 3.0])
    >>> segments.features(x)
    array([[-2. , 0. , 0. ], [ 0. , 0.5, 1. ], [ 0. , 0. , 2. ]])
    >>> slopes = np.array([1.0, 2.0, 0.5])
    >>> segments.values(slopes, x), slopes @ segments.features(x)
    (array([-2.,  1.,  3.]), array([-2.,  1.,  3.]))
    >>> segments.adjoint(np.ones(3), x)                      # derivatives of the sum of all values
    array([-2. ,  1.5,  2. ])
    """

    knots: Vector

    @property
    def n_segments(self) -> int:
        """Number of slopes, m."""
        return len(self.knots) + 1

    @cached_property
    def _starts(self) -> Vector:
        """Zero of every segment, (m,)."""
        return np.append(self.knots[:1], self.knots) if len(self.knots) else np.zeros(1)

    def values(self, slopes: FloatArray, x: FloatArray) -> FloatArray:
        """Return the function at every ``x``, in its shape; a new array."""
        lengths = np.diff(self.knots)
        heights = np.concatenate([[0.0], [0.0], np.cumsum(slopes[1:-1] * lengths)])[: self.n_segments]
        starts, rates, heights = (part.astype(x.dtype) for part in (self._starts, slopes, heights))
        place = np.searchsorted(self.knots.astype(x.dtype), x)
        values: FloatArray = x - starts[place]
        values *= rates[place]
        values += heights[place]
        return values

    def features(self, x: FloatArray) -> FloatArray:
        """Return every segment at every ``x``, (m, *x.shape)."""
        features = np.empty((self.n_segments, *x.shape), x.dtype)
        edges = np.concatenate([[-np.inf], self.knots, [np.inf]]).astype(x.dtype)
        for own, start, low, high in zip(
            features, self._starts.astype(x.dtype), edges[:-1], edges[1:], strict=True
        ):
            np.clip(x, low, high, out=own)
            own -= start
        return features

    def adjoint(self, gradients: FloatArray, x: FloatArray) -> Vector:
        """Return the derivatives in the slopes, (m,), of a sum whose derivatives in the values are ``gradients``."""
        place = np.searchsorted(self.knots.astype(x.dtype), x)
        within = gradients * (x - self._starts.astype(x.dtype)[place])
        slopes: Vector = np.bincount(place.ravel(), within.ravel(), self.n_segments).astype(np.float64)
        # An x beyond a segment sees its whole length, except for the first, which is zero from its end on.
        beyond = np.bincount(place.ravel(), gradients.ravel(), self.n_segments)[::-1].cumsum()[::-1]
        slopes[1:-1] += np.diff(self.knots) * beyond[2:]
        return slopes


def weighted_quantiles(values: FloatArray, weights: Callable[[slice], FloatArray], shares: Vector) -> Vector:
    """Return where the weight to the left is the given share of all weight; strictly increasing.

    Values are counted on a fine grid that is refined around the quantiles, by linear binning. So the result is continuous in
    the values, and needs no sort.

    Parameters
    ----------
    values : ndarray of shape (n, K)
        Values whose quantiles are returned.
    weights : callable
        Gives the weights of some rows, in the shape of their values, not negative.
    shares : ndarray of shape (q,)
        Increasing, strictly between 0 and 1.

    Returns
    -------
    ndarray
        One per share; fewer if some are too close to be distinguished, none if all values are equal or all weights zero.

    Notes
    -----
    Costs O(nK) time and the memory of a block of rows. Exact to about a thousandth of the distance between the outer
    quantiles.

    Examples
    --------
    >>> values = np.linspace(0, 1, 10_001)[:, np.newaxis]
    >>> weighted_quantiles(values, lambda rows: np.ones_like(values[rows]), np.array([0.25, 0.5])).round(3)
    array([0.25, 0.5 ])
    """
    with BlockSums.over(*values.shape) as in_all_blocks:
        return summed_quantiles(
            in_all_blocks,
            lambda rows: values[rows],
            weights,
            shares,
            float(np.finfo(values.dtype).eps),
        )


def summed_quantiles(
    summed: Callable[[Callable[[Any], Any]], Any],
    values: Callable[[Any], FloatArray],
    weights: Callable[[Any], FloatArray],
    shares: Vector,
    rounding: float,
) -> Vector:
    """Return :func:`weighted_quantiles` of values that are given block by block.

    Parameters
    ----------
    summed : callable
        Adds up what every block contributes; it is called three times.
    values, weights : callable
        Give the values of a block and their weights, both in one shape; the first pass needs the values only.
    shares : ndarray of shape (q,)
        Increasing, strictly between 0 and 1.
    rounding : float
        Relative rounding of the values.
    """
    if len(shares) == 0:
        return np.empty(0)
    low, high = summed(lambda block: Range.of(values(block)))
    wanted = np.concatenate([shares - MARGIN, shares + MARGIN])
    found = np.empty(0)
    for _ in range(ZOOMS):
        width = (high - low) / (GRID - 1)
        if width <= 0:
            return np.empty(0)
        counts = summed(lambda block: _counts(values(block), weights(block), low, width))  # noqa: B023
        heap = np.append(0.0, counts.cumsum())
        if heap[-1] == 0:
            return np.empty(0)
        edges = low + width * (np.arange(GRID + 1) - 0.5)
        found = np.interp(wanted * heap[-1], heap, edges)
        low, high = max(low, found.min() - 2 * width), min(high, found.max() + 2 * width)
    middles = np.unique((found[: len(shares)] + found[len(shares) :]) / 2)
    # Steps that drown in the rounding of the values would make segments of no length.
    apart = np.diff(middles, prepend=-np.inf) > 8 * rounding * np.abs(middles)
    return middles[apart]


class Range(NamedTuple):
    """Smallest and largest of some values; the sum of two ranges holds both."""

    low: float
    high: float

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """Return the range of an array."""
        return cls(float(values.min()), float(values.max()))

    def __add__(self, other: Self) -> Self:  # type: ignore[override]
        return type(self)(min(self.low, other.low), max(self.high, other.high))


def _counts(values: FloatArray, weights: FloatArray, low: float, width: float) -> Vector:
    """Return the weight at every point of the grid; what is outside of it counts for its ends."""
    places = np.clip((values.astype(np.float64).ravel() - low) / width, 0, GRID - 1)
    left = np.minimum(places.astype(np.intp), GRID - 2)
    right_part = weights.ravel() * (places - left)
    counts: Vector = np.bincount(left, weights.ravel() - right_part, GRID).astype(np.float64, copy=False)
    counts[1:] += np.bincount(left, right_part, GRID)[:-1]
    return counts
