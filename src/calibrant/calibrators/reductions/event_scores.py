"""Predictions of one event: its probability and log-odds in full precision, also one-vs-rest."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.graph import Event, Value
from calibrant.graph.apply import evaluated_columns
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.reductions import NARROW
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.simplex import Rest, rest_of_classes, rest_of_largest
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["AgainstRest", "EventScores", "binary_problem"]


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


def binary_problem(
    predictions: Predictions, happened: NDArray[np.bool_], weights: NDArray[np.float64] | None
) -> LabelledPredictions:
    """Return predictions of two columns with labels 1 where the event happened, and 0 elsewhere.

    >>> binary_problem(Predictions.from_probabilities([0.2, 0.7]), np.array([False, True]), None).labels
    array([0, 1])
    """
    return LabelledPredictions(predictions, happened.astype(np.intp), np.arange(2), weights)


@dataclass(frozen=True, eq=False)
class AgainstRest:
    """Predictions of K classes, class by class against the sum of the others.

    Costs O(nK) once, and O(n) for each class; see :func:`~calibrant.numerics.simplex.rest_of_classes`.

    Examples
    --------
    >>> against = AgainstRest(Predictions.from_probabilities([[0.2, 0.5, 0.3], [1.0, 1e-20, 1e-20]]))
    >>> against.column(0).probabilities
    array([[8.e-01, 2.e-01], [2.e-20, 1.e+00]])
    """

    predictions: Predictions

    def column(self, column: int) -> Predictions:
        """Return two columns, the rest and this class, in the space of the predictions."""
        return self._pair(self._rests[:, column], self.predictions.scores[:, column])

    def rest_of_largest(self) -> Predictions:
        """Return two columns: the sum of all but the largest entry of the row, and that entry."""
        scores = self.predictions.scores
        parts = [rest_of_largest(scores[rows], logits=self._is_logits) for rows in row_blocks(*scores.shape)]
        joined = Rest(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        return self._pair(joined.rest, joined.largest)

    def _pair(self, rest: NDArray[np.floating], own: NDArray[np.floating]) -> Predictions:
        pair = np.column_stack([rest, own]).astype(self.predictions.scores.dtype, copy=False)
        return Predictions(pair, self.predictions.space, None, self.predictions.floor)

    @property
    def _is_logits(self) -> bool:
        return self.predictions.space is Space.LOGITS

    @cached_property
    def _rests(self) -> NDArray[np.float64]:
        """The rest of every class, (n, K)."""
        scores = self.predictions.scores
        rests = np.empty(scores.shape, order="F")
        for rows in row_blocks(*scores.shape):
            # Narrow blocks by columns, as the result is stored.
            block = np.asfortranarray(scores[rows]) if scores.shape[1] <= NARROW else scores[rows]
            rests[rows] = rest_of_classes(block, logits=self._is_logits)
        return rests
