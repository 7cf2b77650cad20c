"""Open a file of predictions by its ending."""

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
"""Ending of a file to its format."""


def source_type(path: str | os.PathLike[str]) -> type[Source]:
    """Return the kind of source that a file of this name is."""
    name = Path(path).name.lower()
    for ending, kind in ENDINGS.items():
        if name.endswith(ending):
            return kind
    raise FileFormatError(
        f"{os.fsdecode(path)}: the ending says nothing of the format; known are {', '.join(ENDINGS)}."
    )


def open_source(path: str | os.PathLike[str]) -> Source:
    """Open a file for reading; a context manager that closes it.

    >>> open_source("predictions.txt")
    Traceback (most recent call last):
    calibrant.errors.FileFormatError: predictions.txt: the ending says nothing of the format; known are .csv, .csv.gz,
    .tsv, .tsv.gz, .parquet, .pq, .feather, .arrow, .npz.
    """
    kind = source_type(path)
    target = Path(path)
    if target.is_dir():
        raise FileFormatError(f"{target} is a folder; give a file.")
    if not target.exists():
        raise FileNotFoundError(2, "No such file", str(target))
    check_signature(target)
    return kind(target)  # type: ignore[call-arg]
