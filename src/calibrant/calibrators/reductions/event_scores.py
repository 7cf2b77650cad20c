"""What is predicted of one event: its probability and log-odds, without loss of digits."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["EventScores"]

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EventScores:
    """Predictions for two classes, seen as those of one event: that the class is the second one.

    All numbers are float64, (n,). The complement is the first column as it was given, not one minus the
    second: a float32 probability of 1 beside one of 1e-12 still has finite and exact log-odds.

    Examples
    --------
    >>> scores = EventScores(Predictions.from_probabilities([[0.2, 0.8], [1e-12, 1.0]]))
    >>> scores.probability, scores.log_odds.round(3)
    (array([0.8, 1. ]), array([ 1.386, 27.631]))
    """

    predictions: Predictions

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return self.predictions.n_rows

    @cached_property
    def probability(self) -> Vector:
        """Probability of the event."""
        if self.predictions.space is Space.LOGITS:
            probability: Vector = expit(self.log_odds)
            return probability
        return self.predictions.scores[:, 1].astype(np.float64)

    @cached_property
    def log_probability(self) -> Vector:
        """Logarithm of the probability of the event, not below that of the floor for zeros."""
        return self._logarithm(1)

    @cached_property
    def log_complement(self) -> Vector:
        """Logarithm of the probability that the event does not happen, not below that of the floor."""
        return self._logarithm(0)

    @cached_property
    def log_odds(self) -> Vector:
        """Logarithm of probability over complement; finite."""
        if self.predictions.space is Space.LOGITS:
            logits = self.predictions.scores.astype(np.float64)
            difference: Vector = logits[:, 1] - logits[:, 0]
            return difference
        return self.log_probability - self.log_complement

    def with_probability(self, probability: Vector, complement: Vector | None = None) -> Predictions:
        """Return two columns in the float type of the scores: the complement, one minus the other if not given."""
        pair = np.column_stack([1 - probability if complement is None else complement, probability])
        given = self.predictions
        return Predictions(pair.astype(given.scores.dtype), Space.PROBABILITIES, given.classes)

    def with_log_odds(self, log_odds: Vector) -> Predictions:
        """Return two columns of logits in the float type of the scores.

        They stay within the range in which neither probability would be zero in that type, since the log-loss of a
        zero may be infinite.
        """
        given = self.predictions
        limit = -float(np.log(np.finfo(given.scores.dtype).tiny))
        logits = np.zeros_like(given.scores)
        logits[:, 1] = np.clip(log_odds, -limit, limit)
        return Predictions(logits, Space.LOGITS, given.classes)

    def _logarithm(self, column: int) -> Vector:
        if self.predictions.space is Space.LOGITS:
            logarithm: Vector = log_expit(self.log_odds if column else -self.log_odds)
            return logarithm
        probability = self.predictions.scores[:, column].astype(np.float64)
        return np.log(np.maximum(probability, self.predictions.floor))
