"""Curves: functions of one number that are polynomials between knots, shared by all columns or one per column."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, IntArray, Vector
from calibrant.graph.operation import FEW_ROWS, GraphError, Kernel, Operation, new_value
from calibrant.numerics.interpolated import CubicTable

__all__ = ["Piecewise", "Ramps"]

Search = Callable[[NDArray[np.floating]], NDArray[np.intp]]
"""From numbers of any shape to how many knots are not above each (closed on the left), or below each."""

# Up to this number of rows, all columns are searched together, then one after the other.
ROWS_TOGETHER = 64

# Up to this number of comparisons, an entry is compared with all knots of its column.
MOST_COMPARED = 8192


@dataclass(frozen=True, eq=False)
class Piecewise(Operation):
    r"""A polynomial between every two knots, as float64.

    .. math:: y = \mathrm{clip}\left(\sum_{d} c_{s,d}\, (x - o_s)^d,\; l_s,\; u_s\right)

    with s the number of knots not above x (``closed="left"``) or below x (``closed="right"``). Degree zero is a step
    function, degree one is piecewise linear. Knots are compared with x in the float type of x.

    Attributes
    ----------
    knots : ndarray of shape (M,)
        Increasing within each column; those of all columns one after the other.
    n_knots : ndarray of shape (1,) or (columns,)
        Number of knots of every column; a single number where all columns share one curve.
    origins : ndarray of shape (S,)
        Zero of every segment; a column with m knots has m + 1 segments.
    coefficients : ndarray of shape (degree + 1, S)
        Coefficients of every segment, the constant first.
    lower, upper : ndarray of shape (S,) or None
        Bounds of every segment, so that rounding reverses no order.
    closed : {"left", "right"}
        Whether a knot belongs to the segment on its right or on its left.
    """

    knots: Vector
    n_knots: IntArray
    origins: Vector
    coefficients: Vector
    lower: Vector | None = None
    upper: Vector | None = None
    closed: Literal["left", "right"] = "left"

    name: ClassVar[str] = "piecewise"
    widens: ClassVar[bool] = True
    axes: ClassVar[Mapping[str, tuple[int, ...]]] = {"coefficients": (2,)}
    elementwise: ClassVar[bool] = True

    @classmethod
    def steps(cls, knots: Vector, values: Vector, closed: Literal["left", "right"] = "left") -> Self:
        """Return a step function: ``values`` (m + 1,) below, between and above the knots (m,)."""
        return cls(
            knots,
            np.array([len(knots)]),
            np.zeros(len(values)),
            np.asarray(values)[np.newaxis],
            closed=closed,
        )

    @classmethod
    def linear(cls, knots: Vector, values: Vector) -> Self:
        """Return straight lines between the values at strictly increasing knots, constant beyond the outer ones.

        At a knot it is the value there to the last bit, and rounding never reverses an order: between two knots every
        operation is non-decreasing in x as it is rounded, or non-increasing where the values fall.
        """
        origins = np.append(knots[0], knots).astype(np.float64)
        base = np.append(values[0], values).astype(np.float64)
        end = np.append(values, values[-1])
        # Between neighbours among the smallest floats the quotient may overflow, and infinity times 0 is no number.
        steepest = np.finfo(np.float64).max
        with np.errstate(over="ignore"):
            rates = np.clip((end - base)[1:-1] / np.diff(origins[1:]), -steepest, steepest)
        rates = np.concatenate([[0.0], rates, [0.0]])
        rises = bool((end >= base).all())
        lower = None if rises else np.minimum(base, end)
        return cls(
            np.asarray(knots, dtype=np.float64),
            np.array([len(knots)]),
            origins,
            np.stack([base, rates]),
            lower,
            np.maximum(base, end),
        )

    @classmethod
    def sloped(cls, knots: Vector, slopes: Vector) -> Self:
        """Return straight lines with given slopes (m + 1,), also beyond the outer knots (m,); zero at the first knot.

        Without knots it is ``slopes[0]`` times x. The segments are those of
        :class:`~calibrant.numerics.linear_segments.LinearSegments`.
        """
        origins = np.append(knots[:1], knots) if len(knots) else np.zeros(1)
        heights = np.concatenate([[0.0, 0.0], np.cumsum(slopes[1:-1] * np.diff(knots))])[: len(slopes)]
        return cls(
            np.asarray(knots, dtype=np.float64),
            np.array([len(knots)]),
            origins,
            np.stack([heights, slopes]),
            closed="right",
        )

    @classmethod
    def integral(cls, nodes: Vector, rates: Vector) -> Self:
        """Return the integral from the first node of a function that is linear between nodes and constant beyond.

        See :class:`~calibrant.calibrators.monotone.order_preserving.increasing_network.IntegralTable`.
        """
        widths = np.diff(nodes)
        heights = np.concatenate([[0.0, 0.0], np.cumsum(widths * (rates[:-1] + rates[1:]) / 2)])
        bends = np.concatenate([[0.0], np.diff(rates) / widths / 2, [0.0]])
        return cls.smooth(nodes, np.stack([heights, np.append(rates[0], rates), bends]))

    @classmethod
    def smooth(cls, knots: Vector, coefficients: Vector) -> Self:
        """Return polynomials in the distance from the knot on the left, (degree + 1, m + 1); the first from the first knot."""
        origins = np.append(knots[0], knots)
        return cls(np.asarray(knots, np.float64), np.array([len(knots)]), origins, coefficients)

    @classmethod
    def cubic(cls, table: CubicTable) -> Self:
        """Return the function of a table on an even grid; beyond it the values at its ends."""
        nodes = table.grid.nodes
        scales = table.grid.step ** -np.arange(4.0)
        pieces = np.stack(table.pieces) * scales[:, np.newaxis]
        ends = np.zeros((2, 4))
        ends[:, 0] = table.values[[0, -1]]
        return cls.smooth(nodes, np.column_stack([ends[0], pieces, ends[1]]))

    def width(self, widths: Sequence[int]) -> int:
        if len(self.n_knots) not in (1, widths[0]):
            raise GraphError(f"piecewise has curves for {len(self.n_knots)} columns, not for {widths[0]}")
        # Each by itself, since their sum may be beyond the range of integers.
        if ((self.n_knots < 0) | (self.n_knots > len(self.knots))).any():
            raise GraphError(f"piecewise has n_knots that are not between 0 and its {len(self.knots)} knots")
        n_segments = len(self.knots) + len(self.n_knots)
        if self.knots.shape != (int(self.n_knots.sum()),) or self.coefficients.shape[1:] != (n_segments,):
            raise GraphError("piecewise has another number of knots than segments ask for")
        for bound in (self.origins, self.lower, self.upper):
            if bound is not None and bound.shape != (n_segments,):
                raise GraphError("piecewise has another number of bounds than of segments")
        return widths[0]

    def check(self) -> None:
        ends = np.cumsum(self.n_knots)[:-1]
        rises = np.diff(self.knots) > 0
        rises[ends[(ends > 0) & (ends < len(self.knots))] - 1] = True
        if not rises.all():
            raise GraphError("piecewise has knots that do not increase")
        if len(self.coefficients) == 0:
            raise GraphError("piecewise has no coefficients")
        if self.lower is not None and self.upper is not None and (self.lower > self.upper).any():
            raise GraphError("piecewise has a lower bound above the upper one")

    @classmethod
    def stacked(cls, parts: Sequence[Self]) -> Self | None:
        degrees = {len(part.coefficients) for part in parts}
        if len({part.closed for part in parts}) > 1 or any(len(part.n_knots) > 1 for part in parts):
            return None
        degree = max(degrees)
        padded = [
            np.concatenate(
                [part.coefficients, np.zeros((degree - len(part.coefficients), part.coefficients.shape[1]))]
            )
            for part in parts
        ]
        return cls(
            np.concatenate([part.knots for part in parts]),
            np.concatenate([part.n_knots for part in parts]),
            np.concatenate([part.origins for part in parts]),
            np.concatenate(padded, axis=1),
            _stacked_bounds([part.lower for part in parts], parts, -np.inf),
            _stacked_bounds([part.upper for part in parts], parts, np.inf),
            parts[0].closed,
        )

    @cached_property
    def _searches(self) -> dict[tuple[int, str], Search]:
        """Searches that were made, by column and float type."""
        return {}

    def _search(self, column: int, kind: np.dtype[Any]) -> Search:
        """Return the search among the knots of a column; made once."""
        found = self._searches.get((column, kind.char))
        if found is None:
            end = int(self.n_knots[: column + 1].sum())
            knots = self.knots[end - int(self.n_knots[column]) : end].astype(kind)
            found = self._searches[column, kind.char] = knot_search(knots, self.closed)
        return found

    @cached_property
    def _joint_searches(self) -> dict[str, tuple[Search, bool]]:
        """Searches of all columns that were made, by float type."""
        return {}

    def _joint_search(self, kind: np.dtype[Any]) -> tuple[Search, bool]:
        """Return a search of all columns at once, and whether it is the fastest for many rows too; made once."""
        found = self._joint_searches.get(kind.char)
        if found is None:
            by_bits = bit_search(self.knots.astype(kind), self.n_knots, self.closed)
            search = stacked_search(self.knots, self.n_knots, self.closed) if by_bits is None else by_bits
            found = self._joint_searches[kind.char] = (search, by_bits is not None)
        return found

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        first_segments = np.cumsum(self.n_knots) - self.n_knots + np.arange(len(self.n_knots))

        def kernel(out: FloatArray | None, x: FloatArray) -> Any:
            if len(x) <= FEW_ROWS:
                y = self._values_of_few(x)
                if out is None:
                    return y
                np.copyto(out, y)
                return out
            if len(self.n_knots) == 1:
                return self._values(self._search(0, x.dtype)(x), x, out)
            together, is_fastest = self._joint_search(x.dtype)
            if is_fastest or len(x) <= ROWS_TOGETHER:
                return self._values(together(x), x, out)
            if out is None:
                out = new_value(x, x.shape[1], np.float64)
            for column in range(len(self.n_knots)):
                one = np.ascontiguousarray(x[:, column])
                segments = self._search(column, x.dtype)(one)
                segments += first_segments[column]
                out[:, column] = self._values(segments, one, None)
            return out

        return kernel

    @cached_property
    def _table(self) -> Vector:
        """All parameters of every segment: coefficients, highest degree first, the origin, and the bounds."""
        bounds = [bound for bound in (self.lower, self.upper) if bound is not None]
        return np.stack([*self.coefficients[::-1], self.origins, *bounds])

    @cached_property
    def _few_searches(self) -> dict[str, Search]:
        """Searches for few rows that were made, by float type."""
        return {}

    def _few_search(self, kind: np.dtype[Any]) -> Search:
        """Return the search with the fewest calls of NumPy; made once."""
        found = self._few_searches.get(kind.char)
        if found is None:
            found = self._few_searches[kind.char] = self._made_few_search(kind)
        return found

    def _made_few_search(self, kind: np.dtype[Any]) -> Search:
        knots = self.knots.astype(kind)
        if len(self.n_knots) == 1:
            side: Any = "right" if self.closed == "left" else "left"
            return lambda x: knots.searchsorted(x, side)
        most = int(self.n_knots.max())
        if most * len(self.n_knots) > MOST_COMPARED:
            return self._joint_search(kind)[0]
        # Comparisons with the padding are false.
        padded = np.full((len(self.n_knots), most), np.nan, kind)
        padded[np.arange(most) < self.n_knots[:, np.newaxis]] = knots
        reached = np.greater_equal if self.closed == "left" else np.greater
        first_segments = np.cumsum(self.n_knots) - self.n_knots + np.arange(len(self.n_knots))

        def search(x: FloatArray) -> IntArray:
            places: IntArray = np.add.reduce(reached(x[:, :, np.newaxis], padded), axis=2, dtype=np.intp)
            places += first_segments
            return places

        return search

    def _values_of_few(self, x: FloatArray) -> Vector:
        """Return the values of few rows: :meth:`_values` with fewer NumPy calls and the same bits."""
        parts = self._table.take(self._few_search(x.dtype)(x), 1, None, "clip")
        y: Vector = parts[0]
        degree = len(self.coefficients) - 1
        if degree == 0:
            return y
        offsets = np.subtract(x, parts[degree + 1], dtype=np.float64)
        for place in range(1, degree + 1):
            y *= offsets
            y += parts[place]
        place = degree + 2
        if self.lower is not None:
            np.maximum(y, parts[place], out=y)
            place += 1
        if self.upper is not None:
            np.minimum(y, parts[place], out=y)
        return y

    def _values(self, segments: IntArray, x: FloatArray, out: FloatArray | None) -> Any:
        y = entries(self.coefficients[-1], segments)
        if len(self.coefficients) > 1:
            offsets = np.subtract(x, entries(self.origins, segments), dtype=np.float64)
            for coefficients in self.coefficients[-2::-1]:
                y *= offsets
                y += entries(coefficients, segments)
            if self.lower is not None:
                np.maximum(y, entries(self.lower, segments), out=y)
            if self.upper is not None:
                np.minimum(y, entries(self.upper, segments), out=y)
        if out is None:
            return y
        np.copyto(out, y)
        return out


def _stacked_bounds(bounds: list[Vector | None], parts: Sequence[Piecewise], default: float) -> Vector | None:
    if all(bound is None for bound in bounds):
        return None
    return np.concatenate(
        [
            np.full(len(part.origins), default) if bound is None else bound
            for bound, part in zip(bounds, parts, strict=True)
        ]
    )


@dataclass(frozen=True, eq=False)
class Ramps(Operation):
    r"""A continuous function that is linear between a few knots, in the float type of x.

    .. math:: y = s_0 \min(x - k_1, 0) + \sum_{j=1}^{m} s_j \left(\mathrm{clip}(x, k_j, k_{j+1}) - k_j\right)

    with :math:`k_{m+1} = \infty`: slope :math:`s_j` between neighbouring knots, zero at the first knot. Without knots it is
    :math:`s_0 x`. The same for all columns. O(m) per entry, which for a few knots is faster than a search.
    """

    knots: Vector
    slopes: Vector

    name: ClassVar[str] = "ramps"

    def width(self, widths: Sequence[int]) -> int:
        if self.slopes.shape != (len(self.knots) + 1,):
            raise GraphError(f"ramps has {len(self.slopes)} slopes for {len(self.knots)} knots")
        return widths[0]

    def check(self) -> None:
        if not (np.diff(self.knots) > 0).all():
            raise GraphError("ramps has knots that do not increase")

    def kernel(self, kind: np.dtype[Any]) -> Kernel:
        knots, slopes = self.knots.astype(kind), self.slopes.astype(kind)
        if len(knots) == 0:
            return lambda out, x: np.multiply(x, slopes[0], out=out)
        ends = np.append(knots[1:], kind.type(np.inf))
        constant = kind.type(self.slopes[1:] @ self.knots)
        lows, highs, rises = (part[:, np.newaxis, np.newaxis] for part in (knots, ends, slopes[1:]))

        def kernel(out: FloatArray | None, x: FloatArray) -> Any:
            y = np.subtract(x, knots[0], out=out)
            np.minimum(y, kind.type(0), out=y)
            y *= slopes[0]
            if len(x) <= FEW_ROWS:
                # All segments at once, added up in the order of the loop below.
                segments = np.maximum(x, lows)
                np.minimum(segments, highs, out=segments)
                segments *= rises
                together = np.add.accumulate(segments, axis=0)[-1]
                together -= constant
                y += together
                return y
            segment, bent = np.empty_like(y), np.zeros_like(y)
            for slope, low, high in zip(slopes[1:], knots, ends, strict=True):
                np.clip(x, low, high, out=segment)
                segment *= slope
                bent += segment
            bent -= constant
            y += bent
            return y

        return kernel


# Up to this number of knots all are compared; beyond, a search takes fewer steps.
FEW_KNOTS = 6

# Cells of a table for each knot, and comparisons that follow a look into it.
CELLS_PER_KNOT = 64

MOST_COMPARISONS = 3

# Relative to the step: how even a grid must be for places to be computed and corrected by one.
EVEN = 1e-6


def knot_search(knots: NDArray[np.floating], closed: Literal["left", "right"]) -> Search:
    """Return the fastest search for these increasing knots.

    >>> knots = np.array([0.0, 1.0, 2.0])
    >>> knot_search(knots, "left")(np.array([-1.0, 1.0, 1.5, 9.0])), knot_search(knots, "right")(np.array([1.0]))
    (array([0, 2, 2, 3]), array([1]))
    """
    side: Any = "right" if closed == "left" else "left"
    if len(knots) <= FEW_KNOTS:
        reached = np.greater_equal if closed == "left" else np.greater

        def compare_all(x: NDArray[np.floating]) -> NDArray[np.intp]:
            places = np.zeros(x.shape, np.intp)
            for knot in knots:
                places += reached(x, knot)
            return places

        return compare_all
    steps = np.diff(knots.astype(np.float64))
    if knots.dtype == np.float64 and np.ptp(steps) <= EVEN * steps.min():
        return _even_search(knots, float(steps.mean()), side)
    by_bits = bit_search(knots, np.array([len(knots)]), closed)
    if by_bits is not None:
        return by_bits

    def search(x: NDArray[np.floating]) -> NDArray[np.intp]:
        places: NDArray[np.intp] = knots.searchsorted(x, side=side)
        return places

    return search


def _even_search(knots: NDArray[np.floating], step: float, side: Any) -> Search:
    """Compute the place in an even grid, and correct it by comparison with the knots around it."""
    fenced = np.concatenate([[-np.inf], knots, [np.inf]])
    low, count = float(knots[0]), len(knots)
    is_left = side == "right"

    def search(x: NDArray[np.floating]) -> NDArray[np.intp]:
        with np.errstate(over="ignore", invalid="ignore"):
            guess = np.subtract(x, low, dtype=np.float64)
            guess /= step
            guess += 1
        places: NDArray[np.intp] = np.clip(guess, 0, count, out=guess).astype(np.intp)
        below, above = fenced.take(places), fenced.take(places + 1)
        if is_left:
            places -= x < below
            places += x >= above
        else:
            places -= x <= below
            places += x > above
        return places

    return search


def stacked_search(
    knots: NDArray[np.float64], n_knots: NDArray[np.intp], closed: Literal["left", "right"]
) -> Search:
    """Return a search of columns with knots of their own, all at once, in segments of all columns one after the other.

    By bisection; ``n_knots[j]`` of the knots belong to column j. Segment numbers begin at ``sum(n_knots[:j]) + j`` in column j.

    >>> stacked_search(np.array([0.5, 0.1, 0.2]), np.array([1, 2]), "left")(np.array([[0.7, 0.15]]))
    array([[1, 3]])
    """
    first = np.cumsum(n_knots) - n_knots
    first_segments = first + np.arange(len(n_knots))
    n_steps = int(np.max(n_knots, initial=0)).bit_length()
    of_kind: dict[str, NDArray[np.floating]] = {}

    def search(x: NDArray[np.floating]) -> NDArray[np.intp]:
        own = of_kind.setdefault(x.dtype.str, knots.astype(x.dtype, copy=False))
        if len(own) == 0:
            return np.broadcast_to(first_segments, x.shape).copy()
        low = np.zeros(x.shape, np.intp)
        size = np.broadcast_to(n_knots, x.shape).copy()
        for _ in range(n_steps):
            half = size >> 1
            middle = own.take(first + low + half, mode="clip")
            right = (size > 0) & ((x >= middle) if closed == "left" else (x > middle))
            low += np.where(right, half + 1, 0)
            size = np.where(right, size - half - 1, half)
        return low + first_segments

    return search


def bit_search(
    knots: NDArray[np.floating], n_knots: NDArray[np.intp], closed: Literal["left", "right"]
) -> Search | None:
    """Return a search of columns as :func:`stacked_search` does it, by the leading bits of a number.

    Leading bits of numbers from zero on increase with the number. A table holds the place at which each cell of numbers
    with the same leading bits begins, and a few comparisons do the rest. Every binade has the same number of cells, so
    cells are fine where probabilities are small. None if knots are negative, or so close together that a table of
    moderate size does not separate them.

    >>> search = bit_search(np.array([0.5, 0.1, 0.2]), np.array([1, 2]), "left")
    >>> search(np.array([[0.7, 0.15], [0.5, 0.0]]))
    array([[1, 3], [1, 2]])
    """
    exact = knots.astype(np.float64)
    column = np.repeat(np.arange(len(n_knots)), n_knots)
    positive = exact > 0
    if (exact < 0).any() or not np.bincount(column, positive, len(n_knots)).all():
        return None
    starts = np.cumsum(n_knots) - n_knots
    first_segments = starts + np.arange(len(n_knots))
    smallest = np.minimum.reduceat(np.where(positive, exact, np.inf), starts)
    fenced = np.insert(exact, starts + n_knots, np.inf)
    reached = np.greater_equal if closed == "left" else np.greater
    for n_bits in range(2, 12):
        shift = 52 - n_bits
        bases = smallest.view(np.int64) >> shift
        cells = np.maximum((exact.view(np.int64) >> shift) - bases[column], 0)
        last_cells = np.maximum.reduceat(cells, starts)
        first_cells = np.cumsum(last_cells + 1) - (last_cells + 1)
        n_cells = int((last_cells + 1).sum())
        if n_cells > CELLS_PER_KNOT * max(len(exact), 16):
            return None
        counts = np.bincount(first_cells[column] + cells, minlength=n_cells)
        if counts.max() <= MOST_COMPARISONS:
            break
    else:
        return None
    # Knots of earlier cells, and the fences behind earlier columns.
    firsts = np.cumsum(counts) - counts + np.repeat(np.arange(len(n_knots)), last_cells + 1)
    assert np.array_equal(firsts[first_cells], first_segments)
    n_comparisons = int(counts.max())

    def search(x: NDArray[np.floating]) -> NDArray[np.intp]:
        wide = x.astype(np.float64, copy=False)
        places = wide.view(np.int64) >> shift
        places -= bases
        np.clip(places, 0, last_cells, out=places)
        places += first_cells
        places = entries(firsts, places)
        for _ in range(n_comparisons):
            places += reached(wide, entries(fenced, places))
        return places

    return search


def entries(table: NDArray[Any], places: NDArray[np.intp]) -> NDArray[Any]:
    """Return ``table[places]``, stored by columns if the places are.

    >>> entries(np.array([1.0, 2.0]), np.array([[0, 1], [1, 1]], order="F")).flags.f_contiguous
    True
    """
    if places.flags.f_contiguous and not places.flags.c_contiguous:
        return table.take(places.T, mode="clip").T
    return table.take(places, mode="clip")
