"""File formats, one or more per file of this folder: extension, signature, reader and writer of each."""

import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import iter_modules
from typing import IO, TYPE_CHECKING, Any

from calibrant.errors import FileFormatError, ParameterError
from calibrant.tables.source import Sink, Source

if TYPE_CHECKING:  # a run-time import would be circular
    from calibrant.tables.formats.csv import Dialect

__all__ = [
    "ZIP",
    "Format",
    "ending_of_content",
    "format_of",
    "formats",
    "known_ending",
    "known_endings",
    "open_file",
]

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
    member : str
        End of the name of a file inside, if the format is a kind of ZIP archive.
    has_dialect : bool
        Whether the reader takes a ``Dialect`` of CSV files as its second argument.
    about : str
        A remark for users, in Markdown: how files must look, or which extra they need.

    Notes
    -----
    A package adds its own by an entry point of the group ``calibrant.formats``; see :doc:`/extending`.
    """

    name: str
    endings: tuple[str, ...]
    reader: Callable[..., Source]
    writer: Callable[[IO[bytes], Path, Any, Sequence[str], bool], Sink]
    signature: bytes = b""
    member: str = ""
    has_dialect: bool = False
    about: str = ""

    def has_name(self, path: str | os.PathLike[str]) -> bool:
        """Return whether a file name has an extension of this format."""
        return Path(path).name.lower().endswith(self.endings)


ZIP = b"PK\x03\x04"
"""Signature of ZIP archives."""

FIRST = ("csv", "arrow", "numpy")
"""Files whose formats come first in messages; the others follow by name."""

ENTRY_POINT_GROUP = "calibrant.formats"


@cache
def formats() -> tuple[Format, ...]:
    """Return all file formats: those that the files of this folder define, then those of plug-ins."""
    files = {found.name for found in iter_modules(__path__)}
    modules = [
        import_module(f"calibrant.tables.formats.{name}") for name in (*FIRST, *sorted(files - {*FIRST}))
    ]
    own = [each for module in modules for each in vars(module).values() if isinstance(each, Format)]
    return (*own, *map(_plugin, entry_points(group=ENTRY_POINT_GROUP)))


def _plugin(entry_point: EntryPoint) -> Format:
    found = entry_point.load()
    if not isinstance(found, Format):
        raise ParameterError(
            f"the entry point {entry_point.name!r} of the group {ENTRY_POINT_GROUP} must name a Format, not {found!r}."
        )
    return found


def known_ending(path: Path) -> str:
    """Return the extension of a file name if it is a known one, else an empty text.

    >>> known_ending(Path("a.CSV.gz")), known_ending(Path("folder"))
    ('.CSV.gz', '')
    """
    name = path.name
    lengths = [len(ending) for each in formats() for ending in each.endings if name.lower().endswith(ending)]
    return name[len(name) - max(lengths) :] if lengths else ""


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


def open_file(path: Path, dialect: "Dialect | None" = None) -> Source:
    """Open one file for reading, after a look at its first bytes."""
    kind = format_of(path)
    check_signature(path, kind)
    if dialect is None:
        return kind.reader(path)
    if not kind.has_dialect:
        raise ParameterError(
            f"{path}: a separator and a decimal sign are for CSV files, not for {kind.name}."
        )
    return kind.reader(path, dialect)


def check_signature(path: Path, kind: Format) -> None:
    """Reject a file whose first bytes are the signature of another format than its extension.

    Files without a known signature, possibly damaged, are left to the reader of the format.
    """
    with path.open("rb") as stream:
        start = stream.read(BYTES_LOOKED_AT)
    signed = [each for each in formats() if each.signature and start.startswith(each.signature)]
    if signed and not any(each.signature == kind.signature == signed[0].signature for each in signed):
        # Which format compressed text has inside is not looked at.
        if any(path.suffix == ending[-len(path.suffix) :] for each in signed for ending in each.endings):
            return
        real = _archive_format(path, signed) if signed[0].member else signed[0]
        if real is None:
            raise FileFormatError(f"{path} looks like a ZIP archive, not like {kind.name}; save it as CSV.")
        raise FileFormatError(f"{path} looks like {real.name}; give it the extension {real.endings[0]}.")
    if signed and kind.member:
        real = _archive_format(path, signed)
        if real is not None and real is not kind:
            raise FileFormatError(f"{path} looks like {real.name}; give it the extension {real.endings[0]}.")
    if not signed and kind.signature and start and _is_text(start) and not kind.has_dialect:
        raise FileFormatError(
            f"{path} looks like text, not like {kind.name}; give it the extension .csv, or .tsv if it has tabs."
        )


def _archive_format(path: Path, candidates: Sequence[Format]) -> Format | None:
    """Return the format of a ZIP archive, by the names inside."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, OSError):
        return None
    found = [each for each in candidates if any(name.endswith(each.member) for name in names)]
    return found[0] if found else None


def ending_of_content(path: Path) -> str:
    """Return the file extension that the first bytes of a file tell; text is CSV unless it begins with a brace."""
    with path.open("rb") as stream:
        start = stream.read(BYTES_LOOKED_AT)
    signed = [each for each in formats() if each.signature and start.startswith(each.signature)]
    if signed:
        found = _archive_format(path, signed) if signed[0].member else signed[0]
        return (found or signed[0]).endings[0]
    return ".jsonl" if start.lstrip().startswith(b"{") else ".csv"


def _is_text(start: bytes) -> bool:
    first, _, _ = start.partition(b"\n")
    return first.isascii() and b"\x00" not in start and first.decode("ascii").strip().isprintable()
