"""Binning schemes: equal width, equal mass, given edges, and the cube-root rule for the number of bins."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from calibrant.arrays import Float64Array, FloatArray, IntArray
from calibrant.binning.bins import Closed, Partition, as_floats, check_closed, check_n_bins, index_by_search
from calibrant.errors import ParameterError
from calibrant.numerics.rounding import midpoint
from calibrant.options import check_choice

__all__ = ["CubeRoot", "EqualMass", "EqualWidth", "FixedEdges", "nearest_masses"]


@dataclass(frozen=True)
class FixedEdges(Partition):
    """Bins with given edges.

    Parameters
    ----------
    edges : sequence of B + 1 numbers
        Edges of the bins in increasing order. The edge at the closed end may be repeated, for a bin that
        holds only this value: ``FixedEdges((0, 0.5, 1, 1))`` has the bins [0, 0.5), [0.5, 1) and [1, 1].
        The outermost edges may be infinite.
    closed : {"left", "right"}, default="left"
        Bins [a, b) with a closed last one, or (a, b] with a closed first one.

    Notes
    -----
    Costs O(n log B) by binary search.

    Examples
    --------
    >>> FixedEdges((0, 0.5, 1, 1)).index([0.0, 0.49, 0.5, 0.99, 1.0])
    array([0, 0, 1, 1, 2])
    >>> FixedEdges((0, 0.5, 1), closed="right").index([0.0, 0.5, 0.51, 1.0])
    array([0, 0, 1, 1])
    """

    edges: Sequence[float] | FloatArray

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            edges = np.array(self.edges, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError("edges must be numbers, in increasing order.") from error
        if edges.ndim != 1 or len(edges) < 2:
            raise ParameterError(
                f"edges must be a flat array of at least two numbers, but have shape {edges.shape}."
            )
        in_order = edges[1:] > edges[:-1]
        closed_end = len(edges) - 2 if self.closed == "left" else 0
        in_order[closed_end] |= edges[closed_end] == edges[closed_end + 1]
        in_order[1:] &= np.isfinite(edges[1:-1])
        if not in_order.all():
            at = int(np.argmin(in_order))
            raise ParameterError(
                "edges must be finite and increasing (only the one at the closed end may be repeated, and only "
                f"the outermost be infinite), but edge {at} is {edges[at]} and edge {at + 1} is "
                f"{edges[at + 1]}."
            )
        # A tuple makes this an immutable value that can be compared and hashed.
        object.__setattr__(self, "edges", tuple(edges.tolist()))

    def __repr__(self) -> str:
        """Return the edges in full if there are few, else to four significant digits."""
        if len(self.edges) <= MAX_EDGES_SHOWN:
            return f"FixedEdges(closed={self.closed!r}, edges={self.edges!r})"
        return (
            f"FixedEdges(closed={self.closed!r}, edges=({', '.join(f'{edge:.4g}' for edge in self.edges)}))"
        )

    def bin_edges(self) -> Float64Array:
        """Return the edges as an array, (B + 1,)."""
        return np.array(self.edges, dtype=np.float64)

    def index(self, scores: Any) -> IntArray:
        """Return the bin number of every score."""
        return index_by_search(self.bin_edges(), as_floats(scores), self.closed)


@dataclass(frozen=True)
class EqualWidth(Partition):
    r"""Equal-width (uniform) bins.

    .. math:: [a_b, a_{b+1}), \qquad a_b = l + (h - l) \, b / B, \qquad b = 0, \dots, B - 1

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins, B.
    low, high : float, default=0.0 and 1.0
        Range to divide, from l to h; scores outside belong to the nearest bin.
    closed : {"left", "right"}, default="left"
        Bins [a, b) with a closed last one, or (a, b] with a closed first one.

    Notes
    -----
    Costs O(n) for any number of bins: a multiplication gives an approximate bin number, and a comparison
    with the edges of that bin corrects the rounding, so bin numbers agree exactly with the edges.

    Examples
    --------
    >>> EqualWidth(5).index([0.0, 0.19, 0.2, 0.6, 1.0])
    array([0, 0, 1, 3, 4])
    >>> EqualWidth(5, closed="right").index([0.0, 0.19, 0.2, 0.6, 1.0])
    array([0, 0, 0, 2, 4])
    """

    n_bins: int = 15
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_n_bins(self.n_bins)
        if not -np.inf < self.low < self.high < np.inf:
            raise ParameterError(
                f"low must lie below high, both finite, but they are {self.low} and {self.high}."
            )

    def bin_edges(self) -> Float64Array:
        """Return the edges, (B + 1,), each correctly rounded where the range is from 0 to 1."""
        edges = self.low + (self.high - self.low) * np.arange(self.n_bins + 1) / self.n_bins
        edges[-1] = self.high
        return edges

    def index(self, scores: Any) -> IntArray:
        """Return the bin number of every score."""
        scores = as_floats(scores)
        edges = self.bin_edges()
        width = (self.high - self.low) / self.n_bins
        if width < 4 * np.finfo(scores.dtype).eps * max(abs(self.low), abs(self.high)):
            # If bins are as narrow as the spacing of floats, rounding could move a score by more than one bin.
            return index_by_search(edges, scores, self.closed)
        position = np.subtract(scores, self.low, dtype=np.float64)
        position /= width
        index: IntArray = np.clip(position, 0, self.n_bins - 1).astype(np.intp)
        lower, upper = edges[:-1].astype(scores.dtype), edges[1:].astype(scores.dtype)
        lower[0], upper[-1] = -np.inf, np.inf
        if self.closed == "left":
            index += scores >= upper[index]
            index -= scores < lower[index]
        else:
            index += scores > upper[index]
            index -= scores <= lower[index]
        return index


# Relative tolerance: cuts whose distances from the target mass differ by less count as equally near, so that rounding
# of a sum of weights does not decide between them.
MASS_TOLERANCE = 1e-9


@dataclass(frozen=True)
class EqualMass:
    r"""Equal-mass (quantile) bins, each with the same total weight.

    The distinct scores :math:`v_1 < \dots < v_m` are cut between :math:`v_j` and :math:`v_{j+1}` where the
    weight up to :math:`v_j` is nearest to :math:`b/B` of the total, for each b from 1 to B - 1. The edge
    is the midpoint of the two. Equal scores always share a bin, so with many ties there are fewer than
    B bins. No bin is empty.

    Parameters
    ----------
    n_bins : int, default=15
        Maximum number of bins, B.
    closed : {"left", "right"}, default="left"
        Bins [a, b) with a closed last one, or (a, b] with a closed first one; relevant only for scores
        other than those that determined the edges.

    Notes
    -----
    Costs O(n log n) for sorting, O(n) memory. Without ties the numbers of rows differ by at most one between
    bins. Edges range from the smallest to the largest score; other scores outside this range belong to the nearest
    bin.

    Examples
    --------
    >>> EqualMass(3)(np.array([0.1, 0.2, 0.3, 0.5, 0.8, 0.9])).bin_edges()
    array([0.1 , 0.25, 0.65, 0.9 ])
    >>> EqualMass(3)(np.array([0.1, 0.2, 1.0, 1.0, 1.0, 1.0])).bin_edges()
    array([0.1, 0.6, 1. ])
    """

    n_bins: int = 15
    closed: Closed = field(default="left", kw_only=True)

    def __post_init__(self) -> None:
        check_n_bins(self.n_bins)
        check_closed(self.closed)

    def __call__(self, scores: FloatArray, weights: Float64Array | None = None, /) -> FixedEdges:
        """Return the bins for these scores, a non-empty array of shape (n,), and weights."""
        scores = as_floats(scores)
        if weights is None:
            ordered = np.sort(scores)
            cumulative = np.arange(1, len(scores) + 1, dtype=np.float64)
        else:
            order = np.argsort(scores)
            ordered, cumulative = scores[order], np.cumsum(weights[order])
        last_of_equals = np.flatnonzero(ordered[1:] != ordered[:-1])
        # The masses below each possible cut; the first and last stand for no cut.
        mass = np.concatenate([[0.0], cumulative[last_of_equals], cumulative[-1:]])
        cuts = self.cuts(mass)
        before = last_of_equals[cuts - 1]
        inner = self._between(ordered[before], ordered[before + 1])
        return FixedEdges([ordered[0], *inner, ordered[-1]], closed=self.closed)

    def cuts(self, mass: Float64Array) -> IntArray:
        """Return where to cut, for the cumulative mass at each possible cut, (m + 1,), from zero to the total; increasing."""
        nearest = nearest_masses(mass, mass[-1] * np.arange(1, self.n_bins) / self.n_bins)
        return np.unique(nearest[(nearest > 0) & (nearest < len(mass) - 1)])

    def _between(self, below: FloatArray, above: FloatArray) -> FloatArray:
        """Return edges that separate the two even if no float lies between them."""
        if self.closed == "left":
            return midpoint(below, above)
        return -midpoint(-above, -below)  # or the lower one


def nearest_masses(mass: Float64Array, target: Float64Array) -> IntArray:
    """Return the position of the mass nearest to each target, for increasing masses; ties go to the upper one.

    >>> nearest_masses(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.4, 1.5, 2.6]))
    array([0, 2, 3])
    """
    upper = np.clip(np.searchsorted(mass, target), 1, len(mass) - 1)
    lower_is_nearer = target - mass[upper - 1] < mass[upper] - target - MASS_TOLERANCE * mass[-1]
    nearest: IntArray = upper - lower_is_nearer
    return nearest


# Largest number of edges that are printed with all digits.
MAX_EDGES_SHOWN = 8


@dataclass(frozen=True)
class CubeRoot:
    r"""Bins of equal mass or width, as many as the cube root of the number of rows, rounded up.

    :math:`B = \lceil n^{1/3} \rceil` is of the order that minimises the error of a binned calibration error :cite:`sun2023`.
    Metrics use it for ``n_bins="cube_root"``.

    Parameters
    ----------
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal weight, or of equal width from 0 to 1.

    Notes
    -----
    Rows are counted whatever their weight; those of weight zero are not.

    Examples
    --------
    >>> CubeRoot()(np.linspace(0, 1, 1000)).bin_edges().size - 1
    10
    """

    strategy: Literal["uniform", "quantile"] = "quantile"

    def __post_init__(self) -> None:
        check_choice("strategy", self.strategy, ("uniform", "quantile"))

    def __call__(self, scores: FloatArray, weights: Float64Array | None = None, /) -> Partition:
        """Return the bins for these scores, a non-empty array of shape (n,), and weights."""
        n_bins = _cube_root(len(scores) if weights is None else int(np.count_nonzero(weights)))
        return EqualWidth(n_bins) if self.strategy == "uniform" else EqualMass(n_bins)(scores, weights)


def _cube_root(n_rows: int) -> int:
    """Return the cube root of an integer, rounded up, in exact arithmetic.

    >>> [_cube_root(n) for n in (1, 2, 8, 9, 1000, 1001)]
    [1, 2, 2, 3, 10, 11]
    """
    root: int = round(n_rows ** (1 / 3))
    return root if root**3 >= n_rows else root + 1
