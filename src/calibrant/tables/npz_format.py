"""NPZ files: several arrays in one archive."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from calibrant.tables.array_source import ArraySource
from calibrant.tables.npy_format import ArrayWriter
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
