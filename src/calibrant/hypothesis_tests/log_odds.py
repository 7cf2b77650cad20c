"""Log-odds of classes, exact also where probabilities round to one, with finite values for zeros and ones."""

import numpy as np
from scipy.special import logsumexp

from calibrant.arrays import Vector
from calibrant.errors import PredictionError
from calibrant.numerics.row_blocks import row_blocks
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["LogOdds"]


class LogOdds:
    r"""Log-odds of the predicted class and of any class, (n,); O(nK) once and O(n) for each class.

    For given probabilities :math:`\log p_k - \log \sum_{j \ne k} p_j`. Probabilities of exactly 0 and 1 have infinite
    log-odds. They are replaced by the largest finite absolute log-odds of the event plus :math:`\log 2`, with their sign:
    twice, or half, the most extreme odds. So both ends are treated alike, and an event and its complement too. If the
    predictions have a floor, it is used instead.
    """

    def __init__(self, predictions: Predictions) -> None:
        self._predictions = predictions
        self._least = predictions.declared_floor or 0.0
        self._total = np.empty(
            predictions.n_rows
        )  # sum of a row; for logits the log of the sum of exponentials
        self._of_predicted = np.empty(predictions.n_rows)
        for rows in row_blocks(*predictions.scores.shape):
            block = predictions.scores[rows].astype(np.float64)
            top = (np.arange(len(block)), predictions.predicted[rows])
            largest = block[top]
            # One minus a probability close to one is rounding error; the sum of the others is not.
            if predictions.space is Space.LOGITS:
                self._total[rows] = logsumexp(block, axis=1)
                block[top] = -np.inf
                self._of_predicted[rows] = largest - logsumexp(block, axis=1)
            else:
                self._total[rows] = block.sum(axis=1)
                block[top] = 0.0
                self._of_predicted[rows] = self._logarithm_of_ratio(largest, block.sum(axis=1))

    def of_predicted(self) -> Vector:
        """Return the log-odds of the predicted class, (n,)."""
        return _finite(self._of_predicted, "the predicted class")

    def n_certain(self, k: int | None = None) -> int:
        """Return the number of rows with a probability of exactly 0 or 1 for class k, or for the predicted class."""
        if k is None:
            return int(np.isinf(self._of_predicted).sum())
        if self._predictions.space is Space.LOGITS or self._least > 0:
            return 0
        ruled_out = int((self._predictions.scores[:, k] == 0).sum())
        return ruled_out + int(np.isinf(self._of_predicted[self._predictions.predicted == k]).sum())

    def of_class(self, k: int, name: str) -> Vector:
        """Return the log-odds of column k, (n,); the name is for an error message."""
        scores = self._predictions.scores[:, k].astype(np.float64)
        top = self._predictions.predicted == k
        if self._predictions.space is Space.LOGITS:
            logarithm = scores - self._total
            logarithm[~top] -= np.log1p(-np.exp(logarithm[~top]))
        else:
            # If it is not the largest, it is at most half of the total, and the difference is accurate.
            logarithm = self._logarithm_of_ratio(scores, np.where(top, 1.0, self._total - scores))
        logarithm[top] = self._of_predicted[top]
        return _finite(logarithm, name)

    def _logarithm_of_ratio(self, own: Vector, others: Vector) -> Vector:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(own, self._least)) - np.log(np.maximum(others, self._least))


def _finite(log_odds: Vector, event: str) -> Vector:
    """Return log-odds with infinite values replaced by finite ones, the same for both signs."""
    finite = np.isfinite(log_odds)
    if finite.all():
        return log_odds
    if not finite.any():
        raise PredictionError(
            f"every probability of {event} is exactly 0 or 1, so there are no finite log-odds to fit a line to; use "
            "cumulative_test or spiegelhalter_test, or set a lower limit with "
            "Predictions.from_probabilities(..., floor=...)."
        )
    reach = float(np.abs(log_odds[finite]).max()) + np.log(2)
    return np.where(finite, log_odds, np.copysign(reach, log_odds))
