"""Result of a command: tables with full-precision records, before formatting."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Result", "Section"]


@dataclass(frozen=True)
class Section:
    """One table.

    Attributes
    ----------
    name : str
        Name of the table in JSON.
    headers : tuple of str
        Column headers as shown.
    rows : sequence of tuples of str
        Cells as shown.
    records : sequence of dict
        The same rows with full precision, for JSON and CSV.
    text_columns : tuple of int
        Indices of left-aligned text columns; the others are right-aligned.
    """

    name: str
    headers: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    records: Sequence[dict[str, Any]]
    text_columns: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Result:
    """Result of a command.

    Attributes
    ----------
    heading : str
        One line that describes the input.
    sections : tuple of Section
    notes : tuple of str
        Sentences below the tables.
    facts : dict
        Further entries of the JSON output.
    """

    heading: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
