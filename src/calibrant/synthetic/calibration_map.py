"""CalibrationMap: a known function from predicted to true probabilities."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ParameterError

__all__ = ["CalibrationMap", "Matrix"]

Matrix = NDArray[np.float64]


class CalibrationMap(ABC):
    r"""A function :math:`c` of the simplex into itself: what is true of the rows with a given prediction.

    .. math:: c(p) = \Pr[Y = \cdot \mid P = p]

    Maps are values: they compare, print and combine, and give the same answer to the same question. A new one
    writes ``_map``, which sees rows of the simplex with zeros and ones allowed, and must return such rows.
    """

    @property
    def n_classes(self) -> int | None:
        """Number of classes the map is for; None if it takes any."""
        return None

    def __call__(self, probabilities: Any) -> Matrix:
        """Return the true probabilities of rows with these predictions, (n, K)."""
        rows = np.asarray(probabilities, dtype=np.float64)
        if rows.ndim != 2:
            raise ParameterError(f"a calibration map takes rows of probabilities, not shape {rows.shape}.")
        if self.n_classes not in (None, rows.shape[1]):
            raise ParameterError(
                f"{type(self).__name__} is for {self.n_classes} classes, but the rows have {rows.shape[1]}; "
                "give it one parameter per class."
            )
        return self._map(rows)

    @abstractmethod
    def _map(self, rows: Matrix) -> Matrix:
        """Return rows of the simplex for rows of the simplex; do not change those given."""
