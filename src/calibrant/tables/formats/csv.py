"""CSV files, also compressed: whole blocks of text are parsed by pyarrow, other cells go through byte for byte."""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileFormatError, ParameterError, PredictionError
from calibrant.presentation.sentences import counted, shortened
from calibrant.remedies import CHOOSE_COLUMNS, DECIMAL_COMMAS, OTHER_SEPARATOR, SEMICOLONS
from calibrant.tables.columns import check_distinct
from calibrant.tables.compression import estimated_rows, opened, readable, written_to
from calibrant.tables.csv_blocks import Block, Record, blocks, cell_text, field_of, parsed_by_pyarrow, records
from calibrant.tables.formats import Format
from calibrant.tables.source import (
    MISSING,
    Batch,
    ColumnBatch,
    ColumnSource,
    Names,
    NoRowsError,
    Sink,
    check_names,
    check_no_nul,
)

__all__ = ["Dialect"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NUL = b"\x00"
ROWS_LOOKED_AT = 1000  # to detect numeric columns
BLOCK_BYTES = 2**23

SEPARATORS = {"tab": "\t", "\\t": "\t"}
"""Names of separators that are hard to type."""


OTHER_SIGNS = (
    (None, ";", f"semicolons and no commas; {SEMICOLONS} if numbers have decimal commas"),
    (b"\t", ",", "commas and no tabs; give the file the extension .csv, or write it with tabs"),
    (b",", "\t", "tabs and no commas; give the file the extension .tsv, or write it with commas"),
)
"""Separator of a file with a single column (None for any), a sign in its header, and what to do."""


@dataclass(frozen=True)
class Dialect:
    """Signs of a text file.

    Attributes
    ----------
    separator : bytes
        Sign between cells.
    decimal : bytes
        Sign before decimals.
    """

    separator: bytes = b","
    decimal: bytes = b"."

    @classmethod
    def of(cls, separator: str | None, decimal: str | None) -> "Dialect":
        r"""Return a dialect from the texts of options, with semicolons between cells for decimal commas.

        >>> Dialect.of(None, ","), Dialect.of("tab", None)
        (Dialect(separator=b';', decimal=b','), Dialect(separator=b'\t', decimal=b'.'))
        """
        decimal = decimal or "."
        separator = SEPARATORS.get(separator or "", separator) or (";" if decimal == "," else ",")
        if len(separator.encode()) != 1 or separator in '"\r\n' or separator.isalnum():
            raise ParameterError(
                f"the separator must be one sign, such as ';', '|' or 'tab', not {separator!r}."
            )
        if decimal not in (".", ","):
            raise ParameterError(f"the decimal sign must be '.' or ',', not {decimal!r}.")
        if separator == decimal:
            raise ParameterError(f"separator and decimal sign are both {separator!r}; they must differ.")
        return cls(separator.encode(), decimal.encode())

    @classmethod
    def of_name(cls, path: Path) -> "Dialect":
        """Return the dialect of a file name: tabs for ``.tsv``, else commas."""
        return cls(b"\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes[-2:]] else b",")

    def cell(self, number: float) -> bytes:
        """Return the shortest decimal form of a number that reads back exactly.

        >>> Dialect().cell(0.5), Dialect.of(";", ",").cell(0.5)
        (b'0.5', b'0,5')
        """
        return repr(number).encode().replace(b".", self.decimal)


class CsvBatch(ColumnBatch):
    """Rows of a CSV file; abstract."""

    source: "CsvSource"

    @abstractmethod
    def fields(self, column: str) -> list[bytes]:
        """Return the cells of a column, with their quotes."""

    def numbers(self, column: str, error_type: type[ValueError] = PredictionError) -> NDArray[np.float64]:
        """Return a numeric column, NaN for missing values."""
        fields, decimal = self.fields(column), self.source.dialect.decimal
        if decimal == b"." and b"_" not in b"".join(fields):  # float() accepts underscores
            try:
                return np.array(list(map(float, fields)))
            except ValueError:
                pass
        values = [number_in(field, decimal) for field in fields]
        if None in values:
            row = values.index(None)
            text = cell_text(fields[row]).decode(errors="replace")
            raise error_type(
                f"{self.path}: {self.place(row)}, column {column!r} is {text!r}, which is not a number{_advice(text)}."
            )
        return np.array(values, dtype=np.float64)

    def missing_numbers(self, column: str) -> NDArray[np.bool_]:
        """Return which rows have no number."""
        return np.isnan(self.numbers(column))

    def missing_names(self, column: str) -> NDArray[np.bool_]:
        """Return which rows have an empty cell."""
        return np.array([not cell_text(field).strip() for field in self.fields(column)], dtype=bool)

    def _named(self, column: str, fields: list[bytes], codes: NDArray[np.intp]) -> Names:
        """Return the names of a column from its distinct cells; reject cells that cannot be names."""
        cells = [cell_text(field).strip() for field in fields]
        without = np.array([NUL in cell for cell in cells], dtype=bool)
        check_no_nul(without[codes], self.path, column, self.place)
        check_names(np.array([not cell for cell in cells], dtype=bool)[codes], self.path, column, self.place)
        try:
            texts = np.array([cell.decode() for cell in cells], dtype=str)
        except UnicodeDecodeError:
            broken = np.array([not _is_utf8(cell) for cell in cells], dtype=bool)
            place = self.place(int(np.argmax(broken[codes])))
            raise FileFormatError(
                f"{self.path}: {place}, column {column!r} is not UTF-8 text; convert the file first."
            ) from None
        return Names(codes, np.arange(len(cells))).renamed(texts)


class ParsedRows(CsvBatch):
    """Rows that pyarrow has split into columns: a line each, all with the same line end."""

    def __init__(
        self,
        source: "CsvSource",
        first_row: int,
        first_line: int,
        rows: Any,
        line_end: bytes,
        is_closed: bool,
    ) -> None:
        self.source, self.path, self.first_row, self.n_rows = source, source.path, first_row, rows.num_rows
        self.rows, self.line_end, self.is_closed, self._first_line = rows, line_end, is_closed, first_line

    def place(self, row: int) -> str:
        """Return row and line."""
        return f"{super().place(row)} (line {self._first_line + self.number(row)})"

    def take(self, kept: NDArray[np.bool_]) -> "ParsedRows":
        """Return some of the rows."""
        import pyarrow

        rows = self.rows.filter(pyarrow.array(kept))
        taken = ParsedRows(self.source, self.first_row, self._first_line, rows, self.line_end, self.is_closed)
        taken.kept = np.flatnonzero(kept)
        return taken

    def fields(self, column: str) -> list[bytes]:
        """Return the cells of a column, with their quotes."""
        return list(self.rows.column(column).to_pylist())

    def numbers(self, column: str, error_type: type[ValueError] = PredictionError) -> NDArray[np.float64]:
        """Return a numeric column, NaN for missing values."""
        import pyarrow
        from pyarrow import compute

        cells = self.rows.column(column)
        if not pyarrow.types.is_floating(cells.type):
            try:
                cells = compute.utf8_trim_whitespace(cells.cast(pyarrow.string())).cast(pyarrow.float64())
            except pyarrow.ArrowInvalid:
                return super().numbers(column, error_type)
        return np.asarray(cells.to_numpy(), dtype=np.float64)

    def names(self, column: str) -> Names:
        """Return a column as text."""
        encoded = self.rows.column(column).combine_chunks().dictionary_encode()
        return self._named(column, encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.intp))


class SplitRows(CsvBatch):
    """Rows as records, whose cells are converted one by one."""

    def __init__(self, source: "CsvSource", first_row: int, rows: list[Record]) -> None:
        self.source, self.path, self.first_row = source, source.path, first_row
        self.rows, self.n_rows = rows, len(rows)

    def place(self, row: int) -> str:
        """Return row and line."""
        return f"{super().place(row)} (line {self.rows[row].line})"

    def take(self, kept: NDArray[np.bool_]) -> "SplitRows":
        """Return some of the rows."""
        numbers = np.flatnonzero(kept)
        taken = SplitRows(self.source, self.first_row, [self.rows[number] for number in numbers])
        taken.kept = numbers
        return taken

    def fields(self, column: str) -> list[bytes]:
        """Return the cells of a column, with their quotes."""
        number = self.source.columns.index(column)
        return [record.fields[number] for record in self.rows]

    def names(self, column: str) -> Names:
        """Return a column as text."""
        return self._named(column, self.fields(column), np.arange(self.n_rows))


class CsvSource(ColumnSource):
    """A CSV file with a header; the dialect is that of its extension unless it is given."""

    def __init__(self, path: Path, dialect: Dialect | None = None) -> None:
        self.path = path
        self.has_given_dialect = dialect is not None
        self.dialect = dialect or Dialect.of_name(path)
        self.trailer = b""  # empty lines after the last row
        with opened(path) as stream:
            header = next(readable(records(stream, self.delimiter), path), None)
        if header is None or header.fields == [b""]:
            raise FileFormatError(f"{path} is empty; a header and at least one row are needed.")
        self.header: Record = header
        self.columns = self._names(header)

    @property
    def delimiter(self) -> bytes:
        """Sign between cells."""
        return self.dialect.separator

    def batches(
        self, n_rows: int, columns: Sequence[str] | None = None, numbers: Sequence[str] = ()
    ) -> Iterator[CsvBatch]:
        """Yield all rows; pyarrow splits blocks of rows unless their quotes or line ends need a closer look."""
        self.trailer = b""
        n_done = 0
        wanted = self.columns if columns is None else list(dict.fromkeys(columns))
        with opened(self.path) as stream:
            next(readable(records(stream, self.delimiter), self.path))
            for block in readable(blocks(stream, BLOCK_BYTES, self._header_lines + 1), self.path):
                for batch in self._batches_of(block, n_done, n_rows, wanted, numbers):
                    yield batch
                    n_done += batch.n_rows
        if n_done == 0:
            raise NoRowsError(f"{self.path} has a header but no rows; at least one row is needed.")

    def numeric_columns(
        self, taken: Sequence[str]
    ) -> tuple[list[str], Callable[[str], NDArray[np.floating]]]:
        """Return the columns that have only numbers, and a function that reads them."""
        first = self._first_rows
        found = [name for name in self.columns if name not in taken and self._is_numeric(first, name)]
        return found, first.numbers

    def approximate_rows(self) -> int:
        """Estimate the number of rows from the file size and the length of the first rows."""
        rows = self._first_rows.rows
        return estimated_rows(
            self.path, [len(row.line_end) + sum(map(len, row.fields)) + len(row.fields) for row in rows]
        )

    @cached_property
    def _first_rows(self) -> SplitRows:
        with opened(self.path) as stream:
            rows = self._rows(islice(readable(records(stream, self.delimiter), self.path), 1, None), 0)
            taken = list(islice(rows, ROWS_LOOKED_AT))
        if not taken:
            raise NoRowsError(f"{self.path} has a header but no rows; at least one row is needed.")
        return SplitRows(self, 0, taken)

    @property
    def _header_lines(self) -> int:
        n_ends: int = sum(field.count(b"\n") for field in self.header.fields)
        return n_ends + 1

    def _batches_of(
        self, block: Block, n_done: int, n_rows: int, columns: Sequence[str], numbers: Sequence[str]
    ) -> Iterator[CsvBatch]:
        ends = b"\r\n" if b"\r" in block.text else b"\n"
        is_uniform = ends == b"\n" or block.text.count(b"\n") == block.text.count(ends)
        rows = None
        if not self.trailer and is_uniform:
            rows = parsed_by_pyarrow(block.text, self.dialect, self.columns, columns, numbers)
        if rows is not None:
            for start in range(0, rows.num_rows, n_rows):
                part = rows.slice(start, n_rows)
                is_closed = start + part.num_rows < rows.num_rows or block.text.endswith(b"\n")
                yield ParsedRows(self, n_done + start, block.first_line + start, part, ends, is_closed)
            return
        found = (
            record._replace(line=record.line + block.first_line - 1)
            for record in records(BytesIO(block.text), self.delimiter)
        )
        records_left = self._rows(found, n_done)
        while taken := list(islice(records_left, n_rows)):
            yield SplitRows(self, n_done, taken)
            n_done += len(taken)

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
        if len(names) == 1 and self.has_given_dialect:
            sign = self.delimiter.decode()
            raise FileFormatError(
                f"{self.path}: the header {shortened(repr(names[0]))} has no separator {sign!r}; {OTHER_SEPARATOR}."
            )
        for delimiter, sign, advice in OTHER_SIGNS if len(names) == 1 else ():
            if delimiter in (None, self.delimiter) and sign in names[0]:
                raise FileFormatError(f"{self.path}: the header has {advice}.")
        check_distinct(self.path, names)
        return names

    def _rows(self, found: Iterator[Record], n_done: int) -> Iterator[Record]:
        """Yield rows with the same number of cells as the header, without trailing empty lines."""
        expected = len(self.columns)
        for number, record in enumerate(found, start=n_done + 1):
            if record.fields == [b""]:
                if not self.trailer:
                    self._first_empty_line = record.line
                self.trailer += record.line_end
                continue
            if self.trailer:
                raise FileFormatError(
                    f"{self.path}: line {self._first_empty_line} is empty; remove empty lines between rows."
                )
            if len(record.fields) != expected:
                raise FileFormatError(
                    f"{self.path}: row {number} (line {record.line}) has {counted(len(record.fields), 'cell')}, but "
                    f"the header has {expected}; repair that row."
                )
            yield record

    def _is_numeric(self, batch: SplitRows, column: str) -> bool:
        """Return whether all values of a column are numbers; reject a mostly numeric column with invalid cells."""
        fields = batch.fields(column)
        values = [number_in(field, self.dialect.decimal) for field in fields]
        n_numbers = sum(value is not None and value == value for value in values)
        texts = [row for row, value in enumerate(values) if value is None]
        if texts and n_numbers > len(values) / 2:
            text = cell_text(fields[texts[0]]).decode(errors="replace")
            raise PredictionError(
                f"{self.path}: {batch.place(texts[0])}, column {column!r} is {text!r}, but most of this column is "
                f"numeric; correct it, or {CHOOSE_COLUMNS}."
            )
        return n_numbers > 0 and not texts


def number_in(field: bytes, decimal: bytes = b".") -> float | None:
    """Return the number in a cell, NaN if it is missing, None if it is not a number.

    >>> number_in(b"0,5", b","), number_in(b"1.000,5", b","), number_in(b"NA")
    (0.5, None, nan)
    """
    text = cell_text(field).strip()
    if b"_" in text or (decimal != b"." and b"." in text):
        return None
    text = text.replace(decimal, b".")
    try:
        return float(text)
    except ValueError:
        return float("nan") if text.decode(errors="replace").lower() in MISSING else None


DECIMAL_COMMA = re.compile(r"[-+]?[0-9]*,[0-9]+")


def _advice(text: str) -> str:
    """Return advice on a cell with a decimal comma."""
    return f"; {DECIMAL_COMMAS}" if DECIMAL_COMMA.fullmatch(text.strip()) else ""


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


class CsvSink(Sink):
    """Writer of a CSV file with the header, quotes and line ends of another."""

    drops_rows = True

    def __init__(
        self, stream: IO[bytes], path: Path, source: CsvSource, columns: Sequence[str], appended: bool
    ) -> None:
        self._source = source
        self._dialect = source.dialect if source.has_given_dialect else Dialect.of_name(path)
        self._delimiter = self._dialect.separator
        self._stream = written_to(stream, path)
        self._numbers = None if appended else [source.columns.index(column) for column in columns]
        for column in columns if appended else ():
            if "\0" in column:
                raise PredictionError(
                    f"{path}: the new column {column!r} would have a NUL character in its name; rename that class."
                )
        header = source.header
        new = [field_of(column, self._delimiter) for column in columns] if appended else []
        self._stream.write(self._delimiter.join([*header.fields, *new]) + header.line_end)

    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:
        """Write rows; scores have the shortest decimal form that reads back exactly."""
        if isinstance(batch, ParsedRows):
            self._stream.write(self._joined(batch, scores))
            return
        assert isinstance(batch, SplitRows)
        lines = []
        for record, values in zip(batch.rows, scores.tolist(), strict=True):
            texts = [self._dialect.cell(value) for value in values]
            fields = [*record.fields, *texts] if self._numbers is None else list(record.fields)
            for number, text in zip(self._numbers or [], texts, strict=False):
                fields[number] = text
            lines.append(self._delimiter.join(fields) + record.line_end)
        self._stream.write(b"".join(lines))

    def _joined(self, batch: ParsedRows, scores: NDArray[np.floating]) -> Any:
        """Return the text of rows, with all columns joined at once."""
        import pyarrow
        from pyarrow import compute

        cells = list(batch.rows.columns)
        texts = [_decimals(column) for column in np.asarray(scores, dtype=np.float64).T]
        if self._dialect.decimal != b".":
            texts = [compute.replace_substring(text, ".", self._dialect.decimal.decode()) for text in texts]
        if self._numbers is None:
            cells += texts
        for number, column in zip(self._numbers or [], texts, strict=False):
            cells[number] = column
        cells = [column.cast(pyarrow.large_binary()) for column in cells]
        delimiter, end = (
            pyarrow.scalar(text, pyarrow.large_binary()) for text in (self._delimiter, batch.line_end)
        )
        lines = compute.binary_join_element_wise(*cells, delimiter)
        lines = compute.binary_join_element_wise(lines, pyarrow.scalar(b"", pyarrow.large_binary()), end)
        chunks = lines.chunks if isinstance(lines, pyarrow.ChunkedArray) else [lines]
        text = b"".join(map(_contents, chunks))
        return text if batch.is_closed else text[: len(text) - len(batch.line_end)]

    def finish(self) -> None:
        """Write trailing empty lines, if any."""
        self._stream.write(self._source.trailer)
        self._stream.close()


def _decimals(values: NDArray[np.float64]) -> Any:
    """Return the shortest texts that read back exactly, as ``repr`` writes them.

    >>> _decimals(np.array([0.5, 1.0, 1e-05, 1 / 3])).to_pylist()
    ['0.5', '1.0', '1e-05', '0.3333333333333333']
    """
    import pyarrow
    from pyarrow import compute

    array = pyarrow.array(values)
    texts = array.cast(pyarrow.string())
    # pyarrow writes integers without a point, and uses exponents in another range.
    size = np.abs(values)
    differ = ~((size >= 1e-4) & (size < 1e15) & (values != np.round(values)))
    if not differ.any():
        return texts
    own = pyarrow.array([repr(value) for value in values[differ].tolist()], pyarrow.string())
    return compute.replace_with_mask(texts, pyarrow.array(differ), own)


def _contents(texts: Any) -> memoryview:
    """Return the contents of an Arrow array of large binary, one after the other."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)
    return memoryview(data)[ends[texts.offset] : ends[texts.offset + len(texts)]]


TEXT = Format(
    "text",
    (".csv", ".tsv"),
    CsvSource,
    CsvSink,
    has_dialect=True,
    about="`--separator ';'` and `--decimal ','` for other signs",
)
GZIP, BZIP2, XZ, ZSTD = (
    Format(
        f"text compressed by {name}",
        (f".csv.{ending}", f".tsv.{ending}"),
        CsvSource,
        CsvSink,
        signature,
        has_dialect=True,
    )
    for name, ending, signature in (
        ("gzip", "gz", b"\x1f\x8b"),
        ("bzip2", "bz2", b"BZh91AY&SY"),
        ("xz", "xz", b"\xfd7zXZ\x00"),
        ("zstd", "zst", b"\x28\xb5\x2f\xfd"),
    )
)
