"""JSON Lines: one object per row, whose lists and objects of scores are read as several columns."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileFormatError
from calibrant.tables.cell_rows import ROWS_LOOKED_AT, CellBatch, CellRow, CellSource
from calibrant.tables.compression import estimated_rows, opened, readable, written_to
from calibrant.tables.formats import Format
from calibrant.tables.source import Batch, NoRowsError, Sink

__all__ = ["JsonLinesSink", "JsonLinesSource"]


class JsonLinesSource(CellSource):
    """A file with one JSON object per line."""

    line_word = "line"

    def __init__(self, path: Path) -> None:
        self.path = path
        names: dict[str, None] = {}
        for row in islice(self.rows(), ROWS_LOOKED_AT):
            names.update(dict.fromkeys(row.cells))
        if not names:
            raise NoRowsError(f"{path} has no rows with values; at least one is needed.")
        self.columns = tuple(names)

    def rows(self) -> Iterator[CellRow]:
        """Yield the object of every line; empty lines are skipped."""
        with opened(self.path) as stream:
            number = 0
            for line, text in enumerate(readable(stream, self.path), start=1):
                if text.strip():
                    number += 1
                    content = self._parsed(text, line)
                    yield CellRow(_flat(content), number, line, content)

    def approximate_rows(self) -> int:
        """Estimate the number of rows from the file size and the length of the first rows."""
        return estimated_rows(self.path, [len(json.dumps(row.origin)) + 1 for row in self.first_rows.rows])

    def _parsed(self, text: bytes, line: int) -> dict[str, Any]:
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(f"{self.path}: line {line} is not JSON; repair that line.") from error
        if not isinstance(content, dict):
            raise FileFormatError(
                f"{self.path}: line {line} is not a JSON object; write one object per line."
            )
        return content


def _flat(content: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of an object; those of a list or of an object inside get the names ``name.key``.

    >>> _flat({"y": "cat", "probs": [0.9, 0.1], "z": {"cat": 1}})
    {'y': 'cat', 'probs.0': 0.9, 'probs.1': 0.1, 'z.cat': 1}
    """
    cells: dict[str, Any] = {}
    for name, value in content.items():
        match value:
            case dict():
                cells.update({f"{name}.{key}": one for key, one in value.items()})
            case list():
                cells.update({f"{name}.{key}": one for key, one in enumerate(value)})
            case _:
                cells[name] = value
    return cells


class JsonLinesSink(Sink):
    """Writer of the objects of a file with new scores."""

    drops_rows = True

    def __init__(
        self,
        stream: IO[bytes],
        path: Path,
        source: JsonLinesSource,  # noqa: ARG002
        columns: Sequence[str],
        appended: bool,  # noqa: ARG002
    ) -> None:
        self._stream = written_to(stream, path)
        self._columns = tuple(columns)

    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:
        """Write one line per row."""
        assert isinstance(batch, CellBatch)
        lines = []
        for row, values in zip(batch.rows, scores.tolist(), strict=True):
            content = dict(row.origin)
            for column, value in zip(self._columns, values, strict=True):
                _set(content, column, value)
            lines.append(json.dumps(content, ensure_ascii=False))
        self._stream.write("".join(f"{line}\n" for line in lines).encode())

    def finish(self) -> None:
        """Write the end of the file."""
        self._stream.close()


def _set(content: dict[str, Any], column: str, value: float) -> None:
    """Set a cell, inside of a list or of an object if its name is that of such a cell.

    >>> content = {"probs": [0.9, 0.1]}
    >>> _set(content, "probs.1", 0.5)
    >>> _set(content, "new", 1.0)
    >>> content
    {'probs': [0.9, 0.5], 'new': 1.0}
    """
    for name, inside in content.items():
        if isinstance(inside, dict | list) and column.startswith(f"{name}."):
            key = column[len(name) + 1 :]
            copied: Any = dict(inside) if isinstance(inside, dict) else list(inside)
            copied[int(key) if isinstance(copied, list) else key] = value
            content[name] = copied
            return
    content[column] = value


JSON_LINES = Format(
    "JSON Lines",
    (".jsonl", ".ndjson"),
    JsonLinesSource,
    JsonLinesSink,
    about='`{"probs": {"cat": 0.9}}` and `{"probs": [0.9]}` are columns `probs.cat` and `probs.0`',
)
GZIP, ZSTD = (
    Format(
        f"JSON Lines compressed by {name}",
        (f".jsonl.{ending}", f".ndjson.{ending}"),
        JsonLinesSource,
        JsonLinesSink,
    )
    for name, ending in (("gzip", "gz"), ("zstd", "zst"))
)
