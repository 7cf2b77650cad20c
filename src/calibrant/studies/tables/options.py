"""TableOptions and ResultTable: the options of a table in a recipe, and the table with its numbers."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from calibrant.errors import RecipeError
from calibrant.studies.results import MEASURE, SPLIT_LABELS, csv_text
from calibrant.studies.tables.cells import Row

__all__ = [
    "AVERAGE_RANK",
    "ResultTable",
    "TableCell",
    "TableOptions",
    "check_measures",
    "check_name",
    "check_options",
    "texts_of",
]


SHOWN = ("value", "average rank", "share above", "median", "sd")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
ALWAYS_MEASURED = ("fit_seconds", "predict_seconds")


@dataclass(frozen=True)
class TableOptions:
    """A table of a recipe; see the guide on recipes for what every option means."""

    name: str
    title: str = ""
    source: str = ""
    figures: str = ""
    measures: tuple[str, ...] = ()
    rows: tuple[str, ...] = ("data",)
    columns: str = "calibrator"
    show: str = "value"
    level: float | None = None
    ranks: bool = False
    tie: str = "average"
    round_first: bool = False
    spread: str = ""
    relative_to: str = ""
    scale: float = 1.0
    digits: int = 4
    where: Mapping[str, Any] = field(default_factory=dict)
    friedman: bool = False
    control: str = ""
    unranked: tuple[str, ...] = ()
    better: str = ""
    note: str = ""

    @classmethod
    def parse(cls, entry: Mapping[str, Any], measures: Collection[str] | None = None) -> Self:
        """Check what a recipe says.

        Parameters
        ----------
        entry : mapping
            A table of the recipe.
        measures : collection of str, optional
            Names of the measures; None if trials may give any.

        Raises
        ------
        RecipeError
            If something has no meaning.

        Examples
        --------
        >>> TableOptions.parse({"name": "table-06", "measure": "log_loss", "rows": "classifier"}).rows
        ('classifier',)
        """
        name = check_name("table", entry)
        where = f"the table {name!r}"
        known = [each.name for each in fields(cls)]
        check_options(where, entry, [*known, "measure"])
        options = {key: value for key, value in entry.items() if key in known}
        named = texts_of(where, entry, "measures") if "measures" in entry else ()
        if "measure" in entry:
            named = (*texts_of(where, entry, "measure"), *named)
        if not named:
            raise RecipeError(f'{where} names no measure; add measure = "...".')
        check_measures(where, named, measures)
        options["measures"] = named
        options["rows"] = texts_of(where, entry, "rows") if "rows" in entry else ("data",)
        options["unranked"] = texts_of(where, entry, "unranked") if "unranked" in entry else ()
        table = cls(**_checked(where, options))
        table._check_together(where)
        return table

    def _check_together(self, where: str) -> None:
        if self.columns in self.rows:
            raise RecipeError(f"{where} has {self.columns!r} for rows and columns; take different labels.")
        if len(self.measures) > 1 and MEASURE not in (*self.rows, self.columns):
            raise RecipeError(
                f"{where} has {len(self.measures)} measures, which must be its rows or columns; "
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
        """The title, or the name where there is none."""
        return self.title or self.name

    @property
    def counted_above(self) -> float | None:
        """Level that units are counted above, if their own numbers are not wanted."""
        return 0.05 if self.show == "share above" and self.level is None else self.level

    @property
    def compared(self) -> bool:
        """Whether columns are compared, so that the best of a row may be marked: seconds by data set are not."""
        if self.show == "sd" or self.columns == MEASURE:
            return False
        return self.columns == "calibrator" or self.ranked or bool(self.better)

    @property
    def ranked(self) -> bool:
        """Whether ranks are needed."""
        return self.ranks or self.friedman or self.show == "average rank"


CHOICES = {"show": SHOWN, "tie": ("average", "min"), "spread": ("", "sd"), "better": ("", "higher", "lower")}
KINDS: dict[str, tuple[type, ...]] = {
    "title": (str,), "source": (str,), "figures": (str,), "columns": (str,), "relative_to": (str,),
    "control": (str,), "note": (str,), "ranks": (bool,), "round_first": (bool,), "friedman": (bool,),
    "level": (float, int), "scale": (float, int), "where": (Mapping,),
}  # fmt: skip


def _checked(where: str, options: dict[str, Any]) -> dict[str, Any]:
    for key, choices in CHOICES.items():
        if key in options and options[key] not in choices:
            asked = ", ".join(repr(choice) for choice in choices if choice)
            raise RecipeError(f"{where}: {key} must be one of {asked}, not {options[key]!r}.")
    for key, kinds in KINDS.items():
        value = options.get(key)
        wrong = not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)
        if key in options and wrong:
            raise RecipeError(f"{where}: {key} = {value!r} is not of the right kind ({_kind_text(kinds)}).")
    digits = options.get("digits", 4)
    if isinstance(digits, bool) or not isinstance(digits, int) or not 0 <= digits <= 12:
        raise RecipeError(f"{where}: digits must be a whole number from 0 to 12, not {digits!r}.")
    return options


def _kind_text(kinds: tuple[type, ...]) -> str:
    words = {str: "text", bool: "true or false", float: "a number", Mapping: "a table of labels"}
    return next(words[kind] for kind in kinds if kind in words)


def check_name(kind: str, entry: Mapping[str, Any]) -> str:
    """Return the name of a table or picture, which becomes that of a file."""
    name = entry.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise RecipeError(
            f"a {kind} must have a name of letters, digits, hyphens and dots, since it becomes the name of a file; "
            f"it is {name!r}."
        )
    return name


def check_options(where: str, entry: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse keys that mean nothing."""
    for key in entry:
        if key not in known:
            raise RecipeError(f"{where} has a key {key!r} that means nothing; known are {', '.join(known)}.")


def check_measures(where: str, named: Collection[str], measures: Collection[str] | None) -> None:
    """Refuse measures that a recipe does not have."""
    known = [*(measures or ()), *ALWAYS_MEASURED]
    for name in named if measures is not None else ():
        if name not in known:
            raise RecipeError(
                f"{where} asks for the measure {name!r}, which the recipe does not have; it has {', '.join(known)}."
            )


def texts_of(where: str, entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return a text or a list of texts as a tuple."""
    value = entry[key]
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not texts or not all(isinstance(one, str) for one in texts):
        raise RecipeError(f"{where}: {key} must be a name or a list of names, not {value!r}.")
    return tuple(texts)


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

    def all_rows(self) -> list[tuple[Row, Sequence[TableCell], int]]:
        """Return labels, cells and decimals of all rows; a row of the footer has its name in place of the first label."""
        body = [(row, cells, self.options.digits) for row, cells in zip(self.rows, self.cells, strict=True)]
        blank = [""] * (len(self.options.rows) - 1)
        return [*body, *(((name, *blank), cells, 2) for name, cells in self.footer)]

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
