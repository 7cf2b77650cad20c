"""Arrays in pickles: what stands in for numpy's functions, and how much memory they may take."""

import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ADMITTED", "MOST_ARGUMENTS", "Budget", "Named", "PickledArray", "PickledType"]

PLAIN_TYPE = re.compile(r"[biufSU]\d{1,6}")
BYTE_ORDERS = ("<", ">", "=", "|")
MOST_ARGUMENTS = 32  # of a function, and dimensions of an array
COPIES = 8  # of its bytes that a file may ask for, since text is read as numbers of four bytes
ROOM = 2**16  # for small files


class Budget:
    """How many bytes may still be copied."""

    def __init__(self, n_bytes: int) -> None:
        self.limit = self.left = COPIES * n_bytes + ROOM

    def take(self, n_bytes: int) -> None:
        """Refuse to copy more bytes than are left."""
        self.left -= n_bytes
        if self.left < 0:
            raise pickle.UnpicklingError("it asks for far more memory than it has bytes")


class PickledType:
    """A type of numbers as a pickle spells it; stands in for numpy.dtype."""

    __slots__ = ("_type",)

    def __init__(self, name: Any) -> None:
        if not isinstance(name, str) or not PLAIN_TYPE.fullmatch(name):
            raise pickle.UnpicklingError(f"it has an array of type {_quoted(name)}")
        self._type = np.dtype(name)

    def build(self, state: Any) -> None:
        """Take the byte order; all else belongs to types that are made of others, and is refused with these."""
        order = state[1]
        if order not in BYTE_ORDERS:
            raise pickle.UnpicklingError(f"it has an array of byte order {_quoted(order)}")
        self._type = self._type.newbyteorder(order)

    def read(self, raw: Any, shape: Any, fortran: Any, budget: Budget) -> NDArray[Any]:
        """Return the array of some bytes; text stands for bytes in pickles of Python 2."""
        if isinstance(raw, str | bytearray):
            budget.take(len(raw))
            raw = raw.encode("latin1") if isinstance(raw, str) else bytes(raw)
        if not isinstance(raw, bytes):
            raise pickle.UnpicklingError("it has an array of objects")
        if not isinstance(shape, tuple) or len(shape) > MOST_ARGUMENTS:
            raise pickle.UnpicklingError("it has an array without a shape")
        if not all(type(size) is int and 0 <= size <= budget.limit for size in shape):
            raise pickle.UnpicklingError("it has an array of an impossible shape")
        if math.prod(shape) * self._type.itemsize != len(raw):
            raise pickle.UnpicklingError("it has an array of another size than its bytes")
        array = np.frombuffer(raw, self._type) if raw else np.empty(0, self._type)
        return array.reshape(shape, order="F" if fortran else "C")


class PickledArray:
    """An array before its content is known; stands in for what ``_reconstruct`` returns."""

    __slots__ = ("content",)

    def __init__(self) -> None:
        self.content: NDArray[Any] | None = None


class Named:
    """A function or class of numpy that a pickle mentions, of which we do what it would do."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any] | None = None) -> None:
        self.call = call


def _made_array(_: Budget, *__: Any) -> PickledArray:
    return PickledArray()


def _made_type(_: Budget, name: Any, *__: Any) -> PickledType:
    return PickledType(name)


def _from_buffer(
    budget: Budget, raw: Any, kind: PickledType, shape: Any, order: Any, *_: Any
) -> NDArray[Any]:
    """Stand in for numpy's function of the same name, by which protocol 5 writes arrays."""
    return kind.read(raw, shape, order == "F", budget)


def _scalar(budget: Budget, kind: PickledType, raw: Any) -> Any:
    budget.take(len(raw))
    return kind.read(raw, (1,), False, budget)[0]


def _encoded(budget: Budget, text: Any, encoding: Any) -> bytes:
    """Stand in for ``_codecs.encode``, by which Python 3 writes bytes for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it has text in {_quoted(encoding)}")
    if not isinstance(text, str):
        raise pickle.UnpicklingError("it encodes what is no text")
    budget.take(len(text))
    return text.encode("latin1")


def _no_bytes(_: Budget) -> bytes:
    """Stand in for ``bytes``, which Python 3 calls without arguments for Python 2 where there are none."""
    return b""


# All that a pickle of numpy arrays and numbers asks for, under the names of old and new numpy, and what it gets.
ADMITTED: dict[tuple[str, str], Named] = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): Named(_made_array) for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): Named(_scalar) for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): Named(_from_buffer) for core in ("core", "_core")},
    ("numpy", "ndarray"): Named(),
    ("numpy", "dtype"): Named(_made_type),
    ("_codecs", "encode"): Named(_encoded),
    ("__builtin__", "bytes"): Named(_no_bytes),
}


def _quoted(value: Any) -> str:
    return repr(value[:100]) if isinstance(value, str) else type(value).__name__
