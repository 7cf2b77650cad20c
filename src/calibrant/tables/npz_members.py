"""Arrays of an NPZ file: mapped from the disk where they are stored as they are, else read."""

import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calibrant.errors import FileFormatError

__all__ = ["NpzMembers"]

LOCAL_HEADER_SIZE = 30  # bytes of a member's own header before its name
LENGTHS = slice(26, 30)  # where those bytes give the lengths of the name and of what follows it


class NpzMembers:
    """The arrays of an NPZ file by name; nothing in it is ever unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            what = "is empty" if path.stat().st_size == 0 else "is not a whole NPZ file"
            raise FileFormatError(f"{path} {what}; write it again, with numpy.savez.") from error
        self.names = tuple(
            name.removesuffix(".npy") for name in self._archive.namelist() if name.endswith(".npy")
        )
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.types: dict[str, np.dtype[Any]] = {}
        for name in self.names:
            with self._opened(name) as stream:
                self.shapes[name], _, self.types[name] = self._header(stream, name)

    def array(self, name: str) -> NDArray[Any]:
        """Return one array, without reading it if it lies in the file uncompressed."""
        if self.types[name].hasobject:
            raise FileFormatError(
                f"{self.path}: the array {name!r} holds Python objects, which are never loaded; save it as numbers or "
                "as text, such as array.astype(str)."
            )
        info = self._archive.getinfo(f"{name}.npy")
        if info.compress_type == zipfile.ZIP_STORED and np.prod(self.shapes[name]) > 0:
            return self._mapped(name, info.header_offset)
        try:
            with self._opened(name) as stream:
                array: NDArray[Any] = npy.read_array(stream, allow_pickle=False)
                return array
        except (ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise FileFormatError(f"{self.path}: the array {name!r} is not whole; write it again.") from error

    def copy_to(self, other: zipfile.ZipFile, name: str) -> None:
        """Write one array into another archive, byte for byte."""
        info = self._archive.getinfo(f"{name}.npy")
        copied = zipfile.ZipInfo(info.filename, info.date_time)
        copied.compress_type = info.compress_type
        with self._opened(name) as stream, other.open(copied, "w", force_zip64=True) as target:
            while block := stream.read(2**20):
                target.write(block)

    def is_compressed(self, name: str) -> bool:
        """Tell whether an array is compressed."""
        return self._archive.getinfo(f"{name}.npy").compress_type != zipfile.ZIP_STORED

    def close(self) -> None:
        """Close the file."""
        self._archive.close()

    def _opened(self, name: str) -> IO[bytes]:
        return self._archive.open(f"{name}.npy")

    def _header(self, stream: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        try:
            version = npy.read_magic(stream)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(stream)
        except (ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise FileFormatError(
                f"{self.path}: the member {name!r} is no array that numpy writes; write it again."
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
        except ValueError as error:
            raise FileFormatError(f"{self.path}: the array {name!r} is not whole; write it again.") from error
