"""Open a file of predictions, with the format from its extension."""

import os
from pathlib import Path

from calibrant.errors import FileFormatError
from calibrant.tables.arrow_source import FeatherSource, ParquetSource
from calibrant.tables.csv_source import CsvSource
from calibrant.tables.npz_source import NpzSource
from calibrant.tables.signatures import check_signature
from calibrant.tables.source import Source

__all__ = ["ENDINGS", "open_source", "source_type"]

ENDINGS: dict[str, type[Source]] = {
    ".csv": CsvSource,
    ".csv.gz": CsvSource,
    ".tsv": CsvSource,
    ".tsv.gz": CsvSource,
    ".parquet": ParquetSource,
    ".pq": ParquetSource,
    ".feather": FeatherSource,
    ".arrow": FeatherSource,
    ".npz": NpzSource,
}
"""File extension -> format."""


def source_type(path: str | os.PathLike[str]) -> type[Source]:
    """Return the source class for a file name."""
    name = Path(path).name.lower()
    for ending, kind in ENDINGS.items():
        if name.endswith(ending):
            return kind
    raise FileFormatError(f"{os.fsdecode(path)}: unknown file extension; supported are {', '.join(ENDINGS)}.")


def open_source(path: str | os.PathLike[str]) -> Source:
    """Open a file for reading; the result is a context manager.

    >>> open_source("predictions.txt")
    Traceback (most recent call last):
    calibrant.errors.FileFormatError: predictions.txt: unknown file extension; supported are .csv, .csv.gz, .tsv,
    .tsv.gz, .parquet, .pq, .feather, .arrow, .npz.
    """
    kind = source_type(path)
    target = Path(path)
    if target.is_dir():
        raise FileFormatError(f"{target} is a folder, not a file; give a file.")
    if not target.exists():
        raise FileNotFoundError(2, "No such file", str(target))
    check_signature(target)
    return kind(target)  # type: ignore[call-arg]
