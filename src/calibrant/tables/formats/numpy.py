"""NumPy files: a single array (.npy) and archives of named arrays (.npz)."""

import errno
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calibrant.errors import FileFormatError, ParameterError
from calibrant.tables.array_source import ArraySource
from calibrant.tables.formats import ZIP, Format
from calibrant.tables.source import Batch, Sink

__all__ = ["NpzMembers", "one_array_only"]

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


class NpyFile:
    """The memory-mapped array of a file, named after it, or the fields of a structured array."""

    def __init__(self, path: Path) -> None:
        try:
            self._array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, SyntaxError, TypeError, OverflowError) as error:
            objects = "objects" in str(error)
            what = (
                "holds Python objects, which are never loaded; save it as numbers"
                if objects
                else "is not a complete NPY file; write it again, with numpy.save"
            )
            raise FileFormatError(f"{path} {what}.") from error
        fields = self._array.dtype.names
        self.is_structured = fields is not None
        self.names = fields or (path.name.removesuffix(path.suffix),)
        self.shapes = {name: self.array(name).shape for name in self.names}

    def array(self, name: str) -> NDArray[Any]:
        """Return the array, or one field of it."""
        return self._array[name] if self.is_structured else self._array

    def close(self) -> None:
        """Release the memory map."""
        del self._array


def npy_source(path: Path) -> ArraySource:
    """Open an NPY file."""
    return ArraySource(path, NpyFile(path))


def one_array_only(path: Path, appended: bool) -> None:
    """Refuse to add an array to a file that holds one."""
    if appended:
        raise ParameterError(f"{path} holds a single array; replace the scores instead of appending.")


class ArrayWriter:
    """Writer of an array in NPY format, in parts, with the floating type of the first part."""

    def __init__(self, stream: IO[bytes], shape: tuple[int, ...]) -> None:
        self._stream, self._shape = stream, shape
        self._type: np.dtype[np.floating] | None = None

    def write(self, rows: NDArray[np.floating]) -> None:
        """Write some rows, after the header if they are the first."""
        if self._type is None:
            self._type = rows.dtype
            header = {"descr": npy.dtype_to_descr(self._type), "fortran_order": False, "shape": self._shape}
            npy.write_array_header_1_0(self._stream, header)
        self._stream.write(np.ascontiguousarray(rows, dtype=self._type).tobytes())


class NpySink(Sink):
    """Writer of an array of scores in place of another."""

    def __init__(
        self,
        stream: IO[bytes],
        path: Path,
        source: ArraySource,
        columns: Sequence[str],  # noqa: ARG002
        appended: bool,
    ) -> None:
        one_array_only(path, appended)
        assert isinstance(source.members, NpyFile)
        assert source.score_name is not None
        if source.members.is_structured:
            raise ParameterError(
                f"{source.path} is a structured array; apply a calibrator to an NPZ file instead."
            )
        self._array = ArrayWriter(stream, source.shapes[source.score_name])

    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:  # noqa: ARG002
        """Write rows, in the floating type of the first batch."""
        self._array.write(scores)

    def finish(self) -> None:
        """Do nothing: the file has no end."""


def npz_source(path: Path) -> ArraySource:
    """Open an NPZ file."""
    return ArraySource(path, NpzMembers(path))


class NpzSink(Sink):
    """Writer of an archive with the arrays of another."""

    def __init__(
        self,
        stream: IO[bytes],
        path: Path,  # noqa: ARG002
        source: ArraySource,
        columns: Sequence[str],
        appended: bool,
    ) -> None:
        assert source.score_name is not None
        assert isinstance(source.members, NpzMembers)
        members, name, new = source.members, source.score_name, columns[0]
        self._archive = zipfile.ZipFile(stream, "w")
        for other in members.names:
            if other != name or appended:
                members.copy_to(self._archive, other)
        compressed = members.is_compressed(name)
        info = zipfile.ZipInfo(f"{new}.npy")
        info.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
        self._member = self._archive.open(info, "w", force_zip64=True)
        self._array = ArrayWriter(self._member, source.shapes[name])

    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:  # noqa: ARG002
        """Write rows, in the floating type of the first batch."""
        self._array.write(scores)

    def finish(self) -> None:
        """Write the directory of the archive."""
        self._member.close()
        self._archive.close()


NPZ = Format(
    "NPZ", (".npz",), npz_source, NpzSink, ZIP, member=".npy", about="one array of scores, one of labels"
)
NPY = Format(
    "NPY",
    (".npy",),
    npy_source,
    NpySink,
    b"\x93NUMPY",
    about="one array of scores; labels in another file: `--label labels.npy`",
)
