"""NPZ files: several arrays in one archive."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calibrant.tables.array_source import ArraySource
from calibrant.tables.npz_members import NpzMembers
from calibrant.tables.source import Batch, Sink

__all__ = ["NpzSink", "npz_source"]


def npz_source(path: Path) -> ArraySource:
    """Open an NPZ file."""
    return ArraySource(path, NpzMembers(path))


class NpzSink(Sink):
    """Writer of an archive with the arrays of another.

    Parameters
    ----------
    stream : file
        Output stream.
    path : Path
        Its final name, which has no effect.
    source : ArraySource
    columns : sequence of str
        The array of scores, or the name of a new array.
    appended : bool
        Whether the new scores are a new array.
    """

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
        self._shape = source.shapes[name]
        self._archive = zipfile.ZipFile(stream, "w")
        for other in members.names:
            if other != name or appended:
                members.copy_to(self._archive, other)
        compressed = members.is_compressed(name)
        info = zipfile.ZipInfo(f"{new}.npy")
        info.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
        self._member = self._archive.open(info, "w", force_zip64=True)
        self._type: np.dtype[np.floating] | None = None

    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:  # noqa: ARG002
        """Write rows, in the floating type of the first batch."""
        if self._type is None:
            self._type = scores.dtype
            header = {"descr": npy.dtype_to_descr(self._type), "fortran_order": False, "shape": self._shape}
            npy.write_array_header_1_0(self._member, header)
        self._member.write(np.ascontiguousarray(scores, dtype=self._type).tobytes())

    def finish(self) -> None:
        """Write the directory of the archive."""
        self._member.close()
        self._archive.close()
