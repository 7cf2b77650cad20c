"""Elementwise operations: functions of single numbers, and arithmetic on two values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from calibrant.arrays import FloatArray, Vector
from calibrant.graph.operation import FEW_ROWS, GraphError, Kernel, Operation, fits, same_width

__all__ = ["Affine", "Arithmetic", "Clip", "Function", "Log", "Narrow", "Widen"]


@dataclass(frozen=True, eq=False)
class Affine(Operation):
    """Scale and shift: y_k = scale_k x_k + shift_k, with one number for all columns or one per column."""

    scale: Vector
    shift: Vector

    name: ClassVar[str] = "affine"
    axes: ClassVar[Mapping[str, tuple[int, ...]]] = {"scale": (0, 1), "shift": (0, 1)}
    elementwise: ClassVar[bool] = True
    overwrites: ClassVar[bool] = True

    def width(self, widths: Sequence[int]) -> int:
        fits(self.name, self.scale, widths[0])
        fits(self.name, self.shift, widths[0])
        return widths[0]

    def kernel(self, kind: np.dtype[Any]) -> Kernel:
        scale, shift = self.scale[()], self.shift[()]
        if kind != np.float64:
            largest = np.finfo(kind).max
            scale, shift = (np.clip(part, -largest, largest).astype(kind)[()] for part in (scale, shift))
        has_scale, has_shift = bool((self.scale != 1).any()), bool((self.shift != 0).any())

        def kernel(out: FloatArray | None, x: FloatArray) -> Any:
            if not has_scale:
                return np.add(x, shift, out=out)
            y = np.multiply(x, scale, out=out)
            if has_shift:
                y += shift
            return y

        return kernel


@dataclass(frozen=True, eq=False)
class Log(Operation):
    """Logarithm not below that of a floor: y = max(log x, log floor). Zeros count as the floor."""

    floor: float

    name: ClassVar[str] = "log"
    elementwise: ClassVar[bool] = True
    overwrites: ClassVar[bool] = True

    def check(self) -> None:
        if not 0 < self.floor < 1:
            raise GraphError(f"log has a floor of {self.floor}, which is not between 0 and 1")

    def kernel(self, kind: np.dtype[Any]) -> Kernel:
        least = kind.type(np.log(self.floor))

        def kernel(out: FloatArray | None, x: FloatArray) -> Any:
            y = np.log(x, out=out)
            if len(y) <= FEW_ROWS:
                return np.maximum(y, least, out=y)
            return np.clip(y, least, np.inf, out=y)

        return kernel


@dataclass(frozen=True, eq=False)
class Clip(Operation):
    """Clip to a range: y_k = min(max(x_k, low_k), high_k), with one bound for all columns or one per column.

    ``low`` of -infinity and ``high`` of +infinity mean that there is no bound.
    """

    low: Vector
    high: Vector

    name: ClassVar[str] = "clip"
    rounds: ClassVar[bool] = False
    axes: ClassVar[Mapping[str, tuple[int, ...]]] = {"low": (0, 1), "high": (0, 1)}
    elementwise: ClassVar[bool] = True
    overwrites: ClassVar[bool] = True

    def width(self, widths: Sequence[int]) -> int:
        fits(self.name, self.low, widths[0])
        fits(self.name, self.high, widths[0])
        return widths[0]

    def check(self) -> None:
        if (self.low > self.high).any():
            raise GraphError("clip has a lower bound above the upper one")

    def kernel(self, kind: np.dtype[Any]) -> Kernel:
        low, high = self.low.astype(kind), self.high.astype(kind)
        has_low, has_high = bool(np.isfinite(self.low).any()), bool(np.isfinite(self.high).any())

        def kernel(out: FloatArray | None, x: FloatArray) -> Any:
            if len(x) > FEW_ROWS:
                return np.clip(x, low, high, out=out)
            if not has_high:
                return np.maximum(x, low, out=out)
            if not has_low:
                return np.minimum(x, high, out=out)
            y = np.maximum(x, low, out=out)
            return np.minimum(y, high, out=y)

        return kernel


FunctionName = Literal[
    "exp",
    "sigmoid",
    "log-sigmoid",
    "softplus",
    "absolute",
    "square",
    "square-root",
    "relu",
    "elu",
    "tanh",
    "reciprocal",
]


def _elu(x: FloatArray, out: FloatArray | None = None) -> Any:
    return np.maximum(x, np.expm1(np.minimum(x, 0)), out=out)


def _relu(x: FloatArray, out: FloatArray | None = None) -> Any:
    return np.maximum(x, 0, out=out)


def _log_of_smaller_share(x: FloatArray) -> Any:
    """Return log(1 + e^-|x|)."""
    y = np.absolute(x)
    np.negative(y, out=y)
    np.exp(y, out=y)
    return np.log1p(y, out=y)


def _softplus(x: FloatArray, out: FloatArray | None = None) -> Any:
    # Several times as fast as logaddexp, and so is the next one compared with scipy's log_expit.
    rest = _log_of_smaller_share(x)
    return np.add(np.maximum(x, 0, out=out), rest, out=out)


def _log_sigmoid(x: FloatArray, out: FloatArray | None = None) -> Any:
    rest = _log_of_smaller_share(x)
    return np.subtract(np.minimum(x, 0, out=out), rest, out=out)


def _exp(x: FloatArray, out: FloatArray | None = None) -> Any:
    return np.exp(x, out=out)


def _sigmoid(x: FloatArray, out: FloatArray | None = None) -> Any:
    # Several times as fast as scipy's expit; the exponential overflows only where the result is zero.
    y = np.negative(x, out=out)
    np.exp(y, out=y)
    y += 1
    return np.divide(1, y, out=y)


FUNCTIONS: dict[str, Callable[..., FloatArray]] = {
    "exp": _exp,
    "sigmoid": _sigmoid,
    "log-sigmoid": _log_sigmoid,
    "softplus": _softplus,
    "absolute": np.absolute,
    "square": np.square,
    "square-root": np.sqrt,
    "relu": _relu,
    "elu": _elu,
    "tanh": np.tanh,
    "reciprocal": np.reciprocal,
}


@dataclass(frozen=True, eq=False)
class Function(Operation):
    """A function of every entry: y = f(x).

    ``softplus`` is log(1 + e^x), ``elu`` is x above zero and e^x - 1 below, ``relu`` is max(x, 0), ``sigmoid`` is
    1 / (1 + e^-x), and ``log-sigmoid`` its logarithm without loss of digits. ``exp``, ``absolute``, ``square``,
    ``square-root``, ``tanh`` and ``reciprocal`` are what they are called.
    """

    function: FunctionName

    name: ClassVar[str] = "function"
    elementwise: ClassVar[bool] = True
    overwrites: ClassVar[bool] = True

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        function = FUNCTIONS[self.function]
        return lambda out, x: function(x, out=out)


ArithmeticName = Literal["add", "subtract", "multiply", "divide", "minimum", "maximum"]


@dataclass(frozen=True, eq=False)
class Arithmetic(Operation):
    """Arithmetic on two values of one width, of which either may have a single column.

    ``add``, ``subtract``, ``multiply``, ``divide``, ``minimum`` or ``maximum`` of the first value and the second.
    """

    function: ArithmeticName

    name: ClassVar[str] = "arithmetic"
    n_values: ClassVar[int | None] = 2
    elementwise: ClassVar[bool] = True
    overwrites: ClassVar[bool] = True

    def width(self, widths: Sequence[int]) -> int:
        return same_width(self.function, widths)

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        function = getattr(np, self.function)

        def kernel(out: FloatArray | None, x: FloatArray, y: FloatArray) -> Any:
            result: FloatArray = function(x, y, out=out)
            return result

        return kernel


@dataclass(frozen=True, eq=False)
class Widen(Operation):
    """The same numbers as float64."""

    name: ClassVar[str] = "widen"
    widens: ClassVar[bool] = True
    rounds: ClassVar[bool] = False
    elementwise: ClassVar[bool] = True

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        def kernel(out: FloatArray | None, x: FloatArray) -> Any:
            if out is None:
                return x.astype(np.float64)
            np.copyto(out, x)
            return out

        return kernel


@dataclass(frozen=True, eq=False)
class Narrow(Operation):
    """The numbers rounded to the float type of the input.

    With ``keep_positive``, positive numbers below the smallest normal number of that type (1.2e-38 for float32) become it.
    """

    keep_positive: bool = False

    name: ClassVar[str] = "narrow"
    elementwise: ClassVar[bool] = True
    overwrites: ClassVar[bool] = True

    def is_wide(self, wide: Sequence[bool]) -> bool:  # noqa: ARG002
        return False

    def kernel(self, kind: np.dtype[Any]) -> Kernel:
        least = np.finfo(kind).tiny

        def kernel(out: FloatArray | None, x: FloatArray) -> Any:
            if out is None:
                if not self.keep_positive:
                    return x.astype(kind)
                out = np.empty_like(x, dtype=kind)
            if out is x and x.min(initial=1) >= least:
                return x
            if self.keep_positive:
                zeros = None if x.all() else x == 0
                np.maximum(x, least, out=out, casting="same_kind", dtype=x.dtype)
                if zeros is not None:
                    out[zeros] = 0
            else:
                np.copyto(out, x, casting="same_kind")
            return out

        return kernel
