"""SyntheticSample: rows drawn from a task, with their labels and the truth behind them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions

__all__ = ["SyntheticSample"]


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticSample:
    """Rows of a task.

    Attributes
    ----------
    predictions : Predictions
        What the classifier says, n rows of K probabilities.
    labels : ndarray of shape (n,)
        What happened: column numbers, drawn with the true probabilities.
    true_probabilities : ndarray of shape (n, K)
        What was true of each row before the label was drawn.
    """

    predictions: Predictions
    labels: NDArray[np.intp]
    true_probabilities: NDArray[np.float64]

    @property
    def labelled(self) -> LabelledPredictions:
        """Predictions and labels together, with a column for every class, drawn or not."""
        return LabelledPredictions(self.predictions, self.labels, np.arange(self.predictions.n_classes))

    def __repr__(self) -> str:
        return f"SyntheticSample({self.predictions.n_rows} rows, {self.predictions.n_classes} classes)"
