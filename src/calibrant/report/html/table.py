"""Tables for the template: columns, cells with sort values, and notes."""

from dataclasses import dataclass
from math import isinf

from calibrant.report.contents import Estimate
from calibrant.report.html.number_text import DASH, interval, number, points

__all__ = ["Cell", "Column", "Table", "difference_cell", "estimate_cell", "number_cell"]

LONG_NAME = 40


@dataclass(frozen=True)
class Cell:
    """A cell: text, sort `value`, `detail` below the text, and `tag` such as "better", "worse" or "open"."""

    text: str
    value: float | None = None
    detail: str = ""
    tag: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Column:
    """Header of a column, and whether its cells are numeric."""

    title: str
    numeric: bool = True
    hint: str = ""


@dataclass(frozen=True)
class Table:
    """A table with a caption; the first cell of a row is its header.

    Attributes
    ----------
    name : str
        Prefix of element ids on the page.
    definitions : tuple of tuple of str
        Terms with definitions, shown on demand below the table.
    notes : tuple of str
        Sentences below the table.
    sortable, filterable : bool
        Whether rows can be sorted, and filtered by their header.
    limit : int or None
        Number of rows shown initially.
    highlighted : int or None
        Index of a highlighted row.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    definitions: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    sortable: bool = False
    filterable: bool = False
    limit: int | None = None
    highlighted: int | None = None

    @property
    def has_long_names(self) -> bool:
        """Whether the row headers need a wide column."""
        return any(len(row[0].text) > LONG_NAME for row in self.rows)


def number_cell(value: float | None, text: str | None = None, detail: str = "") -> Cell:
    """Return a numeric cell; `text` overrides the default format."""
    return Cell(number(value, tiny=False) if text is None else text, value, detail)


def estimate_cell(estimate: Estimate | None, *, signed: bool = False) -> Cell:
    """Return the cell of an estimate, with its interval below."""
    if estimate is None:
        return Cell(DASH)
    return Cell(
        number(estimate.value, signed=signed, tiny=False), estimate.value, interval(estimate, signed=signed)
    )


def difference_cell(estimate: Estimate | None, *, in_points: bool = False) -> Cell:
    """Return the cell of a difference, tagged by whether its interval excludes zero."""
    if estimate is None:
        return Cell(DASH)
    text = points(estimate.value) if in_points else number(estimate.value, signed=True)
    return Cell(
        text, estimate.value, interval(estimate, in_points=in_points, signed=True), judgement(estimate)
    )


def judgement(estimate: Estimate) -> str:
    """Return "better" or "worse" if the interval excludes zero, "same" if it is zero, else "open".

    An infinite difference, between an infinite and a finite loss, is "better" or "worse" without an interval.
    """
    if estimate.value is not None and isinf(estimate.value):
        return "better" if (estimate.value > 0) == estimate.higher_is_better else "worse"
    if estimate.low is None or estimate.high is None:
        return ""
    if estimate.low == estimate.high == 0:
        return "same"
    if estimate.low <= 0 <= estimate.high:
        return "open"
    return "better" if (estimate.low > 0) == estimate.higher_is_better else "worse"
