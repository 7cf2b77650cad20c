"""CalibrationMap: a known function from predicted to true class probabilities."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from calibrant.arrays import Matrix
from calibrant.errors import ParameterError

__all__ = ["CalibrationMap"]


class CalibrationMap(ABC):
    r"""A function :math:`c` from predicted to true probabilities (both on the simplex).

    .. math:: c(p) = \Pr[Y = \cdot \mid P = p]

    Maps are immutable values that can be compared, printed and combined, and are deterministic. A subclass
    implements ``_map``, which receives rows of the simplex, possibly with zeros and ones, and must return such rows.
    """

    @property
    def n_classes(self) -> int | None:
        """Number of classes the map is for; None if it accepts any."""
        return None

    def __call__(self, probabilities: Any) -> Matrix:
        """Return the true probabilities for rows of predictions, (n, K)."""
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
        """Return rows of the simplex for rows of the simplex, without changing the input."""
