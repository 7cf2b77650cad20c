"""Source: a file of predictions that is open for reading, batch by batch."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from calibrant.errors import LabelError
from calibrant.space import Space
from calibrant.tables.batch import Batch
from calibrant.tables.score_columns import ScoreColumns, check_column, listed

__all__ = ["LABEL_NAMES", "Source"]

LABEL_NAMES = ("label", "labels", "y", "y_true", "target")
"""Default names of the label column."""


class Source(ABC):
    """A file of predictions that is open for reading; a context manager.

    Attributes
    ----------
    path : Path
    columns : tuple of str
        Names of all columns, or of all arrays.
    """

    path: Path
    columns: tuple[str, ...]

    @abstractmethod
    def batches(self, n_rows: int, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield all rows in batches of at most ``n_rows``, with all columns or the named ones."""

    @abstractmethod
    def score_columns(self, columns: str | None, taken: Sequence[str], space: Space) -> ScoreColumns:
        """Return the score columns: those requested, or all numeric columns without another role."""

    @abstractmethod
    def bytes_in_memory(self, columns: ScoreColumns) -> int:
        """Return the approximate size of all scores in memory, in bytes."""

    def column(self, name: str, role: str) -> str:
        """Return the name of a column, or raise an error if the file does not have it."""
        check_column(self.path, self.columns, name, role)
        return name

    def label_column(self, label: str | None) -> str:
        """Return the label column: the requested one, or the only one with a usual name."""
        if label is not None:
            return self.column(label, "label")
        found = [name for name in self.columns if name in LABEL_NAMES]
        if len(found) == 1:
            return found[0]
        raise LabelError(
            f"{self.path}: say which column has the labels; there are {listed(found or self.columns)}."
        )

    def close(self) -> None:  # noqa: B027 (nothing to close unless a file stays open)
        """Close the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
