"""Compressed text files: gzip, bzip2, xz and zstd, by the file extension."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from calibrant.errors import FileFormatError
from calibrant.tables.source import pyarrow_module

__all__ = ["COMPRESSION_RATIO", "compressor", "is_compressed", "opened", "readable"]

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


def is_compressed(path: Path) -> bool:
    """Return whether the extension of a file is that of a compressed one."""
    return path.suffix.lower() in OPENERS


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


def compressor(stream: IO[bytes], path: Path) -> Any | None:
    """Return a writer that compresses, if the name asks for it; without name and time stamp, so that output repeats."""
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
    return None


class _LeftOpen(io.RawIOBase):
    """Stream that pyarrow may close without closing the file below, as the other writers leave it open."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, text: Any) -> int:
        return self._stream.write(text)
