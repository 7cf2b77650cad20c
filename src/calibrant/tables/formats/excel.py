"""Excel workbooks: the first sheet, with the names of the columns in its first row."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileFormatError, MissingExtraError
from calibrant.tables.cell_rows import CellBatch, CellRow, CellSource
from calibrant.tables.columns import check_distinct
from calibrant.tables.formats import ZIP, Format
from calibrant.tables.source import Batch, Sink

__all__ = ["ExcelSink", "ExcelSource"]


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise MissingExtraError("openpyxl", "excel") from error
    return openpyxl


class ExcelSource(CellSource):
    """The first sheet of a workbook; formulas have the values that were saved with them."""

    line_word = "sheet row"

    def __init__(self, path: Path) -> None:
        self.path = path
        _openpyxl()
        header = next(self._lines(), ())
        names = ["" if cell is None else str(cell).strip() for cell in header]
        while names and not names[-1]:
            names.pop()
        if not names:
            raise FileFormatError(
                f"{path}: the first row of the first sheet is empty; write column names there."
            )
        check_distinct(path, names)
        self.columns = tuple(names)

    def rows(self) -> Iterator[CellRow]:
        """Yield the rows below the header, without empty ones at the end."""
        empty = None
        for line, cells in enumerate(self._lines(), start=1):
            if line == 1:
                continue
            if all(cell is None for cell in cells):
                empty = empty or line
                continue
            if empty:
                raise FileFormatError(
                    f"{self.path}: sheet row {empty} is empty; remove empty rows between others."
                )
            yield CellRow(dict(zip(self.columns, cells, strict=False)), line - 1, line)

    def approximate_rows(self) -> int:
        """Return the number of rows."""
        return self._n_rows

    @cached_property
    def _n_rows(self) -> int:
        return sum(1 for _ in self.rows()) or 1

    def _lines(self) -> Iterator[tuple[Any, ...]]:
        """Yield the cells of every row, the header first."""
        try:
            book = _openpyxl().load_workbook(self.path, read_only=True, data_only=True)
        except (BadZipFile, KeyError, ValueError, OSError, TypeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise FileFormatError(f"{self.path} is not a complete Excel file; save it again.") from error
        with closing(book):
            if not book.worksheets:
                raise FileFormatError(f"{self.path} has no sheet with cells.")
            yield from book.worksheets[0].iter_rows(values_only=True)


class ExcelSink(Sink):
    """Writer of a workbook with new scores in its first sheet; other sheets, formats and formulas are kept."""

    def __init__(
        self,
        stream: IO[bytes],
        path: Path,  # noqa: ARG002
        source: ExcelSource,
        columns: Sequence[str],
        appended: bool,
    ) -> None:
        self._stream = stream
        self._book = _openpyxl().load_workbook(source.path)
        self._sheet = self._book.worksheets[0]
        n_columns = len(source.columns)
        self._places = (
            [n_columns + 1 + number for number in range(len(columns))]
            if appended
            else [source.columns.index(column) + 1 for column in columns]
        )
        if appended:
            for place, column in zip(self._places, columns, strict=True):
                self._sheet.cell(1, place, column)

    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:
        """Set the cells of these rows."""
        assert isinstance(batch, CellBatch)
        for row, values in zip(batch.rows, scores.tolist(), strict=True):
            for place, value in zip(self._places, values, strict=True):
                self._sheet.cell(row.line, place, value)

    def finish(self) -> None:
        """Save the workbook."""
        self._book.save(self._stream)
        self._book.close()


EXCEL = Format(
    "Excel",
    (".xlsx",),
    ExcelSource,
    ExcelSink,
    ZIP,
    member="xl/workbook.xml",
    about="first sheet, with a header; needs the extra `excel`",
)
