"""ResultTable: numbers of a table with all that is to be said about them."""

import math
from dataclasses import dataclass

from calibrant.studies.tables_cells import Row
from calibrant.studies.tables_options import TableOptions

__all__ = ["AVERAGE_RANK", "ResultTable", "TableCell"]

AVERAGE_RANK = "average rank"
"""Name of the row below."""


@dataclass(frozen=True)
class TableCell:
    """One number of a table, in the units that it is printed in; NaN where there is none.

    Attributes
    ----------
    value : float
        Ours.
    n_units, n_planned : int
        Number of units behind it, and of those in the plan; of tasks for average ranks.
    sd : float
        Standard deviation over splits.
    rank : float
        Within its row.
    paper : float
        The figure of the paper.
    best : bool
        Whether no other cell of the row is better.
    """

    value: float = math.nan
    n_units: int = 0
    n_planned: int = 0
    sd: float = math.nan
    rank: float = math.nan
    paper: float = math.nan
    best: bool = False

    @property
    def difference(self) -> float:
        """Ours less the paper's."""
        return self.value - self.paper if math.isfinite(self.paper) else math.nan

    @property
    def complete(self) -> bool:
        """Whether all units are there."""
        return self.n_units == self.n_planned > 0


@dataclass(frozen=True)
class ResultTable:
    """A table with all that is to be said about it.

    Attributes
    ----------
    options : TableOptions
        What the recipe says about it.
    columns : tuple of str
        Names of the columns.
    rows : tuple of tuple of str
        Labels of the rows, as many as ``options.rows``.
    cells : tuple of tuple of TableCell
        One for every row and column.
    footer : tuple of (str, tuple of TableCell)
        Rows below: average ranks.
    notes : tuple of str
        Sentences below.
    """

    options: TableOptions
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    cells: tuple[tuple[TableCell, ...], ...]
    footer: tuple[tuple[str, tuple[TableCell, ...]], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def has_figures(self) -> bool:
        """Whether the paper's figures stand beside any of ours."""
        return any(math.isfinite(cell.paper) for row in self.cells for cell in row)
