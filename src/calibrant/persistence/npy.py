"""Reader of the npy format for plain arrays of numbers, booleans or strings.

NumPy's reader evaluates the header as a Python literal and allocates the declared size. This reader accepts only the text
that NumPy's writer produces, and the declared size is compared with that of the member first.
"""

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.persistence.schema import UnreadableError, quoted

__all__ = ["PREAMBLE_SIZE", "Layout", "array_from_bytes", "header_size", "is_storable", "parse_layout"]

PREAMBLE_SIZE = 10  # magic (6), version (2), length of the header (2)
MAGIC = b"\x93NUMPY\x01\x00"

ITEM_TYPE = re.compile(r"([<>|])([biufU])([1-9][0-9]{0,8})")
ITEM_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8)}
HEADER = re.compile(
    r"\{'descr': (.+), 'fortran_order': (True|False), "
    r"'shape': \((|[0-9]{1,19},|[0-9]{1,19}(?:, [0-9]{1,19})+)\), \} *\n"
)
LAST_CODE_POINT = 0x10FFFF
LARGEST_ITEM = 2**31 - 1  # bytes; numpy before 2.2 accepts wider strings and wraps their size


@dataclass(frozen=True)
class Layout:
    """Type, shape and memory order of an array that is not read yet."""

    item_type: str
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    @property
    def n_bytes(self) -> int:
        """Size of the data in bytes; an exact integer for any shape."""
        return math.prod(self.shape) * _item_size(self.item_type)


def is_storable(dtype: np.dtype[Any]) -> bool:
    """Return whether arrays of this type can be stored: booleans, integers, floats up to 64 bits, strings.

    >>> is_storable(np.dtype("float32")), is_storable(np.dtype(object))
    (True, False)
    """
    return dtype.fields is None and _item_size(dtype.str) > 0


def header_size(preamble: bytes) -> int:
    """Return the length of the header that follows the first :data:`PREAMBLE_SIZE` bytes."""
    if len(preamble) < PREAMBLE_SIZE or not preamble.startswith(MAGIC):
        raise UnreadableError("which is not an array in npy format 1.0")
    return int.from_bytes(preamble[8:], "little")


def parse_layout(header: bytes) -> Layout:
    """Return what an npy header declares; raises :class:`UnreadableError` if it is not a plain array."""
    match = HEADER.fullmatch(header.decode("latin-1"))
    if match is None:
        raise UnreadableError("whose npy header is not one that numpy writes")
    quoted_type, fortran, sizes = match.groups()
    item_type = quoted_type[1:-1]
    if "O" in item_type:
        raise UnreadableError("which holds pickled Python objects; calibrant never reads those")
    if quoted_type != f"'{item_type}'" or not _item_size(item_type):
        raise UnreadableError(f"of the type {quoted(item_type)}, which is not allowed")
    shape = tuple(int(size) for size in sizes.split(",") if size)
    return Layout(item_type, shape, "F" if fortran == "True" else "C")


def array_from_bytes(data: NDArray[np.uint8], layout: Layout) -> NDArray[Any]:
    """Return a view of ``data`` as an array, after checking that every item is valid."""
    kind = layout.item_type[1]
    if kind == "b" and (data > 1).any():
        raise UnreadableError("which has booleans that are neither true nor false")
    if kind == "U" and (data.view(f"{layout.item_type[0]}u4") > LAST_CODE_POINT).any():
        raise UnreadableError("which has text that is not Unicode")
    try:
        if _item_size(layout.item_type) > LARGEST_ITEM:
            raise ValueError(f"{layout.item_type} is wider than numpy allows")
        array: NDArray[Any] = np.ndarray(
            layout.shape, np.dtype(layout.item_type), buffer=data, order=layout.order
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise UnreadableError(f"which has an impossible shape or type ({quoted(str(error))})") from error
    return array


def _item_size(item_type: str) -> int:
    """Return the bytes per item of a dtype string such as ``<f8``, or 0 if the type is not allowed."""
    match = ITEM_TYPE.fullmatch(item_type)
    if match is None:
        return 0
    order, kind, digits = match.groups()
    size = int(digits)
    if kind == "U":
        return 0 if order == "|" else 4 * size  # numpy counts characters, of four bytes each
    return size if size in ITEM_SIZES[kind] and (order == "|") == (size == 1) else 0
