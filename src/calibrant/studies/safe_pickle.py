"""Pickles of arrays, read without running what they might contain."""

import math
import pickle
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import StudyDataError

__all__ = ["load_pickle"]

PLAIN_TYPE = re.compile(r"[biufSU]\d{1,6}")
BYTE_ORDERS = ("<", ">", "=", "|")
DEEPEST = 20  # tuples and lists within each other


class _Type:
    """A type of numbers as a pickle spells it; stands in for numpy.dtype."""

    __slots__ = ("_type",)

    def __init__(self, name: Any, *_: Any) -> None:
        if not isinstance(name, str) or not PLAIN_TYPE.fullmatch(name):
            raise pickle.UnpicklingError(f"it has an array of type {name!r}")
        self._type = np.dtype(name)

    def __setstate__(self, state: Any) -> None:
        # All but the byte order belongs to types that are made of others, and is refused with these.
        order = state[1]
        if order not in BYTE_ORDERS:
            raise pickle.UnpicklingError(f"it has an array of byte order {order!r}")
        self._type = self._type.newbyteorder(order)

    def read(self, raw: Any, shape: Any, fortran: Any) -> NDArray[Any]:
        """Return the array of some bytes; text stands for bytes in pickles of Python 2."""
        if isinstance(raw, str):
            raw = raw.encode("latin1")
        if not isinstance(raw, bytes | bytearray):
            raise pickle.UnpicklingError("it has an array of objects")
        shape = tuple(int(size) for size in shape)
        if min(shape, default=0) < 0 or math.prod(shape) * self._type.itemsize != len(raw):
            raise pickle.UnpicklingError("it has an array of another size than its bytes")
        array = np.frombuffer(bytes(raw), self._type) if raw else np.empty(0, self._type)
        return array.reshape(shape, order="F" if fortran else "C")


class _Array:
    """An array before its content is known; stands in for what ``_reconstruct`` returns."""

    __slots__ = ("content",)

    def __init__(self, *_: Any) -> None:
        self.content: NDArray[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, raw = state
        self.content = kind.read(raw, shape, fortran)


class _FromBuffer:
    """Stands in for numpy's function of the same name, by which protocol 5 writes arrays."""

    __slots__ = ()

    def __call__(self, raw: Any, kind: Any, shape: Any, order: Any, *_: Any) -> NDArray[Any]:
        array: NDArray[Any] = kind.read(raw, shape, order == "F")
        return array


class _Scalar:
    """Stands in for numpy's function of the same name."""

    __slots__ = ()

    def __call__(self, kind: Any, raw: Any) -> Any:
        return kind.read(raw, (1,), False)[0]


class _Encode:
    """Stands in for ``_codecs.encode``, by which Python 3 writes bytes for Python 2."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"it has text in {encoding!r}")
        return text.encode("latin1")


class _NoBytes:
    """Stands in for ``bytes``, which Python 3 calls without arguments for Python 2 where there are none."""

    __slots__ = ()

    def __call__(self) -> bytes:
        return b""


class _Word:
    """Stands in for numpy.ndarray, which is only mentioned."""

    __slots__ = ()


# All that a pickle of numpy arrays and numbers asks for, under the names of old and new numpy, and what it gets.
ADMITTED: dict[tuple[str, str], Any] = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _Scalar() for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _FromBuffer() for core in ("core", "_core")},
    ("numpy", "ndarray"): _Word(),
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _Encode(),
    ("__builtin__", "bytes"): _NoBytes(),
}


class _NumbersOnly(pickle.Unpickler):
    """An unpickler that knows arrays and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def load_pickle(path: Path) -> Any:
    """Return the arrays, numbers, tuples, lists and dictionaries of a pickle.

    A pickle is a program. This one may name what rebuilds numpy arrays and nothing else, and even for that it gets functions
    of our own, which make arrays of numbers and of text from bytes. Pickles of Python 2 are read as latin1, which is right for
    arrays.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StudyDataError(f"{path} cannot be read: {error.strerror}.") from error
    if content[:2] == b"PK":
        raise StudyDataError(f"{path} is an archive, not a pickle; give an NPZ file the ending .npz.")
    try:
        return _finished(_NumbersOnly(BytesIO(content), encoding="latin1").load(), DEEPEST)
    except pickle.UnpicklingError as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise StudyDataError(
            f"{path} is not a pickle of numpy arrays alone: {reason}; save the arrays with numpy.savez."
        ) from error
    except MemoryError:
        raise StudyDataError(f"{path} asks for more memory than there is; it may be damaged.") from None
    except Exception as error:
        # Damaged bytes raise almost anything.
        raise StudyDataError(
            f"{path} is not a whole pickle of numpy arrays, {type(error).__name__}; fetch it again."
        ) from error


def _finished(value: Any, depth: int) -> Any:
    """Return content with arrays in the places of what stood in for them."""
    if depth == 0:
        raise pickle.UnpicklingError("it is nested too deeply")
    if isinstance(value, _Array):
        if value.content is None:
            raise pickle.UnpicklingError("it has an array without content")
        return value.content
    if isinstance(value, tuple | list):
        return type(value)(_finished(each, depth - 1) for each in value)
    if isinstance(value, dict):
        return {key: _finished(each, depth - 1) for key, each in value.items()}
    if isinstance(value, _Type | _Word | _Scalar | _Encode | _FromBuffer | _NoBytes | type):
        raise pickle.UnpicklingError("it has something else than arrays")
    return value
