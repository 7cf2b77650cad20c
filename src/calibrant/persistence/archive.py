"""Zip archives of a header and arrays: written, and read from untrusted sources.

Only uncompressed members are read, every byte of the file must belong to exactly one of them or to the directory, and
arrays must have their declared sizes. Arrays therefore take no more memory than the size of the file. The sizes of header
and directory, which become many small Python objects, are limited.
"""

import errno
import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.persistence.schema import (
    ARRAY_MEMBER,
    HEADER_MEMBER,
    MAX_DIRECTORY_BYTES,
    MAX_HEADER_BYTES,
    UnreadableError,
    array_member,
    quoted,
)
from calibrant.remedies import SAVED_FILE

__all__ = ["ArchiveReader", "File", "Layout", "array_from_bytes", "is_storable", "write_archive"]

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


File = io.BufferedReader | io.BufferedRandom | io.BytesIO

EPOCH = (1980, 1, 1, 0, 0, 0)  # so that the same calibrator always gives the same bytes
LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, lengths of name and extra field
END_SIZE = 22
LARGEST_NPY_HEADER = 65_546
LARGEST_EMPTY = 2**16
PICKLE_STARTS = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))


def write_archive(stream: File, header: bytes, arrays: Sequence[NDArray[Any]]) -> None:
    """Write ``header`` and ``arrays`` to an empty, seekable file."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(HEADER_MEMBER, EPOCH), header)
        for index, array in enumerate(arrays):
            info = zipfile.ZipInfo(array_member(index), EPOCH)
            info.file_size = array.nbytes + LARGEST_NPY_HEADER  # decides whether zip64 is needed
            with archive.open(info, "w") as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


class _BoundedReads:
    """A file whose reads are limited to the maximum size of a directory."""

    def __init__(self, stream: File) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES:
            raise UnreadableError(
                f"has a directory of {size} bytes, but at most {MAX_DIRECTORY_BYTES} are read"
            )
        return self._stream.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@dataclass(frozen=True)
class _Member:
    """Position of a stored member: its local header from ``start``, its data from ``data`` to ``end``."""

    name: str
    start: int
    data: int
    end: int
    checksum: int


class ArchiveReader:
    """Reader of an untrusted archive.

    Every method raises :class:`UnreadableError`, whose message continues a sentence that starts with the name of the file.
    """

    def __init__(self, stream: File) -> None:
        self._stream = stream
        self.n_bytes = stream.seek(0, io.SEEK_END)
        archive = self._opened()
        self._infos = archive.infolist()
        self._directory_start = archive.start_dir
        self._has_comment = bool(archive.comment)

    def header(self) -> bytes:
        """Return the JSON text without reading other members, so that newer files can be recognised."""
        infos = [info for info in self._infos if info.orig_filename == HEADER_MEMBER]
        if not infos:
            raise UnreadableError(f"is a zip archive without {HEADER_MEMBER}, so it is not {SAVED_FILE}")
        member = self._located(infos[0])
        if member.end - member.data > MAX_HEADER_BYTES:
            raise UnreadableError(
                f"has a {HEADER_MEMBER} of {member.end - member.data} bytes, but at most {MAX_HEADER_BYTES} are read"
            )
        self._stream.seek(member.data)
        text = self._stream.read(member.end - member.data)
        self._check_sum(member, zlib.crc32(text))
        return text

    def arrays(self) -> list["StoredArray"]:
        """Check the complete archive and return its arrays, which are not read yet."""
        names = [info.orig_filename for info in self._infos]
        for name in names:
            if name != HEADER_MEMBER and not ARRAY_MEMBER.fullmatch(name):
                raise UnreadableError(f"holds {quoted(name)}, which is no part of a calibrator")
        if len(set(names)) < len(names):
            raise UnreadableError("is damaged: two members have the same name")
        members = {info.orig_filename: self._located(info) for info in self._infos}
        self._check_no_gaps(list(members.values()))
        arrays = []
        for index in range(len(members) - 1):
            name = array_member(index)
            if name not in members:
                raise UnreadableError(f"is damaged: {name} is missing")
            arrays.append(self._declared(members[name]))
        return arrays

    def read(self, array: "StoredArray") -> NDArray[Any]:
        """Return the array after checking its checksum."""
        member = array.member
        self._stream.seek(member.data)
        checksum = zlib.crc32(self._stream.read(array.offset - member.data))
        data = np.empty(array.layout.n_bytes, np.uint8)
        if self._stream.readinto(data.data) != data.size:
            raise UnreadableError(f"is damaged: {member.name} ends too early")
        self._check_sum(member, zlib.crc32(data.data, checksum))
        try:
            return array_from_bytes(data, array.layout)
        except UnreadableError as error:
            raise UnreadableError(f"is damaged: it has {member.name}, {error}") from error

    def _opened(self) -> zipfile.ZipFile:
        self._stream.seek(0)
        start = self._stream.read(4)
        if start != b"PK\x03\x04":
            if not start:
                raise UnreadableError("is empty; save the calibrator again")
            if start.startswith(PICKLE_STARTS):
                raise UnreadableError("is a Python pickle, which can run code and is never read; use save")
            raise UnreadableError(f"is not a zip archive, so it is not {SAVED_FILE}")
        damage = "is damaged: it begins as a zip archive, but its end is missing or invalid"
        try:
            return zipfile.ZipFile(_BoundedReads(self._stream))
        except OSError as error:
            # An invalid offset is damage; an input or output error is not.
            if error.errno not in (None, errno.EINVAL):
                raise
            raise UnreadableError(damage) from error
        except UnreadableError:
            raise
        except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, struct.error) as error:
            raise UnreadableError(damage) from error

    def _located(self, info: zipfile.ZipInfo) -> _Member:
        name = info.orig_filename
        if info.compress_type != zipfile.ZIP_STORED:
            raise UnreadableError(f"holds {name} in compressed form, which is not allowed")
        if info.flag_bits or info.compress_size != info.file_size:
            raise UnreadableError(f"is damaged: {name} is encrypted or has contradictory sizes")
        start = info.header_offset
        if not 0 <= start <= self._directory_start - LOCAL_HEADER.size:
            raise UnreadableError(f"is damaged: {name} lies outside the file")
        self._stream.seek(start)
        signature, name_size, extra_size = LOCAL_HEADER.unpack(self._stream.read(LOCAL_HEADER.size))
        if signature != b"PK\x03\x04" or self._stream.read(name_size) != name.encode():
            raise UnreadableError(f"is damaged: {name} is not where the directory says")
        data = start + LOCAL_HEADER.size + name_size + extra_size
        end = data + info.file_size
        if end > self._directory_start:
            raise UnreadableError(f"is damaged: {name} ends outside the file")
        return _Member(name, start, data, end, info.CRC)

    def _check_no_gaps(self, members: list[_Member]) -> None:
        """Raise an error for overlapping members, which would multiply the memory, and for gaps."""
        position = 0
        for member in sorted(members, key=lambda member: member.start):
            if member.start != position:
                raise UnreadableError(f"is damaged: there is an overlap or a gap before {member.name}")
            position = member.end
        self._stream.seek(self.n_bytes - END_SIZE)
        end = self._stream.read(END_SIZE)
        if (
            position != self._directory_start
            or self._has_comment
            or not (end.startswith(b"PK\x05\x06") and end.endswith(b"\0\0"))
        ):
            raise UnreadableError("is damaged: there are other data after its members")

    def _declared(self, member: _Member) -> "StoredArray":
        self._stream.seek(member.data)
        try:
            preamble = self._stream.read(min(PREAMBLE_SIZE, member.end - member.data))
            size = header_size(preamble)
            offset = member.data + PREAMBLE_SIZE + size
            layout = parse_layout(self._stream.read(size))
        except UnreadableError as error:
            raise UnreadableError(f"holds {member.name}, {error}") from error
        if offset + layout.n_bytes != member.end:
            raise UnreadableError(
                f"is damaged: {member.name} declares {quoted(layout.n_bytes)} bytes "
                f"but has {max(member.end - offset, 0)}"
            )
        if max(layout.shape, default=0) > max(self.n_bytes, LARGEST_EMPTY):
            # An array without items may declare any length.
            raise UnreadableError(f"is damaged: {member.name} declares more rows than the file has bytes")
        return StoredArray(member, offset, layout)

    def _check_sum(self, member: _Member, checksum: int) -> None:
        if checksum != member.checksum:
            raise UnreadableError(f"is damaged: the checksum of {member.name} is wrong; fetch a fresh copy")


@dataclass(frozen=True)
class StoredArray:
    """An array in an archive: its declared layout, checked against its size, and the offset of its data."""

    member: _Member
    offset: int
    layout: Layout
