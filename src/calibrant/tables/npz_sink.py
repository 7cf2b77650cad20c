"""Write NPZ files: a new array of scores, with all other arrays unchanged."""

import zipfile
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from calibrant.tables.batch import Batch
from calibrant.tables.npz_source import NpzSource
from calibrant.tables.sink import Sink

__all__ = ["NpzSink"]


class NpzSink(Sink):
    """Writer of an archive with the arrays of another.

    Parameters
    ----------
    stream : file
        Output stream.
    source : NpzSource
    name : str
        The array of scores.
    appended : str or None
        Name of a new array for the new scores, if the old ones are kept.
    """

    def __init__(self, stream: IO[bytes], source: NpzSource, name: str, appended: str | None) -> None:
        self._source, self._name, self._appended = source, name, appended
        self._archive = zipfile.ZipFile(stream, "w")
        for other in source.columns:
            if other != name or appended is not None:
                source.members.copy_to(self._archive, other)
        compressed = source.members.is_compressed(name)
        info = zipfile.ZipInfo(f"{appended or name}.npy")
        info.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
        self._member = self._archive.open(info, "w", force_zip64=True)
        self._type: np.dtype[np.floating] | None = None

    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:  # noqa: ARG002
        """Write rows, in the floating type of the first batch."""
        shape = self._source.members.shapes[self._name]
        if self._type is None:
            self._type = scores.dtype
            header = {"descr": npy.dtype_to_descr(self._type), "fortran_order": False, "shape": shape}
            npy.write_array_header_1_0(self._member, header)
        self._member.write(np.ascontiguousarray(scores, dtype=self._type).tobytes())

    def finish(self) -> None:
        """Write the directory of the archive."""
        self._member.close()
        self._archive.close()
