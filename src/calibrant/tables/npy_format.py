"""NPY files: one array of scores, or a structured array whose fields are columns; never pickled objects."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calibrant.errors import FileFormatError, ParameterError
from calibrant.tables.array_source import ArraySource
from calibrant.tables.source import Batch, Sink

__all__ = ["ArrayWriter", "NpySink", "npy_source", "one_array_only"]


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
    """Writer of an array of scores in place of another.

    Parameters
    ----------
    stream : file
        Output stream.
    path : Path
        Its final name, for errors.
    source : ArraySource
    columns : sequence of str
        The array of scores.
    appended : bool
        Must be false.
    """

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
