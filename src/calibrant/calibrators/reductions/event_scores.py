"""What is predicted of one event: its probability and log-odds, without loss of digits."""

from dataclasses import dataclass
from functools import cached_property

from calibrant.arrays import Vector
from calibrant.graph import Event, Value
from calibrant.graph.apply import evaluated_columns
from calibrant.predictions import Predictions

__all__ = ["EventScores"]


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
        return evaluated_columns(_probability, self.predictions)[:, 0]

    @cached_property
    def log_probability(self) -> Vector:
        """Logarithm of the probability of the event, not below that of the floor for zeros."""
        return evaluated_columns(_log_probability, self.predictions)[:, 0]

    @cached_property
    def log_complement(self) -> Vector:
        """Logarithm of the probability that the event does not happen, not below that of the floor."""
        return evaluated_columns(_log_complement, self.predictions)[:, 0]

    @cached_property
    def log_odds(self) -> Vector:
        """Logarithm of probability over complement; finite."""
        return evaluated_columns(_log_odds, self.predictions)[:, 0]


# The same functions every time, so that they are traced once.


def _probability(event: Event) -> list[Value]:
    return [event.probability]


def _log_probability(event: Event) -> list[Value]:
    return [event.log_probability]


def _log_complement(event: Event) -> list[Value]:
    return [event.log_complement]


def _log_odds(event: Event) -> list[Value]:
    return [event.log_odds]
