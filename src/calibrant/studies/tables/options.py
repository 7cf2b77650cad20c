"""TableOptions and ResultTable: what a recipe says about a table, and the table with its numbers."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from calibrant.errors import RecipeError
from calibrant.presentation import TYPOGRAPHIC, Cell, Column, Style, Table, decimals
from calibrant.studies.results import MEASURE, SPLIT_LABELS, csv_text
from calibrant.studies.schema import NamesOrOne, Rule, check_measures, check_name, parsed
from calibrant.studies.tables.cells import Row

__all__ = ["AVERAGE_RANK", "NO_BREAK", "ResultTable", "TableCell", "TableOptions"]

NO_BREAK = "\N{NO-BREAK SPACE}"
"""Between the parts of one number, so that a page does not break the line there."""

STYLE = Style(infinity="∞", missing="–", space=NO_BREAK)


@dataclass(frozen=True)
class TableOptions:
    """The keys of a table in a recipe; the guide on recipes explains each."""

    name: str
    title: str = ""
    source: str = ""
    figures: str = ""
    measures: NamesOrOne = ()
    rows: NamesOrOne = ("data",)
    columns: str = "calibrator"
    show: Literal["value", "average rank", "share above", "median", "sd"] = "value"
    level: float | None = None
    ranks: bool = False
    tie: Literal["average", "min"] = "average"
    round_first: bool = False
    spread: Literal["", "sd"] = ""
    relative_to: str = ""
    quotient: Literal["of means", "mean"] = "of means"
    scale: float = 1.0
    digits: Annotated[int, Rule(ge=0, le=12)] = 4
    where: Mapping[str, Any] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    friedman: bool = False
    post_hoc_below: Annotated[float, Rule(gt=0, le=1)] = 1.0
    sides: Literal[1, 2] = 2
    control: str = ""
    unranked: NamesOrOne = ()
    better: Literal["", "higher", "lower"] = ""
    note: str = ""
    measure: NamesOrOne = ()

    @classmethod
    def parse(cls, entry: Mapping[str, Any], measures: Collection[str] | None = None) -> Self:
        """Check a table of a recipe.

        Parameters
        ----------
        entry : mapping
            The table.
        measures : collection of str, optional
            Names of the measures; None if there are trials, which can return any.

        Raises
        ------
        RecipeError
            If a key or value is invalid.

        Examples
        --------
        >>> TableOptions.parse({"name": "table-06", "measure": "log_loss", "rows": "classifier"}).rows
        ('classifier',)
        """
        where = f"the table {check_name('table', entry)!r}"
        table = parsed(cls, where, entry)
        if not table.all_measures:
            raise RecipeError(f'{where} names no measure; add measure = "...".')
        check_measures(where, table.all_measures, measures)
        table._check_together(where)
        return table

    @property
    def all_measures(self) -> tuple[str, ...]:
        """The measures, whether given as one or as a list."""
        return (*self.measure, *self.measures)

    def _check_together(self, where: str) -> None:
        if self.columns in self.rows:
            raise RecipeError(f"{where} has {self.columns!r} for rows and columns; take different labels.")
        if len(self.all_measures) > 1 and MEASURE not in (*self.rows, self.columns):
            raise RecipeError(
                f"{where} has {len(self.all_measures)} measures, which must be its rows or columns; "
                f'set rows = "{MEASURE}", or take one measure.'
            )
        if self.columns == MEASURE and (self.ranks or self.friedman or self.show == "average rank"):
            raise RecipeError(
                f"{where} cannot rank measures against each other; set columns to another label."
            )
        for label in SPLIT_LABELS:
            if label in (*self.rows, self.columns) and self.spread:
                raise RecipeError(
                    f"{where} has {label!r} as a label, so there is no spread over it; drop spread."
                )

    @property
    def caption(self) -> str:
        """The title, or the name if there is none."""
        return self.title or self.name

    @property
    def counted_above(self) -> float | None:
        """Level above which units are counted, instead of averaging their values."""
        return 0.05 if self.show == "share above" and self.level is None else self.level

    @property
    def compared(self) -> bool:
        """Whether the columns are alternatives, so that the best of a row is marked."""
        if self.show == "sd" or self.columns == MEASURE:
            return False
        return self.columns == "calibrator" or self.ranked or bool(self.better)

    @property
    def ranked(self) -> bool:
        """Whether ranks are needed."""
        return self.ranks or self.friedman or self.show == "average rank"


AVERAGE_RANK = "average rank"
"""Name of the footer row."""


@dataclass(frozen=True)
class TableCell:
    """One cell of a table, scaled as printed; missing numbers are NaN.

    Attributes
    ----------
    value : float
        Our number.
    n_units, n_planned : int
        Number of finished and of planned units; of tasks for average ranks.
    sd : float
        Standard deviation over splits.
    rank : float
        Rank within the row.
    paper : float
        Published number.
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
        """Our number minus the published one."""
        return self.value - self.paper if math.isfinite(self.paper) else math.nan

    @property
    def has_figure(self) -> bool:
        """Whether the paper has a number."""
        return not math.isnan(self.paper)

    @property
    def is_ranked(self) -> bool:
        """Whether there is a rank."""
        return not math.isnan(self.rank)

    @property
    def rank_text(self) -> str:
        """The rank, with decimals only for ties and averages."""
        return f"{self.rank:.2f}".rstrip("0").rstrip(".")

    @property
    def missing(self) -> str:
        """Number of units out of those planned; empty if none is missing."""
        return "" if self.n_units == self.n_planned else f"[{self.n_units} of {self.n_planned}]"

    def text(self, digits: int, with_spread: bool = False, style: Style = STYLE) -> str:
        r"""Return our number, and its standard deviation if ``with_spread``.

        >>> TableCell(0.5, sd=0.25).text(1, with_spread=True), TableCell().text(2)
        ('0.5\xa0±\xa00.2', '–')
        """
        text = decimals(self.value, digits, style=style)
        if not with_spread or not math.isfinite(self.sd):
            return text
        return f"{text}{NO_BREAK}±{NO_BREAK}{decimals(self.sd, digits, style=style)}"

    def paper_text(self, digits: int, style: Style = STYLE) -> str:
        """Return the number of the paper."""
        return decimals(self.paper, digits, style=style)

    def difference_text(self, digits: int, style: Style = STYLE) -> str:
        """Return the difference with its sign."""
        return decimals(self.difference, digits, signed=True, style=style)

    @property
    def complete(self) -> bool:
        """Whether all planned units are finished."""
        return self.n_units == self.n_planned > 0


@dataclass(frozen=True)
class ResultTable:
    """A table of results.

    Attributes
    ----------
    options : TableOptions
    columns : tuple of str
        Names of the columns.
    rows : tuple of tuple of str
        Labels of the rows, one for each of ``options.rows``.
    cells : tuple of tuple of TableCell
        One per row and column.
    footer : tuple of (str, tuple of TableCell)
        Rows of average ranks.
    notes : tuple of str
        Sentences below the table.
    """

    options: TableOptions
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    cells: tuple[tuple[TableCell, ...], ...]
    footer: tuple[tuple[str, tuple[TableCell, ...]], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def has_figures(self) -> bool:
        """Whether there is any published number."""
        return any(math.isfinite(cell.paper) for row in self.cells for cell in row)

    def all_rows(self) -> list[tuple[Row, Sequence[TableCell], int]]:
        """Return labels, cells and decimals of all rows; a row of the footer has its name in place of the first label."""
        body = [(row, cells, self.options.digits) for row, cells in zip(self.rows, self.cells, strict=True)]
        blank = [""] * (len(self.options.rows) - 1)
        return [*body, *(((name, *blank), cells, 2) for name, cells in self.footer)]

    def presented(self) -> Table:
        """Return the table with formatted numbers; published numbers, differences and ranks are below ours."""
        options, rows = self.options, []
        for labels, cells, digits in self.all_rows():
            beside = ("paper", "difference") if any(cell.has_figure for cell in cells) else ()
            which = [Cell("ours", beside)] if self.has_figures else []
            numbers = [_presented(cell, digits, bool(options.spread)) for cell in cells]
            rows.append((*(Cell(label or NO_BREAK) for label in labels), *which, *numbers))
        words = [*options.rows, *([NO_BREAK] if self.has_figures else [])]
        return Table(
            options.name,
            "",
            (*(Column(word, is_numeric=False) for word in words), *map(Column, self.columns)),
            tuple(rows[: len(self.rows)]),
            tuple(rows[len(self.rows) :]),
            notes=tuple(filter(None, (self._legend(), *self.notes, options.note))),
            n_headers=len(options.rows),
        )

    def _legend(self) -> str:
        marked = any(cell.best for row in self.cells for cell in row)
        words = ["Bold: best of its row."] if marked else []
        return " ".join([*words, *(["Difference: ours minus the paper's."] if self.has_figures else [])])

    def to_csv(self) -> str:
        """Return one line per cell, as comma-separated values."""
        numbers = ("value", "n_units", "n_planned", "sd", "rank", "paper", "difference")
        return csv_text(
            [*self.options.rows, self.options.columns, "ours", *numbers[1:]],
            (
                [*row, column, *(getattr(cell, number) for number in numbers)]
                for row, cells, _ in self.all_rows()
                for column, cell in zip(self.columns, cells, strict=True)
            ),
        )


def _presented(cell: TableCell, digits: int, with_spread: bool) -> Cell:
    details = [cell.paper_text(digits, TYPOGRAPHIC), cell.difference_text(digits, TYPOGRAPHIC)]
    more = [f"rank {cell.rank_text}" if cell.is_ranked else "", cell.missing]
    text = cell.text(digits, with_spread, TYPOGRAPHIC)
    return Cell(text, (*(details if cell.has_figure else []), *more), value=cell.value, is_best=cell.best)
