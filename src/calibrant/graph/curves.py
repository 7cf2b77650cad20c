"""Curves: functions of one number that are polynomials between knots, shared by all columns or one per column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np

from calibrant.arrays import FloatArray, IntArray, Vector
from calibrant.graph.operation import GraphError, Kernel, Operation, new_value
from calibrant.graph.rows import FEW_ROWS
from calibrant.numerics.interpolated import CubicTable
from calibrant.numerics.knot_search import Search, bit_search, entries, knot_search, stacked_search

__all__ = ["Piecewise", "Ramps"]


# Up to this number of rows all columns are searched together; beyond, one after the other.
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
        if self.closed not in ("left", "right"):
            raise GraphError(f"piecewise has segments closed on the {self.closed!r}")
        if len(self.coefficients) == 0:
            raise GraphError("piecewise has no coefficients")
        if self.lower is not None and self.upper is not None and (self.lower > self.upper).any():
            raise GraphError("piecewise has a lower bound above the upper one")

    def is_wide(self, wide: Sequence[bool]) -> bool:  # noqa: ARG002
        return True

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
        """All numbers of every segment: coefficients, the last one first, the origin, and the bounds."""
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
        # Nothing is above a place without a knot.
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
        """Return the values of few rows: :meth:`_values` with as few calls as it takes, to the same bits."""
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
