"""LocalMeans: averages over the neighbourhood of a prediction, whatever a neighbourhood is."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["LocalMeans"]

Matrix = NDArray[np.float64]


class LocalMeans(ABC):
    """Weighted means of what is known at calibration points, in the neighbourhood of any prediction.

    Attributes
    ----------
    block_rows : int
        How many predictions to ask about at once, so that temporaries stay small.
    """

    block_rows: int

    @abstractmethod
    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        """Yield for every size of the neighbourhood, in order, the means around some predictions, (m, K).

        Rows without any neighbour are NaN. Several threads may ask at once.
        """
