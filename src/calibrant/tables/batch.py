"""Batch: consecutive rows of a file, with positions for error messages."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Batch"]


class Batch(ABC):
    """Consecutive rows of a table; columns are converted on request.

    Attributes
    ----------
    first_row : int
        Number of preceding rows in the file.
    n_rows : int
    """

    first_row: int
    n_rows: int

    @abstractmethod
    def scores(self, columns: Sequence[str]) -> NDArray[np.floating]:
        """Return these columns as finite numbers, (n, K); a PredictionError names the first invalid cell."""

    @abstractmethod
    def names(self, column: str) -> NDArray[Any]:
        """Return labels or groups, (n,), as text or integers; a LabelError names the first missing one."""

    @abstractmethod
    def weights(self, column: str) -> NDArray[np.float64]:
        """Return weights, (n,); a WeightError names the first that is not a non-negative number."""

    def place(self, row: int) -> str:
        """Return the position of a row of this batch in the file, counted from one.

        Text files add the line number, array files the index.
        """
        return f"row {self.first_row + row + 1}"
