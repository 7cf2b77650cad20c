"""Markdown: documents and tables with escaped text, readable as plain text."""

import re
from collections.abc import Iterable, Sequence

from calibrant.presentation.document import (
    Block,
    Bullets,
    Code,
    Document,
    Facts,
    Figure,
    OnPage,
    Paragraph,
    Section,
    SideBySide,
)
from calibrant.presentation.table import Table
from calibrant.presentation.text import display_width, in_one_line
from calibrant.presentation.values import PLAIN

__all__ = ["as_markdown", "escaped", "grid"]

# Characters that could start markup, a table cell or an HTML tag; labels are untrusted.
SPECIAL = re.compile(r"([\\`*_{}\[\]#|~$]|^[+-](?= )|(?<=^\d)[.)](?= ))")
ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def escaped(text: str) -> str:
    r"""Escape a text for Markdown and put it on one line.

    >>> print(escaped("a|b <script>"))
    a\|b &lt;script&gt;
    """
    one_line = in_one_line(" ".join(text.split()))
    return SPECIAL.sub(r"\\\1", one_line.translate(ENTITIES))


def grid(header: Sequence[str], rows: Iterable[Sequence[str]], is_numeric: Sequence[bool]) -> str:
    """Return a table of escaped cells, aligned so that it can be read in a terminal.

    >>> print(grid(["data", "loss"], [["iris", "0.12"], ["car", "10.30"]], [False, True]))
    | data |  loss |
    |------|------:|
    | iris |  0.12 |
    | car  | 10.30 |
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(3, *map(display_width, column)) for column in zip(*lines, strict=True)]

    def line_of(cells: Sequence[str]) -> str:
        padded = []
        for cell, width, numeric in zip(cells, widths, is_numeric, strict=True):
            room = " " * (width - display_width(cell))
            padded.append(f"{room}{cell}" if numeric else f"{cell}{room}")
        return f"| {' | '.join(padded)} |"

    rule = "|".join(
        f"{'-' * (width + 1)}{':' if numeric else '-'}"
        for width, numeric in zip(widths, is_numeric, strict=True)
    )
    return "\n".join([line_of(lines[0]), f"|{rule}|", *map(line_of, lines[1:])])


def as_markdown(content: Document | Section | Block, level: int = 1) -> str:
    """Return a document, a section or a block as Markdown; ``level`` is that of the next heading."""
    match content:
        case Document():
            title = f"{'#' * level} {escaped(content.title)}"
            return _joined(title, *(as_markdown(section, level + 1) for section in content.sections)) + "\n"
        case Section():
            source = f" ({escaped(content.source)})" if content.source else ""
            title = f"{'#' * level} {escaped(content.title)}{source}"
            return _joined(title, *(as_markdown(block, level + 1) for block in content.blocks))
        case Paragraph():
            return _paragraph(content)
        case Bullets():
            return "\n".join(f"- {_paragraph(item)}" for item in content.items)
        case Code():
            title = f"{escaped(content.title)}:" if content.title else ""
            lines = (f"    {in_one_line(line)}".rstrip() for line in content.text.splitlines())
            return _joined(title, "\n".join(lines))
        case Facts():
            title = f"{'#' * level} {escaped(content.title)}" if content.title else ""
            facts = (f"- **{escaped(term)}**: {escaped(text)}" for term, text in content.entries)
            return _joined(title, "\n".join(facts))
        case Table():
            return _table(content)
        case Figure():
            return _figure(content, level)
        case SideBySide():
            return _joined(*(as_markdown(block, level) for block in content.blocks))
        case OnPage():
            return _joined(*(as_markdown(block, level) for block in content.otherwise))


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _paragraph(paragraph: Paragraph) -> str:
    opening = f"**{escaped(paragraph.opening)}** " if paragraph.opening else ""
    text = escaped(paragraph.text)
    return f"**{text}**" if paragraph.role == "headline" else f"{opening}{text}"


def _table(table: Table) -> str:
    """Return a table with its definitions and notes; the caption is left to headings."""
    header = [escaped(column.heading) for column in table.columns]
    rows = []
    for row in table.lines:
        cells = [escaped(cell.line(PLAIN)) for cell in row]
        rows.append([f"**{text}**" if cell.is_best else text for text, cell in zip(cells, row, strict=True)])
    lines = grid(header, rows, [column.is_numeric for column in table.columns])
    definitions = "\n".join(f"- *{escaped(term)}*: {escaped(text)}" for term, text in table.definitions)
    return _joined(lines, definitions, *map(escaped, table.notes))


def _figure(figure: Figure, level: int) -> str:
    title = f"{'#' * level} {escaped(figure.caption)}"
    if figure.path:
        return _joined(title, f"![{escaped(figure.caption)}]({figure.path})", escaped(figure.note))
    if figure.table is None:
        return ""
    return _joined(title, escaped(figure.note), escaped(figure.definition), _table(figure.table))
