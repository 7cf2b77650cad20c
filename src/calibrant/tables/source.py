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
"""Columns that are taken for the labels if nobody says which."""


class Source(ABC):
    """A file of predictions; a context manager that closes it.

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
        """Yield all rows from the first, at most ``n_rows`` at a time; of some columns if only those are needed."""

    @abstractmethod
    def score_columns(self, columns: str | None, taken: Sequence[str], space: Space) -> ScoreColumns:
        """Return the columns of scores: those asked for, or all numbers but the columns taken for something else."""

    @abstractmethod
    def bytes_in_memory(self, columns: ScoreColumns) -> int:
        """Return about how many bytes the scores of all rows take in memory."""

    def column(self, name: str, role: str) -> str:
        """Return the name of a column, if the file has it."""
        check_column(self.path, self.columns, name, role)
        return name

    def label_column(self, label: str | None) -> str:
        """Return the column of labels: the one asked for, or the only one with a usual name."""
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
