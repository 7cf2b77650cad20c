"""Batch: some consecutive rows of a file, and how their places are named to a user."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Batch"]


class Batch(ABC):
    """Some rows of a table; the columns are converted when they are asked for.

    Attributes
    ----------
    first_row : int
        Number of rows of the file that come before.
    n_rows : int
    """

    first_row: int
    n_rows: int

    @abstractmethod
    def scores(self, columns: Sequence[str]) -> NDArray[np.floating]:
        """Return these columns as finite numbers, (n, K); a PredictionError says which cell is none."""

    @abstractmethod
    def names(self, column: str) -> NDArray[Any]:
        """Return labels or groups, (n,), as text or as integers; a LabelError says which one is missing."""

    @abstractmethod
    def weights(self, column: str) -> NDArray[np.float64]:
        """Return weights, (n,); a WeightError says which one is no number of at least zero."""

    def place(self, row: int) -> str:
        """Return the place of a row of this batch, counted from one as a user does.

        Files of text add the line, and files of arrays the index.
        """
        return f"row {self.first_row + row + 1}"
