"""Tables as the template lays them out: columns, cells with their sorting value, and notes below."""

from dataclasses import dataclass
from math import isinf

from calibrant.report.contents import Estimate
from calibrant.report.html.number_text import DASH, interval, number, points

__all__ = ["Cell", "Column", "Table", "difference_cell", "estimate_cell", "number_cell"]

LONG_NAME = 40


@dataclass(frozen=True)
class Cell:
    """Text of a cell; `value` sorts it, `detail` stands below it, `tag` judges it as "better", "worse" or "open"."""

    text: str
    value: float | None = None
    detail: str = ""
    tag: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Column:
    """Head of a column and whether numbers stand below it."""

    title: str
    numeric: bool = True
    hint: str = ""


@dataclass(frozen=True)
class Table:
    """A table with a caption; the first cell of a row is its head.

    Attributes
    ----------
    name : str
        What its elements are called on the page.
    definitions : tuple of tuple of str
        Terms and what exactly they are, shown below on demand.
    notes : tuple of str
        Sentences below.
    sortable, filterable : bool
        Whether the script offers to sort the rows, and to filter them by their head.
    limit : int or None
        Number of rows that the script shows at first.
    highlighted : int or None
        A row that stands out.
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
        """Whether the heads of rows need a wide column."""
        return any(len(row[0].text) > LONG_NAME for row in self.rows)


def number_cell(value: float | None, text: str | None = None, detail: str = "") -> Cell:
    """Return a cell of a number; `text` if the usual way of writing it does not serve."""
    return Cell(number(value, tiny=False) if text is None else text, value, detail)


def estimate_cell(estimate: Estimate | None, *, signed: bool = False) -> Cell:
    """Return a cell of an estimate with its interval below."""
    if estimate is None:
        return Cell(DASH)
    return Cell(
        number(estimate.value, signed=signed, tiny=False), estimate.value, interval(estimate, signed=signed)
    )


def difference_cell(estimate: Estimate | None, *, in_points: bool = False) -> Cell:
    """Return a cell of a difference, judged by whether its interval leaves zero out."""
    if estimate is None:
        return Cell(DASH)
    text = points(estimate.value) if in_points else number(estimate.value, signed=True)
    return Cell(
        text, estimate.value, interval(estimate, in_points=in_points, signed=True), judgement(estimate)
    )


def judgement(estimate: Estimate) -> str:
    """Return "better" or "worse" if the whole interval is on one side of zero, "same" if it is zero, else "open".

    An infinite difference, from refuted zeros to a finite loss or back, is on one side without any interval.
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
