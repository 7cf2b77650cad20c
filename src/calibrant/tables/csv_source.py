"""Read CSV files, also compressed; cells are kept as text, so that other columns can be written unchanged."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileFormatError, PredictionError, WeightError
from calibrant.space import Space
from calibrant.tables.batch import Batch
from calibrant.tables.cells import MISSING, check_finite, check_names, check_no_nul, check_weights
from calibrant.tables.default_columns import default_columns
from calibrant.tables.score_columns import ScoreColumns, check_distinct, columns_asked_for
from calibrant.tables.source import Source
from calibrant.tables.text_records import Record, cell_text, records
from calibrant.wording import counted

__all__ = ["CsvBatch", "CsvSource", "delimiter_of", "is_compressed"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NUL = b"\x00"
ROWS_LOOKED_AT = 1000  # to detect numeric columns
BYTES_PER_CELL = 9  # approximate size of a score in text
COMPRESSION = 5


def is_compressed(path: Path) -> bool:
    """Return whether a file is compressed by gzip, from its name."""
    return path.suffix.lower() == ".gz"


def delimiter_of(path: Path) -> bytes:
    """Return the delimiter: a tab for ``.tsv``, else a comma."""
    return b"\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes[-2:]] else b","


class CsvBatch(Batch):
    """Rows of a CSV file as text."""

    def __init__(self, source: "CsvSource", first_row: int, rows: list[Record]) -> None:
        self.source, self.first_row, self.rows, self.n_rows = source, first_row, rows, len(rows)

    def place(self, row: int) -> str:
        """Return row and line."""
        return f"{super().place(row)} (line {self.rows[row].line})"

    def scores(self, columns: Sequence[str]) -> NDArray[np.floating]:
        """Return the values of these columns, (n, K)."""
        scores = np.column_stack([self._numbers(column, PredictionError) for column in columns])
        check_finite(scores, self.source.path, tuple(columns), self.place)
        return scores

    def names(self, column: str) -> NDArray[Any]:
        """Return a column as text."""
        cells = [cell_text(field).strip() for field in self._fields(column)]
        try:
            texts = np.array([cell.decode() for cell in cells], dtype=str)
        except UnicodeDecodeError:
            row = next(number for number, cell in enumerate(cells) if not _is_utf8(cell))
            raise FileFormatError(
                f"{self.source.path}: {self.place(row)}, column {column!r} is not UTF-8 text; convert the file first."
            ) from None
        if NUL in b"".join(cells):
            check_no_nul(np.array([NUL in cell for cell in cells]), self.source.path, column, self.place)
        check_names(np.char.str_len(texts) == 0, self.source.path, column, self.place)
        return texts

    def weights(self, column: str) -> NDArray[np.float64]:
        """Return a column of weights."""
        weights = self._numbers(column, WeightError)
        check_weights(weights, self.source.path, column, self.place)
        return weights

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Return a numeric column, NaN for missing values."""
        return self._numbers(column, PredictionError)

    def _fields(self, column: str) -> list[bytes]:
        number = self.source.columns.index(column)
        return [record.fields[number] for record in self.rows]

    def _numbers(self, column: str, error_type: type[ValueError]) -> NDArray[np.float64]:
        """Convert a column to numbers, NaN for missing values."""
        fields = self._fields(column)
        if b"_" not in b"".join(fields):  # float() accepts underscores
            try:
                return np.array(list(map(float, fields)))
            except ValueError:
                pass
        return np.array([self._number(row, field, column, error_type) for row, field in enumerate(fields)])

    def _number(self, row: int, field: bytes, column: str, error_type: type[ValueError]) -> float:
        value = number_in(field)
        if value is None:
            text = cell_text(field).decode(errors="replace")
            raise error_type(
                f"{self.source.path}: {self.place(row)}, column {column!r} is {text!r}, which is not a number."
            )
        return value


class CsvSource(Source):
    """A CSV file with a header."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.delimiter = delimiter_of(path)
        self.trailer = b""  # empty lines after the last row
        with self._open() as stream:
            header = next(self._checked(records(stream, self.delimiter)), None)
        if header is None or header.fields == [b""]:
            raise FileFormatError(f"{path} is empty; a header and at least one row are needed.")
        self.header = header
        self.columns = self._names(header)

    def batches(self, n_rows: int, columns: Sequence[str] | None = None) -> Iterator[CsvBatch]:  # noqa: ARG002
        """Yield all rows, always with all columns."""
        self.trailer = b""
        first_row = 0
        with self._open() as stream:
            rows = self._rows(islice(self._checked(records(stream, self.delimiter)), 1, None))
            while taken := list(islice(rows, n_rows)):
                yield CsvBatch(self, first_row, taken)
                first_row += len(taken)
        if first_row == 0:
            raise FileFormatError(f"{self.path} has a header but no rows; at least one row is needed.")

    def score_columns(self, columns: str | None, taken: Sequence[str], space: Space) -> ScoreColumns:  # noqa: ARG002
        """Return the requested columns, or all columns with numbers in the first rows."""
        if columns is not None:
            return columns_asked_for(self.path, self.columns, columns)
        first = next(self.batches(ROWS_LOOKED_AT))
        found = [name for name in self.columns if name not in taken and self._is_numeric(first, name)]
        return default_columns(self.path, found, first.numbers)

    def bytes_in_memory(self, columns: ScoreColumns) -> int:
        """Estimate the size of the scores in bytes from the file size and the fraction of score columns."""
        size = self.path.stat().st_size * (COMPRESSION if is_compressed(self.path) else 1)
        return int(size / BYTES_PER_CELL * 8 * len(columns.names) / len(self.columns))

    def _open(self) -> IO[bytes]:
        if is_compressed(self.path):
            return gzip.open(self.path)  # type: ignore[return-value]
        return self.path.open("rb")

    def _checked(self, found: Iterator[Record]) -> Iterator[Record]:
        try:
            yield from found
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FileFormatError(
                f"{self.path} is not a complete gzip file ({error}); write it again, or name it .csv."
            ) from error

    def _names(self, header: Record) -> tuple[str, ...]:
        if NUL in b"".join(header.fields):
            raise FileFormatError(f"{self.path} is not UTF-8 text, possibly UTF-16; convert the file first.")
        cells = [cell_text(field) for field in header.fields]
        cells[0] = cell_text(header.fields[0].removeprefix(BYTE_ORDER_MARK))
        try:
            names = tuple(cell.decode().strip() for cell in cells)
        except UnicodeDecodeError:
            raise FileFormatError(
                f"{self.path}: the header is not UTF-8 text; convert the file first."
            ) from None
        if len(names) == 1 and ";" in names[0]:
            raise FileFormatError(
                f"{self.path}: the header has semicolons and no commas; write the file with commas, or with tabs and "
                "the extension .tsv."
            )
        if len(names) == 1 and self.delimiter == b"\t" and "," in names[0]:
            raise FileFormatError(
                f"{self.path}: the header has commas and no tabs; give the file the extension .csv, or write it with tabs."
            )
        if len(names) == 1 and self.delimiter == b"," and "\t" in names[0]:
            raise FileFormatError(
                f"{self.path}: the header has tabs and no commas; give the file the extension .tsv, or write it with "
                "commas."
            )
        check_distinct(self.path, names)
        return names

    def _rows(self, found: Iterator[Record]) -> Iterator[Record]:
        """Yield rows with the same number of cells as the header, without trailing empty lines."""
        expected = len(self.columns)
        for number, record in enumerate(found, start=1):
            if record.fields == [b""]:
                self.trailer = record.line_end
                for later in found:
                    if later.fields != [b""]:
                        raise FileFormatError(
                            f"{self.path}: line {record.line} is empty; remove empty lines between rows."
                        )
                    self.trailer += later.line_end
                return
            if len(record.fields) != expected:
                raise FileFormatError(
                    f"{self.path}: row {number} (line {record.line}) has {counted(len(record.fields), 'cell')}, but "
                    f"the header has {expected}; repair that row."
                )
            yield record

    def _is_numeric(self, batch: CsvBatch, column: str) -> bool:
        """Return whether all values of a column are numbers; reject a mostly numeric column with invalid cells."""
        fields = batch._fields(column)
        values = [number_in(field) for field in fields]
        n_numbers = sum(value is not None and value == value for value in values)
        texts = [row for row, value in enumerate(values) if value is None]
        if texts and n_numbers > len(values) / 2:
            text = cell_text(fields[texts[0]]).decode(errors="replace")
            raise PredictionError(
                f"{self.path}: {batch.place(texts[0])}, column {column!r} is {text!r}, but most of this column is "
                "numeric; correct it, or name the columns of scores."
            )
        return n_numbers > 0 and not texts


def number_in(field: bytes) -> float | None:
    """Return the number in a cell, NaN if it is missing, None if it is not a number."""
    text = cell_text(field).strip()
    if b"_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return float("nan") if text.decode(errors="replace").lower() in MISSING else None


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True
