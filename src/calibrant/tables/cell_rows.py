"""Rows of cells that are Python objects, as JSON and Excel have them."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import PredictionError
from calibrant.presentation.sentences import shortened
from calibrant.tables.source import ColumnBatch, ColumnSource, Names, NoRowsError, check_names, check_no_nul

__all__ = ["CellBatch", "CellRow", "CellSource"]

ROWS_LOOKED_AT = 1000


class CellRow:
    """A row: its cells by column, its number and line in the file, and what a writer needs to write it again."""

    __slots__ = ("cells", "line", "number", "origin")

    def __init__(self, cells: Mapping[str, Any], number: int, line: int, origin: Any = None) -> None:
        self.cells, self.number, self.line, self.origin = cells, number, line, origin


class CellBatch(ColumnBatch):
    """Rows of cells; a cell that a row does not have is missing."""

    def __init__(self, source: "CellSource", first_row: int, rows: list[CellRow]) -> None:
        self.source, self.path, self.first_row = source, source.path, first_row
        self.rows, self.n_rows = rows, len(rows)

    def place(self, row: int) -> str:
        """Return row and line."""
        found = self.rows[row]
        return f"row {found.number} ({self.source.line_word} {found.line})"

    def numbers(self, column: str, error_type: type[ValueError] = PredictionError) -> NDArray[np.float64]:
        """Return a numeric column, NaN for missing values."""
        cells = self._cells(column)
        for row, cell in enumerate(cells):
            if cell is not None and not _is_number(cell):
                raise error_type(
                    f"{self.path}: {self.place(row)}, column {column!r} is {shortened(repr(cell))}, which is not a number."
                )
        return np.array([np.nan if cell is None else float(cell) for cell in cells], dtype=np.float64)

    def names(self, column: str) -> Names:
        """Return text as text, and integers and Booleans as integers."""
        cells = self._cells(column)
        check_names(self.missing_names(column), self.path, column, self.place)
        if not all(isinstance(cell, int | float) for cell in cells):
            texts = [str(cell) for cell in cells]
            check_no_nul(np.array(["\0" in text for text in texts]), self.path, column, self.place)
            return Names.of(np.array(texts, dtype=str))
        values = np.array(cells, dtype=np.float64)
        return Names.of(self._integers(values, column))

    def missing_numbers(self, column: str) -> NDArray[np.bool_]:
        """Return which rows have no number."""
        return np.array([cell is None or cell != cell for cell in self._cells(column)], dtype=bool)

    def missing_names(self, column: str) -> NDArray[np.bool_]:
        """Return which rows have no name."""
        return np.array(
            [cell is None or cell in ("",) or cell != cell for cell in self._cells(column)], dtype=bool
        )

    def take(self, kept: NDArray[np.bool_]) -> "CellBatch":
        """Return some of the rows."""
        rows = [row for row, is_kept in zip(self.rows, kept.tolist(), strict=True) if is_kept]
        return CellBatch(self.source, self.first_row, rows)

    def _cells(self, column: str) -> list[Any]:
        return [row.cells.get(column) for row in self.rows]


class CellSource(ColumnSource):
    """Base of formats that are read row by row."""

    line_word: str

    @abstractmethod
    def rows(self) -> Iterator[CellRow]:
        """Yield all rows, from the start of the file."""

    def batches(
        self,
        n_rows: int,
        columns: Sequence[str] | None = None,  # noqa: ARG002
        numbers: Sequence[str] = (),  # noqa: ARG002
    ) -> Iterator[CellBatch]:
        """Yield all rows."""
        n_done = 0
        rows = self.rows()
        while taken := list(islice(rows, n_rows)):
            yield CellBatch(self, n_done, taken)
            n_done += len(taken)
        if n_done == 0:
            raise NoRowsError(f"{self.path} has no rows; at least one row is needed.")

    def numeric_columns(
        self, taken: Sequence[str]
    ) -> tuple[list[str], Callable[[str], NDArray[np.floating]]]:
        """Return the columns that have only numbers, and a function that reads them."""
        first = self.first_rows
        found = [name for name in self.columns if name not in taken and _is_numeric(first, name)]
        return found, first.numbers

    @cached_property
    def first_rows(self) -> CellBatch:
        """The first thousand rows."""
        return next(self.batches(ROWS_LOOKED_AT))


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _is_numeric(first: CellBatch, column: str) -> bool:
    cells = [row.cells.get(column) for row in first.rows]
    there = [cell for cell in cells if cell is not None]
    return bool(there) and all(map(_is_number, there))
