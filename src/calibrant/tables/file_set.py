"""FileSet: the files of a folder or of a pattern, read as one; also the open function for all of these."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from glob import glob, has_magic
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileFormatError, LabelError, PredictionError
from calibrant.space import Space
from calibrant.tables.array_source import ArraySource
from calibrant.tables.columns import ScoreColumns, listed
from calibrant.tables.formats import format_of, formats, known_endings, open_file
from calibrant.tables.formats.csv import Dialect
from calibrant.tables.source import Batch, Names, NoRowsError, Source, as_integers

__all__ = ["FileSet", "open_source"]

HIDDEN = ("_", ".")  # such as _SUCCESS, of Spark


def open_source(path: str | os.PathLike[str], dialect: Dialect | None = None) -> Source:
    """Open a file, a folder of files, or the files of a pattern for reading; the result is a context manager.

    ``dialect`` are the signs of CSV files; by default those of the extension.

    >>> open_source("predictions.txt")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    calibrant.errors.FileFormatError: predictions.txt: unknown file extension; supported are .csv, .tsv, .csv.gz, ...
    """
    target = Path(path)
    if target.is_dir():
        return FileSet(target, target, _files_below(target), dialect)
    if not target.exists() and has_magic(str(target)):
        found = sorted(Path(name) for name in glob(str(target), recursive=True))
        files = [one for one in found if one.is_file()]
        if len(files) != 1:
            base = Path(os.path.commonpath([one.parent for one in files])) if files else target
            return FileSet(target, base, files, dialect)
        (target,) = files
    format_of(target)  # its error comes before that of a missing file
    if not target.exists():
        raise FileNotFoundError(2, "No such file", str(target))
    return open_file(target, dialect)


def _files_below(folder: Path) -> list[Path]:
    """Return the files of a folder and its subfolders that have a known extension, without hidden ones."""
    files = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(HIDDEN) for part in inside):
            files.append(path)
    return [path for path in files if any(each.has_name(path) for each in formats())]


class FileSet(Source):
    """Several files of one format with the same columns, read one after the other in the order of their names.

    Folders named ``key=value``, as in a partitioned data set, add a column ``key``.

    Attributes
    ----------
    path : Path
        The folder or pattern.
    folder : Path
        The folder that contains all files.
    files : list of Path
    """

    def __init__(self, path: Path, folder: Path, files: list[Path], dialect: Dialect | None = None) -> None:
        self.path, self.folder, self.files, self._dialect = path, folder, files, dialect
        if not files:
            raise FileFormatError(
                f"{path} has no files of predictions; their names end in one of {known_endings()}."
            )
        kinds = {format_of(file).reader: file for file in files}
        if len(kinds) > 1:
            raise FileFormatError(
                f"{path} has files of several formats, such as {listed(file.name for file in kinds.values())}; choose "
                "those of one format with a pattern, such as folder/*.parquet."
            )
        self._keys = [_partition_keys(file.relative_to(folder)) for file in files]
        self._first = open_file(files[0], dialect)
        if isinstance(self._first, ArraySource):
            self._first.close()
            name = format_of(files[0]).name
            raise FileFormatError(f"{path} has several {name} files; give one file, or use Parquet.")
        clash = [key for key in self._keys[0] if key in self._first.columns]
        if clash:
            raise FileFormatError(
                f"{files[0]} has a column {clash[0]!r}, which is also the name of a folder key; rename one of them."
            )
        self.columns = (*self._first.columns, *self._keys[0])

    def opened(self) -> Iterator[Source]:
        """Open one file after the other, and check that each has the columns of the first."""
        for file, keys in zip(self.files, self._keys, strict=True):
            with open_file(file, self._dialect) as source:
                missing = [name for name in self._first.columns if name not in source.columns]
                if missing or keys.keys() != self._keys[0].keys():
                    raise FileFormatError(
                        f"{file} has no column {missing[0]!r}, unlike {self.files[0]}; all files need the same columns."
                        if missing
                        else f"{file} is in folders of other keys than {self.files[0]}; all files need the same keys."
                    )
                yield source

    def batches(
        self, n_rows: int, columns: Sequence[str] | None = None, numbers: Sequence[str] = ()
    ) -> Iterator[Batch]:
        """Yield the rows of all files; each batch knows its file."""
        n_done = 0
        for source, keys in zip(self.opened(), self._keys, strict=True):
            inside = None if columns is None else [name for name in columns if name not in keys]
            with suppress(NoRowsError):  # as for a partition without rows
                for batch in source.batches(n_rows, inside or None, numbers):
                    yield KeyedBatch(batch, keys) if keys else batch
                    n_done += batch.n_rows
        if n_done == 0:
            raise NoRowsError(f"{self.path} has no rows in any file; at least one row is needed.")

    def score_columns(self, columns: str | None, taken: Sequence[str], space: Space) -> ScoreColumns:
        """Return the score columns of the first file, which are those of all."""
        return self._first.score_columns(columns, taken, space)

    def approximate_rows(self) -> int:
        """Estimate the number of rows from that of the first file and the sizes of all."""
        return int(self._first.approximate_rows() * self._growth)

    @cached_property
    def _growth(self) -> float:
        sizes = [file.stat().st_size for file in self.files]
        return sum(sizes) / max(sizes[0], 1)

    def close(self) -> None:
        """Close the first file."""
        self._first.close()


class KeyedBatch(Batch):
    """Rows of a file with the keys of its folders as further columns."""

    def __init__(self, batch: Batch, keys: dict[str, str]) -> None:
        self._batch, self._keys = batch, keys
        self.path, self.first_row, self.n_rows = batch.path, batch.first_row, batch.n_rows

    def place(self, row: int) -> str:
        """Return the position in the file."""
        return self._batch.place(row)

    def scores(self, columns: Sequence[str]) -> NDArray[np.floating]:
        """Return columns of the file."""
        return self._batch.scores(columns)

    def missing_numbers(self, column: str) -> NDArray[np.bool_]:
        """Return which rows have no number."""
        return self._batch.missing_numbers(column)

    def missing_names(self, column: str) -> NDArray[np.bool_]:
        """Return which rows have no name; all rows have the key of a folder."""
        return np.zeros(self.n_rows, bool) if column in self._keys else self._batch.missing_names(column)

    def take(self, kept: NDArray[np.bool_]) -> "KeyedBatch":
        """Return some of the rows."""
        return KeyedBatch(self._batch.take(kept), self._keys)

    def weights(self, column: str) -> NDArray[np.float64]:
        """Return a column of the file."""
        if column in self._keys:
            raise PredictionError(f"{self.path}: {column!r} is a folder key; weights must be in a column.")
        return self._batch.weights(column)

    def names(self, column: str) -> Names:
        """Return a column of the file, or the key of a folder for all rows."""
        if column not in self._keys:
            return self._batch.names(column)
        value: Any = np.array([self._keys[column]])
        if not value[0]:
            raise LabelError(f"{self.path}: the folder key {column!r} is empty; give it a value.")
        numbers = as_integers(value)
        return Names(np.zeros(self.n_rows, dtype=np.intp), value if numbers is None else numbers)


def _partition_keys(path: Path) -> dict[str, str]:
    """Return the keys in the folders of a path, as Hive names them.

    >>> _partition_keys(Path("model=a/day=2026-01-01/part-0.parquet"))
    {'model': 'a', 'day': '2026-01-01'}
    """
    pairs = (part.partition("=") for part in path.parts[:-1] if "=" in part)
    return {key: unquote(value) for key, _, value in pairs}
