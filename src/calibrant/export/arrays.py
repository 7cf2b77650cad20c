"""Arrays: the primitives of an array library that the formulas of all graph operations use."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WIDE", "Array", "Arrays"]

Array = Any
"""An array of the library: (n, columns) floats, integers or truth values, with the operators of Python."""

WIDE: np.dtype[Any] = np.dtype(np.float64)


class Arrays(ABC):
    """Abstract array library for :mod:`calibrant.export.formulas`.

    Python operators (``+ - * / < <= > >= == & ~``) apply to two arrays of one type, or an array and a number; a single
    column is broadcast. All primitives map rows independently.

    Attributes
    ----------
    kind : dtype
        Float type of values that are not wide.
    """

    def __init__(self, kind: np.dtype[Any]) -> None:
        self.kind = kind
        self._path: list[str] = []

    @contextmanager
    def scope(self, name: str, kind: np.dtype[Any] | None = None) -> Iterator[None]:
        """Prefix the names of all constants; optionally with another float type."""
        before = self.kind
        self._path.append(name)
        self.kind = before if kind is None else kind
        try:
            yield
        finally:
            self._path.pop()
            self.kind = before

    def path(self, name: str) -> str:
        """Return the full name of a constant."""
        return "_".join([*self._path, name])

    # Constants and types

    @abstractmethod
    def constant(self, name: str, array: NDArray[Any], like: Array | None = None) -> Array:
        """Return a fitted array; floats in the float type of ``like``, float64 without it."""

    @abstractmethod
    def numbers(self, name: str, array: NDArray[Any], like: Array) -> list[Array]:
        """Return the entries of a fitted vector one by one, in the float type of ``like``."""

    @abstractmethod
    def kind_of(self, x: Array) -> np.dtype[Any]:
        """Return the type of an array."""

    @abstractmethod
    def cast(self, x: Array, kind: np.dtype[Any]) -> Array:
        """Return floats in another float type, or truth values as floats."""

    @abstractmethod
    def width(self, x: Array) -> int:
        """Return the number of columns of a value of the graph."""

    def with_width(self, x: Array, width: int) -> Array:  # noqa: ARG002
        """Return the value itself; record its number of columns if the library does not know it."""
        return x

    # Elementwise

    @abstractmethod
    def function(self, name: str, x: Array) -> Array:
        """Return exp, log, log1p, expm1, sigmoid, absolute, square-root, tanh or reciprocal of every entry."""

    @abstractmethod
    def maximum(self, x: Array, y: Array) -> Array:
        """Return the larger entries; y may be a number."""

    @abstractmethod
    def minimum(self, x: Array, y: Array) -> Array:
        """Return the smaller entries; y may be a number."""

    @abstractmethod
    def where(self, condition: Array, x: Array, y: Array) -> Array:
        """Return entries of x where the condition holds, else of y; one of the two may be a number."""

    @abstractmethod
    def replaced(self, condition: Array, x: Array, y: Array) -> Array:
        """As :meth:`where`, for entries of y that differ from x by rounding; the derivative is that of y."""

    def next_up(self, x: Array) -> Array:
        """Return the next larger number, without derivative (Rump, Zimmermann, Boldo and Melquiond 2009, algorithm 2).

        ONNX has no operator for it. Tiny numbers are scaled up, since the product with the rounding unit would be inexact.
        """
        x = self.detached(x)
        kind = np.finfo(self.kind_of(x))
        unit, smallest = float(kind.eps) / 2, float(kind.smallest_subnormal)
        factor = unit * (1 + 2 * unit)
        size = self.function("absolute", x)
        up = x + size * factor
        scaled = x / unit
        up_scaled = (scaled + self.function("absolute", scaled) * factor) * unit
        middle = self.where(size < smallest / unit, x + smallest, up_scaled)
        return self.where(size < float(kind.tiny) / unit, middle, up)

    # Rows

    @abstractmethod
    def row(self, name: str, x: Array) -> Array:
        """Return sum, max or min of every row, one column."""

    @abstractmethod
    def argmax(self, x: Array) -> Array:
        """Return the column of the first largest entry of every row, one column of integers."""

    @abstractmethod
    def softmax(self, x: Array) -> Array:
        """Return the softmax of every row."""

    @abstractmethod
    def log_softmax(self, x: Array) -> Array:
        """Return its logarithm."""

    @abstractmethod
    def matmul(self, x: Array, weights: Array) -> Array:
        """Return the product with a matrix."""

    @abstractmethod
    def cumulative_sum(self, x: Array) -> Array:
        """Return sums of the first entries of every row."""

    @abstractmethod
    def mean_of_middle(self, x: Array) -> Array:
        """Return means over the middle axis of (n, m, width)."""

    # Columns and order

    @abstractmethod
    def take(self, vector: Array, places: Array) -> Array:
        """Return entries of a constant vector, or rows of a constant matrix."""

    @abstractmethod
    def take_along(self, x: Array, columns: Array) -> Array:
        """Return entries of each row at the columns given for that row."""

    @abstractmethod
    def put_along(self, columns: Array, values: Array) -> Array:
        """Return rows with entry j of the values in column ``columns[:, j]``, a permutation of each row."""

    @abstractmethod
    def columns(self, x: Array, columns: NDArray[np.intp]) -> Array:
        """Return some columns."""

    @abstractmethod
    def joined(self, values: Sequence[Array]) -> Array:
        """Return values side by side."""

    @abstractmethod
    def order(self, x: Array, n_first: int, *, descending: bool) -> Array:
        """Return the columns of the first entries of every sorted row (stable)."""

    @abstractmethod
    def search(
        self, x: Array, knots: NDArray[np.float64], n_knots: NDArray[np.intp], *, closed_left: bool
    ) -> Array:
        """Return segments as :func:`calibrant.graph.curves.stacked_search` numbers them.

        A single number in ``n_knots`` is shared by all columns.
        """

    @abstractmethod
    def ladder(self, x: Array, rises: Array, n_columns: int) -> Array:
        """Return rows raised from left to right: an entry that must rise and does not becomes the next number.

        ``rises`` has a column less; where it is false an entry becomes equal to the one before.
        """

    # Iteration

    @abstractmethod
    def detached(self, x: Array) -> Array:
        """Return the same numbers without derivative."""

    @abstractmethod
    def iterated(
        self,
        step: Callable[[tuple[Array, ...]], tuple[tuple[Array, ...], Array]],
        state: tuple[Array, ...],
        most: int,
    ) -> tuple[Array, ...]:
        """Return the state after repeated steps; ``step`` also returns the error of every row.

        May stop early where no error exceeds 1e-15.
        """
