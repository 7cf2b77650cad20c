"""Sink: a file that is written batch by batch, in the format of the one it comes from."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from calibrant.tables.batch import Batch

__all__ = ["Sink"]


class Sink(ABC):
    """Takes the batches of a source with other scores; everything else goes through as it is."""

    @abstractmethod
    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:
        """Write the rows of a batch with these scores, (n, K), in their columns."""

    @abstractmethod
    def finish(self) -> None:
        """Write what comes after the last row."""
