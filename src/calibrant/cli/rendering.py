"""Result of a command, and its text as terminal table, JSON, CSV, Markdown or LaTeX."""

import csv
import json
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any, Self

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calibrant.cli.console import printed
from calibrant.persistence.replacing import replacing
from calibrant.presentation import Cell, Column, as_latex, decimals, to_plain
from calibrant.presentation import Table as PresentedTable
from calibrant.presentation.text import CONTROL, in_one_line
from calibrant.remedies import for_command_line

__all__ = [
    "FORMATS",
    "Columns",
    "Result",
    "Section",
    "deliver",
    "interval_header",
    "interval_text",
    "number_text",
]


Columns = Mapping[str, str | Callable[[Any], str]]
"""Header of a column -> the entry of a record that it shows, or a function of the record."""


@dataclass(frozen=True)
class Section:
    """One table."""

    name: str  # Name of the table in JSON
    headers: tuple[str, ...]  # Column headers as shown
    rows: Sequence[tuple[str, ...]]  # Cells as shown
    records: Sequence[dict[str, Any]]  # The same rows with full precision, for JSON and CSV
    text_columns: tuple[int, ...] = (0,)  # Indices of left-aligned text columns; the others are right-aligned

    @classmethod
    def of(
        cls,
        name: str,
        columns: Columns,
        records: Sequence[dict[str, Any]],
        text_columns: tuple[int, ...] = (0,),
        shown: int | None = None,
    ) -> Self:
        """Return a table of records, of which the first ``shown`` are shown."""
        rows = [
            tuple(_cell(record[of]) if isinstance(of, str) else of(record) for of in columns.values())
            for record in records[:shown]
        ]
        return cls(name, tuple(columns), rows, records, text_columns)


@dataclass(frozen=True)
class Result:
    """Result of a command."""

    heading: str  # One line that describes the input
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()  # Sentences below the tables
    facts: dict[str, Any] = field(default_factory=dict)  # Further entries of the JSON output


WIDTH = 80
WIDEST = 100


def deliver(result: Result, format_name: str, output: Path | None) -> None:
    """Print a result, or write it to a file; an existing file is replaced only once the new one is complete."""
    result = replace(result, notes=tuple(for_command_line(sentence) for sentence in result.notes))
    if output is not None:
        with replacing(output) as stream:
            stream.write(FORMATS[format_name](result).encode())
        return
    in_terminal = sys.stdout.isatty()
    if format_name == "table" and in_terminal:
        width = min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDEST)
        printed(_table_text(result, width, in_colour="NO_COLOR" not in os.environ), nl=False, raw=True)
    else:
        # Programs get names unchanged, terminals get them escaped.
        printed(FORMATS[format_name](result), nl=False, raw=format_name == "csv" and not in_terminal)


def _cleaned(result: Result) -> Result:
    """Return a result with control characters in names escaped."""
    sections = tuple(
        replace(
            section,
            headers=tuple(map(in_one_line, section.headers)),
            rows=[tuple(map(in_one_line, row)) for row in section.rows],
        )
        for section in result.sections
    )
    return replace(
        result,
        heading=in_one_line(result.heading),
        sections=sections,
        notes=tuple(map(in_one_line, result.notes)),
    )


def _as_table(result: Result) -> str:
    return _table_text(result, WIDTH)


def _table_text(result: Result, width: int, in_colour: bool = False) -> str:
    """Return the heading, tables without borders, and notes."""
    result = _cleaned(result)
    stream = StringIO()
    console = Console(
        file=stream,
        width=width,
        highlight=False,
        force_terminal=in_colour,
        color_system="standard" if in_colour else None,
        legacy_windows=False,
    )
    console.print(Text(result.heading, style="bold"))
    for section in result.sections:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1), show_edge=False)
        for number, header in enumerate(section.headers):
            words = number in section.text_columns
            table.add_column(
                Text(header), justify="left" if words else "right", no_wrap=not words, overflow="fold"
            )
        for row in section.rows:
            table.add_row(*map(Text, row))
        console.print()
        console.print(table)
    if result.notes:
        console.print()
    for sentence in result.notes:
        console.print(Text(textwrap.fill(sentence, width, break_long_words=False, break_on_hyphens=False)))
    # Cells are padded with spaces, which would be copied with the lines.
    return re.sub(r" +$", "", stream.getvalue(), flags=re.MULTILINE)


def _as_markdown(result: Result) -> str:
    result = _cleaned(result)
    parts = [f"{result.heading}\n"]
    for section in result.sections:
        rule = ["---" if number in section.text_columns else "---:" for number in range(len(section.headers))]
        lines = [section.headers, rule, *section.rows]
        parts.append("".join(f"| {' | '.join(_escaped(cell) for cell in line)} |\n" for line in lines))
    if result.notes:
        parts.append("".join(f"- {sentence}\n" for sentence in result.notes))
    return "\n".join(parts)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _as_json(result: Result) -> str:
    content = {
        **result.facts,
        **{section.name: list(section.records) for section in result.sections},
        "notes": list(result.notes),
    }
    text = (
        json.dumps(
            to_plain(content, strict=True, nan_is_null=True), indent=2, ensure_ascii=False, allow_nan=False
        )
        + "\n"
    )
    # JSON strings may contain non-ASCII characters directly or as escapes.
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _as_csv(result: Result) -> str:
    """Return all records under one header, with full precision."""
    kinds = len(result.sections) > 1
    rows = [_row(section, record, kinds) for section in result.sections for record in section.records]
    header = list(dict.fromkeys(key for row in rows for key in row))
    stream = StringIO()
    writer = csv.DictWriter(stream, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value is None else value for key, value in row.items()} for row in rows)
    return stream.getvalue()


def _row(section: Section, record: dict[str, Any], kinds: bool) -> dict[str, Any]:
    flat = {
        key: value
        for key, value in to_plain(record, strict=True, nan_is_null=True).items()
        if not isinstance(value, dict | list)
    }
    return {"kind": section.name, **flat} if kinds else flat


HYPHEN_MINUS = re.compile(r"(?<![\w-])-(?=[\d.])")
"""Sign of a negative number."""


def _as_latex(result: Result) -> str:
    """Return tables with booktabs rules, with the notes below the last one."""
    parts = []
    for section in result.sections:
        columns = tuple(
            Column(header, is_numeric=number not in section.text_columns)
            for number, header in enumerate(section.headers)
        )
        rows = tuple(tuple(Cell(HYPHEN_MINUS.sub("−", cell)) for cell in row) for row in section.rows)
        notes = result.notes if section is result.sections[-1] else ()
        parts.append(as_latex(PresentedTable(section.name, result.heading, columns, rows, notes=notes)))
    return "\n".join(parts)


FORMATS: dict[str, Callable[[Result], str]] = {
    "table": _as_table,
    "json": _as_json,
    "csv": _as_csv,
    "markdown": _as_markdown,
    "latex": _as_latex,
}


def interval_header(level: float) -> str:
    """Return the header of a column of intervals.

    >>> interval_header(0.95)
    '95 % interval'
    """
    return f"{100 * level:g} % interval"


def interval_text(record: dict[str, Any]) -> str:
    """Return the interval of a record for a table; empty if it has none."""
    low, high = number_text(record["low"]), number_text(record["high"])
    return f"{low} to {high}" if low and high else ""


def _cell(value: Any) -> str:
    return number_text(value) if value is None or isinstance(value, float) else str(value)


def number_text(value: float | None, digits: int = 4) -> str:
    """Return a number for a table: four decimals, or scientific notation if these would be zeros.

    >>> number_text(0.31234), number_text(0.000012), number_text(None), number_text(float("inf"))
    ('0.3123', '1.2e-05', '', 'inf')
    """
    if value is None or math.isnan(value):
        return ""
    return decimals(value, digits, tiny=True) if abs(value) < 1e4 else f"{value:.4g}"
