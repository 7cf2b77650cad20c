"""Column operations: selection and concatenation of columns, one-vs-rest, floors for zeros."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, IntArray
from calibrant.graph.operation import GraphError, Kernel, Operation, new_value
from calibrant.numerics.simplex import (
    Rest,
    bounded_gaps,
    renormalised_restriction,
    rest_of_classes,
    rest_of_largest,
    with_floor,
)

__all__ = [
    "BoundGaps",
    "Columns",
    "Constant",
    "Floor",
    "Join",
    "RestOfClasses",
    "RestOfLargest",
    "Restrict",
    "SetLargest",
]


def _expect_others(name: str, width: int) -> None:
    if width < 2:
        raise GraphError(f"{name} takes two or more columns, not {width}")


@dataclass(frozen=True, eq=False)
class Columns(Operation):
    r"""Some columns of a value, in a given order: :math:`y_j = x_{c_j}` with c the ``columns``."""

    columns: IntArray

    name: ClassVar[str] = "columns"
    rounds: ClassVar[bool] = False
    may_return_its_value: ClassVar[bool] = True

    def width(self, widths: Sequence[int]) -> int:
        if len(self.columns) == 0 or self.columns.min() < 0 or self.columns.max() >= widths[0]:
            raise GraphError(f"columns asks for columns that a value of width {widths[0]} does not have")
        return len(self.columns)

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        columns = self.columns
        if len(columns) == 1:
            first = slice(int(columns[0]), int(columns[0]) + 1)
            return lambda out, x: x[:, first]  # noqa: ARG005
        return lambda out, x: x.take(columns, axis=1)  # noqa: ARG005


@dataclass(frozen=True, eq=False)
class Join(Operation):
    """Columns of several values side by side; column j of the result is column ``columns[j]`` of all in a row."""

    columns: IntArray

    name: ClassVar[str] = "join"
    rounds: ClassVar[bool] = False
    n_values: ClassVar[int | None] = None

    def width(self, widths: Sequence[int]) -> int:
        if not np.array_equal(np.sort(self.columns), np.arange(sum(widths))):
            raise GraphError(f"join must use each of {sum(widths)} columns once")
        return len(self.columns)

    def kernel(self, kind: np.dtype[Any]) -> Kernel:
        places = np.argsort(self.columns)
        in_order = bool((places == np.arange(len(places))).all())

        def kernel(out: FloatArray | None, *values: FloatArray) -> Any:
            if out is None:
                out = new_value(values[0], len(places), kind)
            start = 0
            for value in values:
                stop = start + value.shape[1]
                if in_order:
                    out[:, start:stop] = value
                else:
                    out[:, places[start:stop]] = value
                start = stop
            return out

        return kernel


@dataclass(frozen=True, eq=False)
class Constant(Operation):
    """The same ``numbers`` in every row, whatever the value is; one column per number."""

    numbers: NDArray[np.float64]

    name: ClassVar[str] = "constant"
    rounds: ClassVar[bool] = False

    def width(self, widths: Sequence[int]) -> int:  # noqa: ARG002
        return len(self.numbers)

    def check(self) -> None:
        if len(self.numbers) == 0:
            raise GraphError("constant has no numbers")

    def kernel(self, kind: np.dtype[Any]) -> Kernel:
        numbers = self.numbers.astype(kind)

        def kernel(out: FloatArray | None, x: FloatArray) -> Any:
            if out is None:
                out = new_value(x, len(numbers), kind)
            out[:] = numbers
            return out

        return kernel

    @classmethod
    def stacked(cls, parts: Sequence["Constant"]) -> "Constant | None":
        return (
            None
            if any(len(part.numbers) != 1 for part in parts)
            else cls(np.concatenate([part.numbers for part in parts]))
        )


@dataclass(frozen=True, eq=False)
class RestOfClasses(Operation):
    r"""Sum of all other entries of the row, in every column, as float64; of logits its logarithm.

    .. math:: y_k = \sum_{j \ne k} x_j, \qquad \text{or}\quad y_k = \log \sum_{j \ne k} e^{x_j} \text{ for logits}

    The rest of the largest entry is added up from the others, because the total minus the entry would lose its digits;
    that of any other entry may be the total minus the entry.
    """

    logits: bool

    name: ClassVar[str] = "rest-of-classes"
    widens: ClassVar[bool] = True

    def width(self, widths: Sequence[int]) -> int:
        _expect_others(self.name, widths[0])
        return widths[0]

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        return lambda out, x: rest_of_classes(x, logits=self.logits)  # noqa: ARG005


@dataclass(frozen=True, eq=False)
class RestOfLargest(Operation):
    """Two columns, as float64: the sum of all entries but the largest, and the largest; of logits a logarithm."""

    logits: bool

    name: ClassVar[str] = "rest-of-largest"
    widens: ClassVar[bool] = True

    def width(self, widths: Sequence[int]) -> int:
        _expect_others(self.name, widths[0])
        return 2

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        def kernel(out: FloatArray | None, x: FloatArray) -> Any:  # noqa: ARG001
            rest: Rest = rest_of_largest(x, logits=self.logits)
            return np.column_stack([rest.rest, rest.largest])

        return kernel


@dataclass(frozen=True, eq=False)
class Floor(Operation):
    r"""Probabilities with a floor in the place of smaller ones; rows still sum to one.

    .. math:: y_k = \frac{\max(p_k, t)}{\sum_j \max(p_j, t)}, \qquad t = \max(\text{floor}, \text{tiny})

    with tiny the smallest normal number of the float type of p, 2.2e-308 for float64 and 1.2e-38 for float32. A row without
    an entry below t is not changed; with ``only_zeros``, a row without an exact zero. After the division the arg-max of p is
    restored, see :class:`~calibrant.graph.order.Restore`.
    """

    floor: float
    only_zeros: bool = False

    name: ClassVar[str] = "floor"
    may_return_its_value: ClassVar[bool] = True

    def check(self) -> None:
        if not 0 < self.floor < 1:
            raise GraphError(f"floor is {self.floor}, which is not between 0 and 1")

    def kernel(self, kind: np.dtype[Any]) -> Kernel:
        least = max(self.floor, float(np.finfo(kind).tiny))

        def kernel(out: FloatArray | None, x: FloatArray) -> Any:  # noqa: ARG001
            if x.min() >= least:  # what most rows are, seen without more calls
                return x
            return with_floor(x, self.floor, only_zeros=self.only_zeros)

        return kernel


@dataclass(frozen=True, eq=False)
class BoundGaps(Operation):
    r"""Logits that are not so far below the largest of their row that their softmax would be zero.

    .. math:: y_k = \max(x_k, m + t), \qquad m = \max_j x_j, \qquad t = \log \text{tiny}

    with tiny the smallest normal number of the float type of x: t is -708.4 for float64 and -87.3 for float32. A row without
    an entry below m + t is not changed. Adding t to a huge logit would be lost in rounding: where
    :math:`|m| \varepsilon > 0.01`, with :math:`\varepsilon` the distance from 1 to the next number of the float type,
    :math:`y_k = \max(x_k - m, t)`, which has the same softmax.
    """

    name: ClassVar[str] = "bound-gaps"
    rounds: ClassVar[bool] = False
    may_return_its_value: ClassVar[bool] = True

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        return lambda out, x: bounded_gaps(x)  # noqa: ARG005


@dataclass(frozen=True, eq=False)
class Restrict(Operation):
    r"""Probabilities of some classes, given that the class is one of them.

    .. math:: y_j = \frac{p_{c_j}}{\sum_{i=1}^{m} p_{c_i}}

    with c the m ``columns``, and :math:`y_j = 1/m` in a row in which the sum is zero.
    """

    columns: IntArray

    name: ClassVar[str] = "restrict"

    def width(self, widths: Sequence[int]) -> int:
        return Columns(self.columns).width(widths)

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        return lambda out, x: renormalised_restriction(x, self.columns)  # noqa: ARG005


@dataclass(frozen=True, eq=False)
class SetLargest(Operation):
    r"""Probabilities of a row with a given confidence, as float64.

    The first value has two columns, the probability r of all classes but the predicted one, and the confidence c. The
    second value holds the scores p of all classes, of which the largest is the predicted class:

    .. math:: y_{\hat k} = c, \qquad y_k = r \, \frac{p_k}{\sum_{j \ne \hat k} p_j}

    Of equal scores the first one is the largest. Probabilities below the floor count as the floor, so that a row that gives
    the others nothing has its rest shared out evenly; for ``logits``, p is their exponential, and the floor is not used.
    Where r is positive, no :math:`y_k` is below 2.2e-308.
    """

    logits: bool
    floor: float

    name: ClassVar[str] = "set-largest"
    widens: ClassVar[bool] = True
    n_values: ClassVar[int | None] = 2

    def width(self, widths: Sequence[int]) -> int:
        if widths[0] != 2:
            raise GraphError(f"set-largest takes the rest and the confidence, not {widths[0]} columns")
        _expect_others(self.name, widths[1])
        return widths[1]

    def check(self) -> None:
        if not 0 < self.floor < 1:
            raise GraphError(f"set-largest has a floor of {self.floor}, which is not between 0 and 1")

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        least = float(np.finfo(np.float64).tiny)

        def kernel(out: FloatArray | None, both: FloatArray, scores: FloatArray) -> Any:  # noqa: ARG001
            block, rest = scores.astype(np.float64), both[:, :1]
            largest = np.arange(len(block)), scores.argmax(axis=1)
            if self.logits:
                block[largest] = -np.inf
                block = np.exp(block - block.max(axis=1, keepdims=True))
            else:
                block = np.maximum(block, self.floor)
                block[largest] = 0.0
            block /= block.sum(axis=1, keepdims=True)
            block *= rest
            # Parts too small for the float type would become zeros, and the log-loss of a zero may be infinite.
            np.maximum(block, least, out=block, where=rest > 0)
            block[largest] = both[:, 1]
            return block

        return kernel
