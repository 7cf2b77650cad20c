"""Order operations: sort a row, invert the sort, and restore an arg-max or order that rounding has changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from calibrant.arrays import FloatArray
from calibrant.graph.operation import GraphError, Kernel, Operation
from calibrant.numerics.row_order import argmax_restored, restore_order

__all__ = ["CumulativeSum", "FirstOfLeast", "Restore", "SortDescending", "Unsort"]

Kept = Literal["argmax", "order"]

# Up to this number of pairs of entries, comparing all of them takes less time than sorting rows.
MOST_PAIRS = 4096


@dataclass(frozen=True, eq=False)
class Restore(Operation):
    """The first value with the arg-max, or the order, of the second, which rounding may have changed.

    Both values have the same arg-max or order in exact arithmetic. ``"argmax"``: the entry in the column of the
    second value's largest entry becomes the largest, by one rounding step where it must. ``"order"``: entries that must
    be larger than the next smaller one are raised to the next float above it, and ties become ties.
    """

    kept: Kept

    name: ClassVar[str] = "restore"
    rounds: ClassVar[bool] = False
    n_values: ClassVar[int | None] = 2
    overwrites: ClassVar[bool] = True

    def width(self, widths: Sequence[int]) -> int:
        if widths[0] != widths[1]:
            raise GraphError(f"restore takes values of one width, not of {list(widths)}")
        return widths[0]

    def is_wide(self, wide: Sequence[bool]) -> bool:
        return wide[0]

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        restored = argmax_restored if self.kept == "argmax" else _order_restored

        def kernel(out: FloatArray | None, values: FloatArray, reference: FloatArray) -> Any:
            if out is None:
                out = values.copy(order="K")
            elif out is not values:
                np.copyto(out, values)
            restored(out, reference)
            return out

        return kernel


def _order_restored(values: FloatArray, reference: FloatArray) -> None:
    if values.shape[1] * values.size <= MOST_PAIRS:
        above = values[:, :, np.newaxis] > values[:, np.newaxis, :]
        if np.array_equal(above, reference[:, :, np.newaxis] > reference[:, np.newaxis, :]):
            return
    restore_order(values, reference)


@dataclass(frozen=True, eq=False)
class SortDescending(Operation):
    """The ``n_largest`` largest entries of a row in descending order."""

    n_largest: int

    name: ClassVar[str] = "sort-descending"
    rounds: ClassVar[bool] = False

    def width(self, widths: Sequence[int]) -> int:
        if not 1 <= self.n_largest <= widths[0]:
            raise GraphError(f"sort-descending keeps {self.n_largest} of {widths[0]} columns")
        return self.n_largest

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        def kernel(out: FloatArray | None, x: FloatArray) -> Any:  # noqa: ARG001
            below = x.shape[1] - self.n_largest
            if below > 0:
                x = np.partition(x, below, axis=1)[:, below:]
            return np.sort(x, axis=1)[:, ::-1]

        return kernel


@dataclass(frozen=True, eq=False)
class Unsort(Operation):
    """Entry j of the first value moves to the column that has place j when the second value is sorted downwards.

    Of equal entries the first one comes first.
    """

    name: ClassVar[str] = "unsort"
    rounds: ClassVar[bool] = False
    n_values: ClassVar[int | None] = 2

    def width(self, widths: Sequence[int]) -> int:
        if widths[0] != widths[1]:
            raise GraphError(f"unsort takes values of one width, not of {list(widths)}")
        return widths[0]

    def is_wide(self, wide: Sequence[bool]) -> bool:
        return wide[0]

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        def kernel(out: FloatArray | None, values: FloatArray, reference: FloatArray) -> Any:
            order = np.argsort(-reference, axis=1, kind="stable")
            if out is None:
                out = np.empty_like(values)
            out[np.arange(len(values))[:, np.newaxis], order] = values
            return out

        return kernel


@dataclass(frozen=True, eq=False)
class CumulativeSum(Operation):
    r"""Sums of the first entries of a row: :math:`y_k = x_1 + \dots + x_k`."""

    name: ClassVar[str] = "cumulative-sum"

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        return lambda out, x: np.cumsum(x, axis=1, out=out)


@dataclass(frozen=True, eq=False)
class FirstOfLeast(Operation):
    """One for the smallest entry of a row, the first of those within a tolerance of it, and zero for all others."""

    tolerance: float

    name: ClassVar[str] = "first-of-least"
    rounds: ClassVar[bool] = False

    def check(self) -> None:
        if self.tolerance < 0:
            raise GraphError(f"first-of-least has a tolerance of {self.tolerance}, which is negative")

    def kernel(self, kind: np.dtype[Any]) -> Kernel:
        def kernel(out: FloatArray | None, x: FloatArray) -> Any:  # noqa: ARG001
            chosen = np.argmax(x <= x.min(axis=1, keepdims=True) + self.tolerance, axis=1)
            parts = np.zeros(x.shape, kind)
            parts[np.arange(len(x)), chosen] = 1
            return parts

        return kernel
