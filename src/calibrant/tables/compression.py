"""Compressed text files: gzip, bzip2, xz and zstd, by the file extension."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from calibrant.errors import FileFormatError
from calibrant.tables.source import pyarrow_module

__all__ = ["estimated_rows", "opened", "readable", "written_to"]

COMPRESSION_RATIO = 3  # approximate, for scores in text

BROKEN = (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError)


def _opened_zstd(path: Path) -> IO[bytes]:
    stream: Any = pyarrow_module().input_stream(str(path), compression="zstd")
    return io.BufferedReader(stream)


OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _opened_zstd,
}
"""File extension -> how to open the compressed file."""

NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}


def estimated_rows(path: Path, lengths: Sequence[int]) -> int:
    """Return about how many rows a file has, from its size and the lengths of the first rows."""
    size = path.stat().st_size * (COMPRESSION_RATIO if path.suffix.lower() in OPENERS else 1)
    return max(int(size / (sum(lengths) / len(lengths))), len(lengths))


def opened(path: Path) -> IO[bytes]:
    """Open a file for reading, decompressed if its extension says so."""
    opener = OPENERS.get(path.suffix.lower())
    stream: IO[bytes] = path.open("rb") if opener is None else opener(path)
    return stream


def readable(found: Iterator[Any], path: Path) -> Iterator[Any]:
    """Yield what is read from a file; convert errors of damaged compressed files into one sentence."""
    try:
        yield from found
    except (*BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        kind = NAMES.get(path.suffix.lower(), "compressed")
        raise FileFormatError(
            f"{path} is not a complete {kind} file ({error}); write it again, or name it {Path(path.stem).suffix}."
        ) from error


def written_to(stream: IO[bytes], path: Path) -> Any:
    """Return a writer that leaves the stream open; it compresses if the name asks for it.

    Without name and time stamp, so that output repeats.
    """
    match path.suffix.lower():
        case ".gz":
            return gzip.GzipFile("", "wb", fileobj=stream, mtime=0)
        case ".bz2":
            return bz2.BZ2File(stream, "wb")
        case ".xz":
            return lzma.LZMAFile(stream, "wb")
        case ".zst":
            pyarrow = pyarrow_module()
            return pyarrow.CompressedOutputStream(pyarrow.PythonFile(_LeftOpen(stream), "w"), "zstd")
    return _LeftOpen(stream)


class _LeftOpen(io.RawIOBase):
    """Stream that may be closed without closing the file below."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, text: Any) -> int:
        return self._stream.write(text)
