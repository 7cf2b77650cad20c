"""Tables and reports in Markdown, to be read in a terminal or included in a page of documentation."""

import re
from collections.abc import Iterable, Sequence

from calibrant.studies.tables_text import (
    DASH,
    NO_BREAK,
    count_text,
    number_text,
    rank_text,
    rows_of,
    signed_text,
    value_text,
)
from calibrant.studies.tables_types import ResultTable, TableCell

__all__ = ["escaped", "grid", "table_markdown"]

SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#$~^])")


def escaped(text: str) -> str:
    r"""Return text of which nothing is taken for Markdown.

    >>> print(escaped("c10_resnet | <b>"))
    c10\_resnet \| \<b\>
    """
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def grid(header: Sequence[str], rows: Iterable[Sequence[str]], n_words: int = 1) -> str:
    """Return a table whose columns are aligned in a terminal too; the first ``n_words`` are words, to the left.

    >>> print(grid(["data", "loss"], [["iris", "0.12"], ["car", "10.30"]]), end="")
    | data |  loss |
    |------|------:|
    | iris |  0.12 |
    | car  | 10.30 |
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(3, *(len(line[number]) for line in lines)) for number in range(len(header))]

    def line_of(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if number < n_words else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |\n"

    rule = "|".join(
        "-" * (width + 2) if number < n_words else f"{'-' * (width + 1)}:"
        for number, width in enumerate(widths)
    )
    return f"{line_of(lines[0])}|{rule}|\n{''.join(map(line_of, lines[1:]))}"


def table_markdown(table: ResultTable) -> str:
    """Return a table with the figures of the paper and the differences in lines below ours, and notes below.

    The best number of a row is bold, its rank is in round brackets, and square brackets say how many units are there
    where some are missing.
    """
    options = table.options
    if not table.rows:
        return "".join(f"{escaped(note)}\n" for note in table.notes)
    beside = table.has_figures
    header = [*map(escaped, options.rows), *([""] if beside else []), *map(escaped, table.columns)]
    lines: list[list[str]] = []
    for row, cells, digits in rows_of(table):
        labels = list(map(escaped, row))
        ours = [_ours(cell, digits, with_spread=bool(options.spread)) for cell in cells]
        if not beside:
            lines.append([*labels, *ours])
            continue
        lines.append([*labels, "ours", *ours])
        if any(cell.paper == cell.paper for cell in cells):
            empty = [""] * len(labels)
            lines.append([*empty, "paper", *(number_text(cell.paper, digits) for cell in cells)])
            lines.append([*empty, "difference", *(_difference(cell, digits) for cell in cells)])
    text = grid(header, lines, len(options.rows) + beside)
    notes = [*table.notes, *([options.note] if options.note else [])]
    return text + "".join(f"\n{escaped(note)}\n" for note in notes)


def _ours(cell: TableCell, digits: int, *, with_spread: bool) -> str:
    text = value_text(cell, digits, with_spread=with_spread)
    if cell.best:
        text = f"**{text}**"
    if cell.rank == cell.rank:
        text += f"{NO_BREAK}({rank_text(cell.rank)})"
    missing = count_text(cell)
    return f"{text} {escaped(missing).replace(' ', NO_BREAK)}" if missing else text


def _difference(cell: TableCell, digits: int) -> str:
    return signed_text(cell.difference, digits) if cell.difference == cell.difference else DASH
