"""ConfusionChange: confusion matrices before and after calibration."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions

__all__ = ["ConfusionChange"]


@dataclass(frozen=True, eq=False)
class ConfusionChange:
    """Two confusion matrices of the same rows.

    Attributes
    ----------
    before, after : ndarray of shape (K, K)
        Weight of rows by true class (rows) and predicted class (columns).

    Examples
    --------
    >>> data = LabelledPredictions.parse([[0.6, 0.4], [0.3, 0.7]], [1, 1])
    >>> change = ConfusionChange.of(data, Predictions.from_probabilities([[0.4, 0.6], [0.2, 0.8]]))
    >>> change.change
    array([[ 0., 0.], [-1., 1.]])
    """

    before: Matrix
    after: Matrix

    @classmethod
    def of(cls, data: LabelledPredictions, calibrated: Predictions) -> Self:
        """Compute both confusion matrices from predictions before and after calibration."""
        return cls(_confusion(data, data.predictions.predicted), _confusion(data, calibrated.predicted))

    @property
    def change(self) -> Matrix:
        """Difference after minus before, (K, K); rows sum to zero, since true classes are the same."""
        return self.after - self.before

    @property
    def accuracy(self) -> tuple[float, float]:
        """Accuracy before and after calibration."""
        total = self.before.sum()
        return float(np.trace(self.before) / total), float(np.trace(self.after) / total)


def _confusion(data: LabelledPredictions, predicted: NDArray[Any]) -> Matrix:
    size = data.n_classes
    counts = np.bincount(data.labels * size + predicted, data.weights, minlength=size * size)
    return counts.reshape(size, size).astype(np.float64)
