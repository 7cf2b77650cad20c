"""File formats: extension, signature, reader and writer of each, in one list."""

import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import IO, Any

from calibrant.errors import FileFormatError, ParameterError
from calibrant.tables.arrow_format import ArrowSink, FeatherSource, ParquetSource
from calibrant.tables.csv_format import CsvSink, CsvSource
from calibrant.tables.npz_format import NpzSink, NpzSource
from calibrant.tables.source import Sink, Source

__all__ = ["NPZ", "Format", "format_of", "formats", "known_endings", "open_file"]

BYTES_LOOKED_AT = 4096


@dataclass(frozen=True)
class Format:
    """A file format for predictions.

    Attributes
    ----------
    name : str
        Name in messages.
    endings : tuple of str
        File extensions in lower case, with the dot.
    reader : function
        ``reader(path)`` opens a file and returns a `Source`.
    writer : function
        ``writer(stream, path, source, columns, appended)`` returns a `Sink`. The stream becomes the file ``path``, with the
        rows of ``source``; ``columns`` are the names of the new scores, and ``appended`` says whether they are new columns.
    signature : bytes
        First bytes of every file of the format; empty if it has none.

    Notes
    -----
    A package adds its own by an entry point of the group ``calibrant.formats``; see :doc:`/extending`.
    """

    name: str
    endings: tuple[str, ...]
    reader: Callable[[Path], Source]
    writer: Callable[[IO[bytes], Path, Any, Sequence[str], bool], Sink]
    signature: bytes = b""

    def has_name(self, path: str | os.PathLike[str]) -> bool:
        """Return whether a file name has an extension of this format."""
        return Path(path).name.lower().endswith(self.endings)


TEXT = Format("text", (".csv", ".tsv"), CsvSource, CsvSink)
NPZ = Format("NPZ", (".npz",), NpzSource, NpzSink, b"PK\x03\x04")

FORMATS = (
    TEXT,
    Format("text compressed by gzip", (".csv.gz", ".tsv.gz"), CsvSource, CsvSink, b"\x1f\x8b"),
    Format("text compressed by bzip2", (".csv.bz2", ".tsv.bz2"), CsvSource, CsvSink, b"BZh91AY&SY"),
    Format("text compressed by xz", (".csv.xz", ".tsv.xz"), CsvSource, CsvSink, b"\xfd7zXZ\x00"),
    Format("Parquet", (".parquet", ".pq"), ParquetSource, ArrowSink, b"PAR1"),
    Format("Feather", (".feather", ".arrow"), FeatherSource, ArrowSink, b"ARROW1"),
    NPZ,
)
"""File formats of this package, in the order of messages."""

ENTRY_POINT_GROUP = "calibrant.formats"


@cache
def formats() -> tuple[Format, ...]:
    """Return all file formats, those of plug-ins last."""
    return (*FORMATS, *map(_plugin, entry_points(group=ENTRY_POINT_GROUP)))


def _plugin(entry_point: EntryPoint) -> Format:
    found = entry_point.load()
    if not isinstance(found, Format):
        raise ParameterError(
            f"the entry point {entry_point.name!r} of the group {ENTRY_POINT_GROUP} must name a Format, not {found!r}."
        )
    return found


def known_endings() -> str:
    """Return all file extensions, for messages."""
    return ", ".join(ending for each in formats() for ending in each.endings)


def format_of(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file name.

    >>> format_of("predictions.pq").name
    'Parquet'
    """
    for each in formats():
        if each.has_name(path):
            return each
    raise FileFormatError(f"{os.fsdecode(path)}: unknown file extension; supported are {known_endings()}.")


def open_file(path: Path) -> Source:
    """Open one file for reading, after a look at its first bytes."""
    kind = format_of(path)
    check_signature(path, kind)
    return kind.reader(path)


def check_signature(path: Path, kind: Format) -> None:
    """Reject a file whose first bytes are the signature of another format than its extension.

    Files without a known signature, possibly damaged, are left to the reader of the format.
    """
    with path.open("rb") as stream:
        start = stream.read(BYTES_LOOKED_AT)
    for each in formats():
        if each.signature and start.startswith(each.signature):
            if each is kind:
                return
            if each is NPZ and not _has_arrays(path):
                raise FileFormatError(
                    f"{path} looks like a ZIP archive, such as an Excel file, not like {kind.name}; save it as CSV."
                )
            raise FileFormatError(f"{path} looks like {each.name}; give it the extension {each.endings[0]}.")
    if kind.signature and start and _is_text(start) and kind.reader is not CsvSource:
        raise FileFormatError(
            f"{path} looks like text, not like {kind.name}; give it the extension .csv, or .tsv if it has tabs."
        )


def _has_arrays(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(".npy") for name in archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, OSError):
        return False


def _is_text(start: bytes) -> bool:
    first, _, _ = start.partition(b"\n")
    return first.isascii() and b"\x00" not in start and first.decode("ascii").strip().isprintable()
