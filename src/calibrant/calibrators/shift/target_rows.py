"""Rows of the target: predictions without labels, and how many rows each of them counts for."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import WeightError
from calibrant.options import real_array
from calibrant.predictions import Predictions

__all__ = ["TargetRows"]

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TargetRows:
    """Predictions of a classifier for rows whose labels are not known.

    Attributes
    ----------
    predictions : Predictions
    weights : ndarray of shape (n,) or None
        Positive, and one or more on average: smaller ones say which rows matter more, and do not make them fewer.
    """

    predictions: Predictions
    weights: Vector | None = None

    @classmethod
    def parse(cls, predictions: Predictions, sample_weight: Any = None) -> Self:
        """Check weights and leave rows of weight zero out.

        >>> TargetRows.parse(Predictions.parse([[0.5, 0.5]] * 3), [0, 0.1, 0.3]).weights
        array([0.5, 1.5])
        """
        if sample_weight is None:
            return cls(predictions)
        weights = real_array(sample_weight)
        if weights is None or weights.shape != (predictions.n_rows,):
            raise WeightError(
                f"sample_weight must be one number for each of {predictions.n_rows} rows; pass a flat array of "
                "that length."
            )
        if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
            raise WeightError("sample_weight must be finite, not negative and not zero for all rows.")
        kept = weights > 0
        if not kept.all():
            predictions, weights = predictions.take(kept), weights[kept]
        return cls(predictions, weights / min(float(weights.mean()), 1.0))

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return self.predictions.n_rows

    @property
    def total_weight(self) -> float:
        """How many rows they count for."""
        return float(self.n_rows if self.weights is None else self.weights.sum())

    def restricted_to(self, columns: NDArray[np.intp]) -> Self:
        """Return the rows for some of the classes, given that the true class is one of them."""
        return replace(self, predictions=self.predictions.restricted_to(columns))

    def spaced(self, n_rows: int) -> Self:
        """Return so many rows at the most, evenly spaced among all."""
        if n_rows >= self.n_rows:
            return self
        rows = np.linspace(0, self.n_rows - 1, n_rows).astype(np.intp)
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, predictions=self.predictions.take(rows), weights=weights)
