"""Operation: one node of a map graph, a function of the rows of earlier values."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.errors import FileFormatError

__all__ = ["FEW_ROWS", "OPERATIONS", "GraphError", "Kernel", "Operation"]

# Up to this number of rows, the overhead of NumPy calls dominates; such blocks are stored row by row.
FEW_ROWS = 16


Kernel = Callable[..., Any]
"""``kernel(out, *values)``: returns the result, in ``out`` where that is an array of its shape and float type."""

OPERATIONS: dict[str, type["Operation"]] = {}
"""All operations by name; definitions register themselves."""


class GraphError(FileFormatError):
    """A map graph is invalid, for example in a damaged file."""


@dataclass(frozen=True, eq=False)
class Operation(ABC):
    """Abstract row operation; subclasses define a formula, its parameters and a NumPy kernel.

    A *value* is a matrix of one row per row of the input and a given number of columns, its *width*. Values have the
    float type of the input or are *wide*, that is float64.
    Fields of a subclass are the parameters: arrays, numbers, text, or graphs.
    """

    name: ClassVar[str]
    """Name in files and exports."""

    n_values: ClassVar[int | None] = 1
    """Number of arguments; None for any number."""

    elementwise: ClassVar[bool] = False
    """Whether each column of the result depends on the same column of the arguments only."""

    overwrites: ClassVar[bool] = False
    """Whether the kernel may write its result over its first value."""

    widens: ClassVar[bool] = False
    """Whether results are float64 whatever the arguments are."""

    rounds: ClassVar[bool] = True
    """Whether results are rounded; operations that select and compare numbers are exact."""

    may_return_its_value: ClassVar[bool] = False
    """Whether the kernel may return its first value, or a view of it, instead of a new array."""

    needs_all_rows: ClassVar[bool] = False
    """Whether the kernel must see all rows at once."""

    axes: ClassVar[Mapping[str, tuple[int, ...]]] = {}
    """Allowed numbers of axes of each array parameter, if not one."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            OPERATIONS[cls.name] = cls

    def width(self, widths: Sequence[int]) -> int:
        """Return the width of the result, that of the first argument unless overridden.

        Raises :class:`GraphError` if parameters and arguments do not fit.
        """
        return widths[0]

    @property
    def n_scratch(self) -> int:
        """Number of columns of the temporary arrays of the kernel, if larger than those of its arguments."""
        return 0

    @abstractmethod
    def kernel(self, kind: np.dtype[Any]) -> Kernel:
        """Return the NumPy function for values of a float type."""

    def is_wide(self, wide: Sequence[bool]) -> bool:
        """Return whether the result is float64 regardless of the float type of the input, given the same of the arguments."""
        return self.widens or any(wide)

    def check(self) -> None:  # noqa: B027 (most parameters need to be finite only, which is checked for all)
        """Raise :class:`GraphError` for invalid parameters."""

    @classmethod
    def stacked(cls, parts: Sequence[Self]) -> Self | None:
        """Return one operation that applies ``parts[j]`` to column j; None if there is none.

        It combines the maps of K classes into one operation on K columns: arrays have one number per column, other
        parameters must be equal.
        """
        if not cls.elementwise:
            return None
        parameters: dict[str, Any] = {}
        for field in fields(cls):
            values = [getattr(part, field.name) for part in parts]
            if isinstance(values[0], np.ndarray):
                parameters[field.name] = per_column(values)
            elif len(set(values)) == 1:
                parameters[field.name] = values[0]
            else:
                return None
        return cls(**parameters)

    def described(self) -> str:
        """Return the operation in one line."""
        shown = ", ".join(f"{field.name}={_shown(getattr(self, field.name))}" for field in fields(self))
        return f"{self.name}({shown})"


def new_value(like: FloatArray, width: int, kind: np.dtype[Any] | type) -> FloatArray:
    """Return an empty matrix with the rows of a value, stored by columns if the value is."""
    if like.flags.f_contiguous and not like.flags.c_contiguous:
        return np.empty((width, len(like)), kind).T
    return np.empty((len(like), width), kind)


def same_width(name: str, widths: Sequence[int]) -> int:
    """Return the common width of values; those with one column are broadcast."""
    width = max(widths)
    if any(each not in (1, width) for each in widths):
        raise GraphError(f"{name} takes values of one width, not of {list(widths)}")
    return width


def per_column(parts: Sequence[Any]) -> Vector:
    """Return one number per column from the parameters of single columns; a single one where all are equal."""
    numbers = np.array([np.asarray(part, dtype=np.float64).reshape(()) for part in parts])
    return numbers if (numbers != numbers[0]).any() else numbers[:1].reshape(())


def fits(name: str, parameter: NDArray[Any], width: int) -> None:
    """Raise an error for a parameter that is neither one number nor one number per column."""
    if parameter.shape not in ((), (1,), (width,)):
        raise GraphError(f"{name} has a parameter of shape {parameter.shape} for {width} columns")


def _shown(parameter: Any) -> str:
    if isinstance(parameter, np.ndarray):
        if parameter.size <= 4:
            inside = ", ".join(f"{number:.6g}" for number in parameter.ravel().tolist())
            return inside if parameter.ndim == 0 else f"[{inside}]"
        return f"array of {' x '.join(map(str, parameter.shape))}"
    if isinstance(parameter, float):
        return f"{parameter:.6g}"
    if isinstance(parameter, tuple) and parameter and not isinstance(parameter[0], int | float | str):
        return f"{len(parameter)} graphs"
    return repr(parameter)
