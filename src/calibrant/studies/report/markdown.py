"""Tables and reports of a study in Markdown and CSV."""

import math
import re
from collections.abc import Iterable, Sequence

from calibrant.studies.pictures import DrawnPicture
from calibrant.studies.report.contents import ReportContents
from calibrant.studies.tables.options import ResultTable, TableCell
from calibrant.wording import counted

__all__ = [
    "DASH",
    "count_text",
    "number_text",
    "on_empty",
    "rank_text",
    "report_markdown",
    "signed_text",
    "table_markdown",
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
    for row, cells, digits in table.all_rows():
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


def report_markdown(contents: ReportContents, pictures_folder: str = "pictures") -> str:
    """Return a report; pictures are linked by paths relative to it.

    It begins with one heading of the first level. No time and no folder of the machine is in it, so that the same results
    give the same text.
    """
    parts = [f"# {escaped(contents.title)}\n", "## What was run\n"]
    parts.append("".join(f"- **{escaped(name)}**: {escaped(text)}\n" for name, text in contents.facts))
    if contents.data_rows:
        rows = [tuple(map(escaped, row)) for row in contents.data_rows]
        parts.append(grid(contents.data_header, rows))
    if contents.absent:
        parts.append("Left out:\n")
        parts.append("".join(f"- {escaped(name)}: {escaped(reason)}\n" for name, reason in contents.absent))
    if contents.empty:
        parts.append(f"{escaped(on_empty(contents))}\n")
    if contents.failures:
        parts.append(_failures(contents))
    if contents.tables:
        parts.append("## Tables\n")
        parts.extend(_table(table) for table in contents.tables)
    if contents.pictures:
        parts.append("## Pictures\n")
        parts.extend(_picture(picture, pictures_folder) for picture in contents.pictures)
    return "\n".join(parts)


def on_empty(contents: ReportContents) -> str:
    """Return a sentence on what cannot be shown, since nothing that was to be run belongs to it."""
    return f"Not shown, since nothing that was to be run belongs to it: {'; '.join(contents.empty)}."


def _failures(contents: ReportContents) -> str:
    rows = [
        (str(failure.number), failure.status, escaped(failure.where), escaped(failure.message))
        for failure in contents.failures
    ]
    text = "## What failed\n\n" + grid(("units", "how", "of", "message"), rows, 4)
    if contents.n_other_failures:
        text += f"\n{counted(contents.n_other_failures, 'further unit')} failed for other reasons.\n"
    return text


def _heading(caption: str, source: str) -> str:
    return f"### {escaped(caption)}{f' ({escaped(source)})' if source else ''}\n"


def _table(table: ResultTable) -> str:
    options = table.options
    return f"{_heading(options.caption, options.source)}\n{table_markdown(table)}"


def _picture(picture: DrawnPicture, folder: str) -> str:
    options = picture.options
    lines = [_heading(options.caption, options.source)]
    for name, drawing in picture.drawings.items():
        if drawing is not None:
            lines.append(f"![{escaped(options.caption)}]({folder}/{name}.svg)\n")
    lines.extend(f"{escaped(note)}\n" for note in (*picture.notes, options.note) if note)
    return "\n".join(lines)
