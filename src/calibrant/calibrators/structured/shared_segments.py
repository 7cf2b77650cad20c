"""Shared monotone map of structured scaling: slopes per score segment, and by the mean of the row."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.graph import Value
from calibrant.graph.curves import Piecewise, Ramps
from calibrant.numerics.linear_segments import LinearSegments
from calibrant.numerics.reductions import row_sums

__all__ = ["LEAST_SLOPE", "Places", "RowScales", "SharedSegments", "mean_features"]


def mean_features(features: FloatArray) -> FloatArray:
    r"""Return the mean :math:`\bar x` of rows of log-probabilities, (n,).

    It says how decided a row is: :math:`-\bar x - \log K` is the divergence of the row from the uniform distribution,
    zero for even odds and large where most classes are ruled out.

    >>> mean_features(np.log([[0.5, 0.5], [0.9, 0.1]])).round(6)
    array([-0.693147, -1.203973])
    """
    means: FloatArray = row_sums(features)
    means /= features.shape[1]
    return means


@dataclass(frozen=True, eq=False)
class RowScales:
    r"""A function :math:`\tau(\bar x)` of a row's mean log-probability, linear between knots and constant beyond them.

    .. math:: \tau(\bar x) = \sum_{r=1}^R t_r\, h_r(\bar x)

    with the hat functions h, of which :math:`h_r` is one at knot r and zero at all others. Costs one sum per row.

    Attributes
    ----------
    knots : ndarray of shape (R,)
        Mean log-probabilities, strictly increasing; two at least.

    Examples
    --------
    >>> scales = RowScales(np.array([-1.0, 0.0]))
    >>> undecided = np.log([[0.5, 0.5]])                              # of mean -log 2
    >>> scales.hat_functions(undecided).round(4)
    array([[0.6931, 0.3069]])
    >>> scales.factors(np.array([10.0, 0.0]), undecided).round(4)
    array([6.9315])
    """

    knots: Vector

    @property
    def n_knots(self) -> int:
        """Number of values, R."""
        return len(self.knots)

    def hat_functions(self, features: FloatArray) -> FloatArray:
        """Return every hat function of the mean of every row, (n, R), in the float type of the features."""
        of_rows = mean_features(features)
        hat_functions = np.empty((len(of_rows), self.n_knots), features.dtype)
        for knot, values in enumerate(np.eye(self.n_knots)):
            hat_functions[:, knot] = np.interp(of_rows, self.knots, values)
        return hat_functions

    def factors(self, values: FloatArray, features: FloatArray) -> FloatArray:
        """Return the function for every row, (n,), from its values at the knots."""
        return np.interp(mean_features(features), self.knots, values).astype(features.dtype)

    def traced(self, values: Vector, x: Value) -> Value:
        """Return the function of symbolic rows, one column, from its values at the knots."""
        return x.row("mean").then(Piecewise.linear(self.knots, values)).narrowed()


# As a share of the slope of temperature scaling: flat to the eye, and still increasing.
LEAST_SLOPE = 1e-3

# Share of scores above the first knot from which on it is cheaper to treat all alike than to pick those out.
MANY_ABOVE = 0.3


class Places(NamedTuple):
    """Places of the scores of a block of rows on the segments, a cache for further passes.

    ``above`` holds the flat places of scores beyond the first knot, or None if these are most of them; with many classes
    all but a few are below. ``hat_functions`` are those of the rows' means, (n, R), if there are any.
    """

    above: NDArray[np.int32] | None
    hat_functions: FloatArray | None


@dataclass(frozen=True, eq=False)
class SharedSegments:
    r"""The features of :math:`\varphi_s(x) + \tau_t(\bar x)\, x`, a function of a score x and of the mean of its row.

    Slopes s between the knots of :math:`\varphi` come first, then the values t of :math:`\tau` at its own knots,
    which are slopes as well: of all scores in a row. It increases with x if s is positive and t not negative.

    Attributes
    ----------
    scores : LinearSegments
        Segments of :math:`\varphi`.
    rows : RowScales or None
        Knots of :math:`\tau`; None for no such function.

    Examples
    --------
    >>> shared = SharedSegments(LinearSegments(np.array([-1.0])), None)
    >>> x = np.array([[-2.0, -0.5]])
    >>> shared.values(np.array([1.0, 2.0]), x), shared.adjoint(np.ones((1, 2)), x)
    (array([[-1.,  1.]]), array([-1. ,  0.5]))
    """

    scores: LinearSegments
    rows: RowScales | None

    @property
    def n_slopes(self) -> int:
        """Number of parameters, of both kinds."""
        return self.scores.n_segments + (0 if self.rows is None else self.rows.n_knots)

    @property
    def identity(self) -> Vector:
        """Parameters that add a constant to all scores, and nothing else."""
        return np.where(np.arange(self.n_slopes) < self.scores.n_segments, 1.0, 0.0)

    @property
    def lower(self) -> Vector:
        """Least values with which the map is increasing."""
        return LEAST_SLOPE * self.identity

    @cached_property
    def _above(self) -> tuple[Vector, Vector]:
        """Starts and ends of all segments but the first, each (m - 1,)."""
        return self.scores.knots, np.append(self.scores.knots[1:], np.inf)

    @cached_property
    def _first_knot(self) -> float:
        return float(self.scores.knots[0]) if len(self.scores.knots) else 0.0

    def places(self, x: FloatArray) -> Places:
        """Return the places of a block of scores, (n, K)."""
        above: NDArray[np.int32] | None = None
        if len(self.scores.knots):
            found = np.flatnonzero(x.ravel() > x.dtype.type(self._first_knot))
            above = found.astype(np.int32) if len(found) < MANY_ABOVE * x.size else None
        return Places(above, None if self.rows is None else self.rows.hat_functions(x))

    def values(self, slopes: FloatArray, x: FloatArray, places: Places | None = None) -> FloatArray:
        """Return the map of every score, (n, K); a new array."""
        x = np.ascontiguousarray(x)  # otherwise writes through a flat view would be lost
        places = places or self.places(x)
        kind, size = x.dtype.type, self.scores.n_segments
        values: FloatArray = x - kind(self._first_knot)
        upper = x if places.above is None else x.ravel().take(places.above)
        if len(self.scores.knots):
            segment, bent = np.empty_like(upper), np.zeros_like(upper)
            if places.above is None:
                np.minimum(values, kind(0), out=values)
            values *= kind(slopes[0])
            for slope, low, high in zip(slopes[1:size], *self._above, strict=True):
                # Clipped scores, one segment after the other, are cheaper than to look up the segment of each.
                np.clip(upper, kind(low), kind(high), out=segment)
                segment *= kind(slope)
                bent += segment
            bent -= kind(slopes[1:size] @ self._above[0])
            if places.above is None:
                values += bent
            else:
                values.ravel()[places.above] = bent
        else:
            values *= kind(slopes[0])
        if places.hat_functions is not None:
            factors = places.hat_functions.astype(x.dtype, copy=False) @ slopes[size:].astype(x.dtype)
            values += x * factors[:, np.newaxis]
        return values

    def traced(self, slopes: Vector, x: Value) -> Value:
        """Return the map of symbolic scores."""
        size = self.scores.n_segments
        values = x.then(Ramps(self.scores.knots, slopes[:size]))
        return values if self.rows is None else values + x * self.rows.traced(slopes[size:], x)

    def adjoint(self, cotangent: FloatArray, x: FloatArray, places: Places | None = None) -> Vector:
        """Return the derivatives in the slopes of a sum whose derivatives in the values are ``cotangent`` (n, K)."""
        places = places or self.places(x)
        kind, size = x.dtype.type, self.scores.n_segments
        of_rows = np.einsum("ik,ik->i", cotangent, x)
        slopes = np.empty(self.n_slopes)
        flat = np.ascontiguousarray(cotangent).ravel()
        # All scores on the first segment, less what those above contribute beyond its end.
        slopes[0] = of_rows.sum(dtype=np.float64) - self._first_knot * float(flat.sum())
        if len(self.scores.knots):
            upper, own = (
                (np.ascontiguousarray(x).ravel(), flat)
                if places.above is None
                else (x.ravel().take(places.above), flat.take(places.above))
            )
            segment = np.empty_like(upper)
            total = float(own.sum())
            for place, (low, high) in enumerate(zip(*self._above, strict=True), start=1):
                np.clip(upper, kind(low), kind(high), out=segment)
                slopes[place] = float(own @ segment) - low * total
            slopes[0] -= slopes[1:size].sum()
        if places.hat_functions is not None:
            slopes[size:] = of_rows @ places.hat_functions
        return slopes

    def features(self, x: FloatArray) -> FloatArray:
        """Return what every parameter is multiplied by, (n_slopes, n, K); for blocks of rows."""
        size = self.scores.n_segments
        features = np.empty((self.n_slopes, *x.shape), x.dtype)
        features[:size] = self.scores.features(x)
        if self.rows is not None:
            np.multiply(x, self.rows.hat_functions(x).T[:, :, np.newaxis], out=features[size:])
        return features
