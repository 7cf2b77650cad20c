"""Text for terminals: aligned tables and wrapped paragraphs, with control characters escaped."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from textwrap import wrap

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
from calibrant.presentation.values import PLAIN

__all__ = ["CONTROL", "as_text", "display_width", "in_one_line", "table_lines", "visible"]

# Control characters except line ends and tabs; marks of text direction; surrogates, which cannot be printed.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

GAP = "  "
NARROWEST = 12
"""Smallest width to which a column of text is wrapped."""


def visible(text: str) -> str:
    r"""Escape control characters as in Python literals, so that a terminal does not interpret them.

    >>> visible("\x1b[31mcat\x9b")
    '\\x1b[31mcat\\x9b'
    """
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def in_one_line(text: str) -> str:
    r"""Escape control characters, including line ends and tabs, for a cell or a sentence.

    >>> in_one_line("cat\n\x07")
    'cat\\n\\x07'
    """
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def display_width(text: str) -> int:
    """Return the number of terminal columns of a text: two for wide characters, none for combining ones.

    >>> display_width("cat"), display_width("猫"), display_width("e\N{COMBINING ACUTE ACCENT}")
    (3, 2, 1)
    """
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )


def as_text(content: Document | Section | Block, width: int = 80) -> str:
    """Return a document, a section or a block as text of at most ``width`` columns, if numbers and words allow it."""
    match content:
        case Document():
            title = _heading(content.title, "=", width)
            return "\n\n".join([title, *(as_text(section, width) for section in content.sections)]) + "\n"
        case Section():
            title = f"{content.title} ({content.source})" if content.source else content.title
            return _paragraphs(
                [_heading(title, "-", width), *(as_text(one, width) for one in content.blocks)]
            )
        case Paragraph():
            return _filled(_opened(content), width)
        case Bullets():
            return "\n".join(_filled(_opened(item), width, "- ", "  ") for item in content.items)
        case Code():
            lines = [f"  {in_one_line(line)}".rstrip() for line in content.text.splitlines()]
            return "\n".join([*([f"{in_one_line(content.title)}:"] if content.title else []), *lines])
        case Facts():
            facts = (_filled(f"{term}: {text}", width, "", "  ") for term, text in content.entries)
            return "\n".join([*([f"{in_one_line(content.title)}:"] if content.title else []), *facts])
        case Table():
            return _table(content, width)
        case Figure():
            shown = "" if content.table is None else _table(content.table, width)
            return _paragraphs([_filled(f"{content.caption}. {content.note}".strip(), width), shown])
        case SideBySide():
            return _paragraphs(as_text(one, width) for one in content.blocks)
        case OnPage():
            return _paragraphs(as_text(one, width) for one in content.otherwise)


def _paragraphs(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _opened(paragraph: Paragraph) -> str:
    return f"{paragraph.opening} {paragraph.text}" if paragraph.opening else paragraph.text


def _filled(text: str, width: int, first: str = "", later: str = "") -> str:
    lines = wrap(
        in_one_line(text),
        width,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)


def _heading(title: str, line: str, width: int) -> str:
    shown = _filled(title, width)
    return f"{shown}\n{line * min(width, display_width(in_one_line(title)))}"


def _table(table: Table, width: int) -> str:
    lines = table_lines(
        [column.heading for column in table.columns],
        [[cell.line(PLAIN) for cell in row] for row in table.rows],
        [column.is_numeric for column in table.columns],
        width,
        footer=[[cell.line(PLAIN) for cell in row] for row in table.footer],
    )
    caption = [_filled(table.caption, width)] if table.caption else []
    notes = [_filled(note, width) for note in table.notes]
    return "\n".join([*caption, *lines, *notes])


def table_lines(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    is_numeric: Sequence[bool],
    width: int = 80,
    *,
    footer: Sequence[Sequence[str]] = (),
) -> list[str]:
    """Return the lines of an aligned table; columns of text are wrapped where it would be wider than ``width``.

    Numbers are never broken, so a table with many of them can be wider.

    >>> for line in table_lines(["method", "loss"], [["platt", "0.5"], ["none", "10.25"]], [False, True]):
    ...     print(line)
    method   loss
    ─────────────
    platt     0.5
    none    10.25
    """
    body = [[in_one_line(cell) for cell in row] for row in (*rows, *footer)]
    head = [in_one_line(cell) for cell in header]
    widths = [max(map(display_width, column)) for column in zip(head, *body, strict=True)]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while excess > 0:
        flexible = [place for place, one in enumerate(widths) if not is_numeric[place] and one > NARROWEST]
        if not flexible:
            break
        widest = max(flexible, key=lambda place: widths[place])
        others = [widths[place] for place in flexible if widths[place] < widths[widest]]
        step = min(excess, widths[widest] - max([NARROWEST, *others]))
        widths[widest] -= max(step, 1)
        excess -= max(step, 1)
    rule = "─" * (sum(widths) + len(GAP) * (len(widths) - 1))
    written = [_wrapped_row(row, widths, is_numeric) for row in (head, *body)]
    lines = [*written[0], rule]
    for place, row in enumerate(written[1:]):
        lines += [rule, *row] if footer and place == len(rows) else row
    return lines


def _wrapped_row(cells: Sequence[str], widths: Sequence[int], is_numeric: Sequence[bool]) -> list[str]:
    parts = [_broken(cell, width) for cell, width in zip(cells, widths, strict=True)]
    lines = []
    for place in range(max(map(len, parts))):
        line = []
        for part, width, numeric in zip(parts, widths, is_numeric, strict=True):
            text = part[place] if place < len(part) else ""
            room = " " * (width - display_width(text))
            line.append(f"{room}{text}" if numeric else f"{text}{room}")
        lines.append(GAP.join(line).rstrip())
    return lines


def _broken(text: str, width: int) -> list[str]:
    """Return a text in lines of at most ``width`` columns, broken between words if possible."""
    lines, line = [], ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if display_width(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        line = word
        while display_width(line) > width:
            taken = line
            while display_width(taken) > width and len(taken) > 1:
                taken = taken[:-1]
            if taken == line:
                break
            lines.append(taken)
            line = line[len(taken) :]
    return [*lines, line]
