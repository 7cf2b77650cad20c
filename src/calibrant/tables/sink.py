"""Sink: a file that is written batch by batch, in the format of the input."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from calibrant.tables.batch import Batch

__all__ = ["Sink"]


class Sink(ABC):
    """Writer of the batches of a source with new scores; everything else is unchanged."""

    @abstractmethod
    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:
        """Write the rows of a batch with these scores, (n, K)."""

    @abstractmethod
    def finish(self) -> None:
        """Write the end of the file."""
