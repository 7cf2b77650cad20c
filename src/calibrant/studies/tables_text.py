"""Numbers of tables as text, and tables as files of comma-separated values."""

import csv
import math
from collections.abc import Sequence
from io import StringIO
from typing import Any

from calibrant.studies.tables_types import ResultTable, TableCell

__all__ = [
    "DASH",
    "NO_BREAK",
    "count_text",
    "csv_text",
    "number_text",
    "rank_text",
    "rows_of",
    "signed_text",
    "value_text",
]

DASH = "–"
NO_BREAK = "\N{NO-BREAK SPACE}"
"""Between what belongs to one number, which a page should not break into lines."""


def number_text(value: float, digits: int) -> str:
    """Return a number with so many decimals.

    >>> number_text(0.123456, 4), number_text(float("nan"), 4), number_text(float("inf"), 4), number_text(-1e-9, 2)
    ('0.1235', '–', '∞', '0.00')
    """
    if math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def signed_text(value: float, digits: int) -> str:
    """Return a difference with its sign; none for zero.

    >>> signed_text(0.00123, 4), signed_text(-0.00001, 4), signed_text(-0.5, 1)
    ('+0.0012', '0.0000', '-0.5')
    """
    text = number_text(value, digits)
    return f"+{text}" if value > 0 and text != DASH and (math.isinf(value) or float(text) != 0) else text


def rank_text(rank: float) -> str:
    """Return a rank, with decimals only if it has any.

    >>> rank_text(2.0), rank_text(2.5), rank_text(7 / 3)
    ('2', '2.5', '2.33')
    """
    return f"{rank:.2f}".rstrip("0").rstrip(".")


def value_text(cell: TableCell, digits: int, *, with_spread: bool = False) -> str:
    """Return our number, with its spread where it is wanted."""
    text = number_text(cell.value, digits)
    return (
        f"{text}{NO_BREAK}±{NO_BREAK}{number_text(cell.sd, digits)}"
        if with_spread and math.isfinite(cell.sd)
        else text
    )


def count_text(cell: TableCell) -> str:
    """Return how many units of how many are there; nothing if all are.

    >>> count_text(TableCell(0.5, 4, 5)), count_text(TableCell(0.5, 5, 5))
    ('[4 of 5]', '')
    """
    return "" if cell.n_units == cell.n_planned else f"[{cell.n_units} of {cell.n_planned}]"


def rows_of(table: ResultTable) -> list[tuple[tuple[str, ...], Sequence[TableCell], int]]:
    """Return labels, cells and decimals of all rows; those of the footer have their name in the place of the first label."""
    digits, width = table.options.digits, len(table.options.rows)
    body = [(row, cells, digits) for row, cells in zip(table.rows, table.cells, strict=True)]
    return [*body, *(((name, *[""] * (width - 1)), cells, 2) for name, cells in table.footer)]


def csv_text(table: ResultTable) -> str:
    """Return a table with one line for every cell; numbers have all their digits, empty fields are missing."""
    options = table.options
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    numbers = ["ours", "n_units", "n_planned", "sd", "rank", "paper", "difference"]
    writer.writerow([*options.rows, options.columns, *numbers])
    for row, cells, _ in rows_of(table):
        for column, cell in zip(table.columns, cells, strict=True):
            values = [
                cell.value,
                cell.n_units,
                cell.n_planned,
                cell.sd,
                cell.rank,
                cell.paper,
                cell.difference,
            ]
            writer.writerow([*row, column, *map(plain_number, values)])
    return stream.getvalue()


def plain_number(value: Any) -> Any:
    """Return a number for a file: ten digits, which come out the same wherever they are computed, and none for NaN.

    >>> plain_number(1 / 3), plain_number(float("nan")), plain_number(4), plain_number(2.0)
    ('0.3333333333', '', 4, '2')
    """
    if not isinstance(value, float):
        return value
    return "" if math.isnan(value) else f"{value:.10g}"
