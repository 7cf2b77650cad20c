"""SyntheticSample: rows drawn from a task, with labels and true probabilities."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions

__all__ = ["SyntheticSample"]


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticSample:
    """Rows drawn from a synthetic task.

    Attributes
    ----------
    predictions : Predictions
        Predictions of the classifier, n rows of K probabilities.
    labels : ndarray of shape (n,)
        Observed classes: column numbers, drawn from the true probabilities.
    true_probabilities : ndarray of shape (n, K)
        True probabilities of each row, from which its label was drawn.
    """

    predictions: Predictions
    labels: NDArray[np.intp]
    true_probabilities: NDArray[np.float64]

    @property
    def labelled(self) -> LabelledPredictions:
        """Predictions and labels together, with a column for every class, even if no label has it."""
        return LabelledPredictions(self.predictions, self.labels, np.arange(self.predictions.n_classes))

    def __repr__(self) -> str:
        return f"SyntheticSample({self.predictions.n_rows} rows, {self.predictions.n_classes} classes)"
