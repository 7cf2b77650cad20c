"""The figures that a paper prints, as a file of comma-separated values."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from calibrant.errors import RecipeError

__all__ = ["PaperFigures", "read_figures"]


@dataclass(frozen=True)
class PaperFigures:
    """Numbers by row and column, as the paper prints them.

    Attributes
    ----------
    source : str
        The first comment of the file.
    labels : tuple of str
        What the rows are.
    columns : tuple of str
        Names of the columns.
    values : dict
        (row, column) -> number; nothing where the paper has none.
    """

    source: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    values: dict[tuple[tuple[str, ...], str], float]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """All rows, in the order of the paper."""
        return list(dict.fromkeys(row for row, _ in self.values))

    def value(self, row: tuple[str, ...], column: str) -> float:
        """Return one number, or NaN."""
        return self.values.get((row, column), math.nan)


def read_figures(path: Path, labels: tuple[str, ...]) -> PaperFigures:
    """Read the figures of a table whose rows have these labels.

    Lines that begin with ``#`` are comments; then come the names of the labels and of the columns, and one line for every
    row. An empty field means that the paper has no figure.

    Raises
    ------
    RecipeError
        If the file is absent or something else.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise RecipeError(
            f"the figures {path.name} cannot be read: {reason[:1].lower()}{reason[1:]}."
        ) from error
    comments, lines = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#"):
            comments.append(line.lstrip("# ").strip())
        elif line.strip():
            lines.append((number, line))
    if not lines:
        raise RecipeError(f"the figures {path.name} have no header; the first line names rows and columns.")
    parsed = list(csv.reader([line for _, line in lines]))
    header = [cell.strip() for cell in parsed[0]]
    width = len(labels)
    if tuple(header[:width]) != labels or len(header) == width:
        raise RecipeError(
            f"the figures {path.name} begin with the columns {', '.join(header[:width])}; "
            f"they should be {', '.join(labels)}, then one for every column of the table."
        )
    columns = tuple(header[width:])
    if len(set(columns)) != len(columns):
        raise RecipeError(f"the figures {path.name} name a column twice; every name may come once.")
    values: dict[tuple[tuple[str, ...], str], float] = {}
    seen = set()
    for (number, _), cells in zip(lines[1:], parsed[1:], strict=True):
        where = f"the figures {path.name}, line {number}"
        if len(cells) != len(header):
            raise RecipeError(f"{where}, have {len(cells)} fields in place of {len(header)}.")
        row = tuple(cell.strip() for cell in cells[:width])
        if row in seen:
            raise RecipeError(f"{where}, have the row {', '.join(row)} for the second time.")
        seen.add(row)
        for column, cell in zip(columns, cells[width:], strict=True):
            if cell.strip():
                values[row, column] = _number(cell.strip(), where)
    return PaperFigures(comments[0] if comments else "", labels, columns, values)


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise RecipeError(f"{where}, have {text!r} where a number should be.") from error
