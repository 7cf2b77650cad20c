"""Arrays of an NPZ file: memory-mapped if uncompressed, else read."""

import errno
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calibrant.errors import FileFormatError

__all__ = ["NpzMembers"]

LOCAL_HEADER_SIZE = 30  # bytes of a member's local header before its name
LENGTHS = slice(26, 30)  # position of the lengths of name and extra field in these bytes


BLOCK = 2**20
MOST_EXPANSION = 1100  # upper bound of the compression ratio of deflate
LONGEST_EMPTY = 2**16  # rows of an array without columns

# Exceptions of the archive and array libraries for damaged data, as opposed to disk errors.
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, OverflowError, KeyError),
    *(NotImplementedError, RuntimeError, SyntaxError, TypeError),
)


class NpzMembers:
    """Arrays of an NPZ file by name; pickled objects are never loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except (*DAMAGE, OSError) as error:
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            what = "is empty" if path.stat().st_size == 0 else "is not a complete NPZ file"
            raise FileFormatError(f"{path} {what}; write it again, with numpy.savez.") from error
        try:
            members = [name for name in self._archive.namelist() if name.endswith(".npy")]
            if len(set(members)) < len(members):
                raise FileFormatError(
                    f"{path} has two arrays of the same name; write it again, with numpy.savez."
                )
            self.names = tuple(name.removesuffix(".npy") for name in members)
            self.shapes: dict[str, tuple[int, ...]] = {}
            self.types: dict[str, np.dtype[Any]] = {}
            for name in self.names:
                with self._opened(name) as stream:
                    self.shapes[name], _, self.types[name] = self._header(stream, name)
                    self._check_size(name, stream.tell())
        except BaseException:
            self._archive.close()
            raise

    def array(self, name: str) -> NDArray[Any]:
        """Return one array, memory-mapped if it is uncompressed.

        The checksum of the archive is verified in both cases.
        """
        if self.types[name].hasobject:
            raise FileFormatError(
                f"{self.path}: the array {name!r} holds Python objects, which are never loaded; save it as numbers or "
                "as text, such as array.astype(str)."
            )
        info = self._archive.getinfo(f"{name}.npy")
        if info.compress_type == zipfile.ZIP_STORED and math.prod(self.shapes[name]) > 0:
            with self._opened(name) as stream:
                while stream.read(BLOCK):
                    pass
            return self._mapped(name, info.header_offset)
        with self._opened(name) as stream:
            array: NDArray[Any] = npy.read_array(stream, allow_pickle=False)
            stream.read(1)  # reaching the end verifies the checksum
            return array

    def copy_to(self, other: zipfile.ZipFile, name: str) -> None:
        """Copy one array into another archive, byte for byte."""
        info = self._archive.getinfo(f"{name}.npy")
        copied = zipfile.ZipInfo(info.filename, info.date_time)
        copied.compress_type = info.compress_type
        with other.open(copied, "w", force_zip64=True) as target:
            for block in self._blocks(name):
                target.write(block)

    def is_compressed(self, name: str) -> bool:
        """Return whether an array is compressed."""
        return self._archive.getinfo(f"{name}.npy").compress_type != zipfile.ZIP_STORED

    def close(self) -> None:
        """Close the file."""
        self._archive.close()

    def _blocks(self, name: str) -> Iterator[bytes]:
        with self._opened(name) as stream:
            while block := stream.read(BLOCK):
                yield block

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        """Open one array; damage found while reading it is reported in one sentence."""
        try:
            with self._archive.open(f"{name}.npy") as stream:
                yield stream
        except FileFormatError:
            raise
        except DAMAGE as error:
            raise FileFormatError(f"{self.path}: the array {name!r} is damaged; write it again.") from error

    def _check_size(self, name: str, header_size: int) -> None:
        """Reject an array whose declared size differs from that of its member, or is impossible for it."""
        info = self._archive.getinfo(f"{name}.npy")
        size = math.prod(self.shapes[name]) * self.types[name].itemsize
        longest = max(self.shapes[name], default=0)
        if (
            (size != info.file_size - header_size and not self.types[name].hasobject)
            or info.file_size > MOST_EXPANSION * info.compress_size + BLOCK
            or (size == 0 and longest > max(self.path.stat().st_size, LONGEST_EMPTY))
        ):
            raise FileFormatError(f"{self.path}: the array {name!r} is damaged; write it again.")

    def _header(self, stream: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        try:
            version = npy.read_magic(stream)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(stream)
        except DAMAGE as error:
            raise FileFormatError(
                f"{self.path}: the member {name!r} is not a numpy array; write it again."
            ) from error
        return shape, fortran, dtype

    def _mapped(self, name: str, offset: int) -> NDArray[Any]:
        with self.path.open("rb") as stream:
            stream.seek(offset)
            lengths = stream.read(LOCAL_HEADER_SIZE)[LENGTHS]
            stream.seek(sum(int.from_bytes(lengths[at : at + 2], "little") for at in (0, 2)), 1)
            shape, fortran, dtype = self._header(stream, name)
            start = stream.tell()
        try:
            return np.memmap(self.path, dtype, "r", start, shape, "F" if fortran else "C")
        except DAMAGE as error:
            raise FileFormatError(f"{self.path}: the array {name!r} is damaged; write it again.") from error
