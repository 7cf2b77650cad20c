"""Result: what a command found, as tables with full numbers behind them, before any format is chosen."""

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
        What its rows are, for JSON.
    headers : tuple of str
        Heads of the columns as shown.
    rows : sequence of tuples of str
        Cells as shown.
    records : sequence of dict
        The same rows with full numbers, for JSON and CSV.
    text_columns : tuple of int
        Numbers of the columns that are words, to the left; the others are to the right.
    """

    name: str
    headers: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    records: Sequence[dict[str, Any]]
    text_columns: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Result:
    """What a command found.

    Attributes
    ----------
    heading : str
        One line in words on what was looked at.
    sections : tuple of Section
    notes : tuple of str
        Sentences to be read below the tables.
    facts : dict
        What else belongs into JSON.
    """

    heading: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
