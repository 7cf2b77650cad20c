"""Log-odds of classes, exact also where probabilities round to one."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from calibrant.numerics.row_blocks import row_blocks
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["LogOdds"]

Vector = NDArray[np.float64]


class LogOdds:
    """Log-odds of the predicted class and of any class, (n,), in O(nK) once and O(n) for each class."""

    def __init__(self, predictions: Predictions) -> None:
        self._predictions = predictions
        self._total = np.empty(predictions.n_rows)  # sum of a row; for logits the logarithm of their sum
        self.of_predicted = np.empty(predictions.n_rows)
        for rows in row_blocks(*predictions.scores.shape):
            block = predictions.scores[rows].astype(np.float64)
            top = (np.arange(len(block)), predictions.predicted[rows])
            largest = block[top]
            # One minus a probability near one is rounding; the sum of the others is not.
            if predictions.space is Space.LOGITS:
                self._total[rows] = logsumexp(block, axis=1)
                block[top] = -np.inf
                self.of_predicted[rows] = largest - logsumexp(block, axis=1)
            else:
                self._total[rows] = block.sum(axis=1)
                block[top] = 0.0
                others = np.maximum(block.sum(axis=1), predictions.floor)
                self.of_predicted[rows] = np.log(largest) - np.log(others)

    def of_class(self, k: int) -> Vector:
        """Return the log-odds of column k, (n,)."""
        scores = self._predictions.scores[:, k].astype(np.float64)
        if self._predictions.space is Space.LOGITS:
            logarithm = scores - self._total
        else:
            logarithm = np.log(np.maximum(scores, self._predictions.floor) / self._total)
        top = self._predictions.predicted == k
        logarithm[~top] -= np.log1p(-np.exp(logarithm[~top]))
        logarithm[top] = self.of_predicted[top]
        return logarithm
