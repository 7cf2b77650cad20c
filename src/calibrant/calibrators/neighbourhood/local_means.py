"""LocalMeans: averages over the neighbourhood of a prediction, whatever a neighbourhood is."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from calibrant.arrays import Matrix

__all__ = ["LocalMeans"]


class LocalMeans(ABC):
    """Weighted means of what is known at calibration points, in the neighbourhood of any prediction.

    Attributes
    ----------
    block_rows : int
        How many predictions to ask about at once, so that temporaries stay small.
    numbers_per_row : int
        How many numbers the answer for one prediction takes, for whoever decides whether threads pay.
    splits_rows : bool
        Whether to ask from several threads, each with rows of its own. If not, :meth:`means` may use threads itself.
    """

    block_rows: int
    numbers_per_row: int = 1000
    splits_rows: bool = True

    @abstractmethod
    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        """Yield for every size of the neighbourhood, in the order given, the means around some predictions, (m, K).

        Rows without any neighbour are NaN. Several threads may ask at once.
        """
