"""Keep the rows of a file in which no score is missing."""

from collections.abc import Sequence

import numpy as np

from calibrant.presentation.sentences import counted
from calibrant.tables.source import Batch

__all__ = ["CompleteRows", "dropped_sentence"]


class CompleteRows:
    """Function that returns the rows of a batch in which no score is missing, and counts the others.

    Parameters
    ----------
    columns : sequence of str
        The score columns.

    Attributes
    ----------
    n_dropped : int
        Number of rows left out so far.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns, self.n_dropped = tuple(columns), 0

    def __call__(self, batch: Batch) -> Batch:
        """Return the complete rows of a batch."""
        missing = np.zeros(batch.n_rows, bool)
        for name in self._columns:
            missing |= batch.missing_numbers(name)
        self.n_dropped += int(missing.sum())
        return batch.take(~missing) if missing.any() else batch

    @property
    def note(self) -> str | None:
        """Sentence on the rows that were left out; None if there are none."""
        return dropped_sentence(self.n_dropped) if self.n_dropped else None


def dropped_sentence(n_rows: int) -> str:
    """Return a sentence on rows with a missing value.

    >>> dropped_sentence(2)
    '2 rows with a missing value were dropped.'
    """
    return f"{counted(n_rows, 'row')} with a missing value {'was' if n_rows == 1 else 'were'} dropped."
