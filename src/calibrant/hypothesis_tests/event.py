"""A binary event per row, with probabilities that are exact close to zero and one."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import IntArray, Vector
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import float64_probabilities
from calibrant.numerics.reductions import row_sums
from calibrant.numerics.row_blocks import BlockSums
from calibrant.predictions import Predictions
from calibrant.presentation.sentences import class_text
from calibrant.space import Space

__all__ = ["Event", "EventKind", "chosen_event"]

EventKind = Literal["auto", "confidence", "positive"]
"""``"confidence"``: the predicted class is correct. ``"positive"``: the second class of two occurs. ``"auto"``: the latter
for two classes, the former for more."""

# A softmax is never exactly zero, although its float64 value may be.
MIN_SOFTMAX = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Event:
    """The predicted probability of one event, and whether it occurred.

    Attributes
    ----------
    probability, opposite : ndarray of shape (n,)
        Of the event, and of its complement as the sum over the other classes: one minus a probability that rounds to
        one would be zero.
    occurred : ndarray of shape (n,)
    """

    probability: Vector
    opposite: Vector
    occurred: NDArray[np.bool_]

    @classmethod
    def predicted_class(cls, data: LabelledPredictions) -> Self:
        """Use the event that the predicted class is correct."""
        predicted = data.predictions.predicted
        return cls(*_probability_and_complement(data.predictions, predicted), predicted == data.labels)

    @classmethod
    def one_class(cls, data: LabelledPredictions, column: int) -> Self:
        """Use the event that the class of this column occurs."""
        columns = np.full(data.n_rows, column, dtype=np.intp)
        return cls(*_probability_and_complement(data.predictions, columns), data.labels == column)

    @property
    def variance(self) -> Vector:
        """Variance of the outcome, p (1 - p), (n,)."""
        return self.probability * self.opposite

    @property
    def refuted(self) -> bool:
        """Whether an outcome with probability zero occurred."""
        impossible = np.where(self.occurred, self.probability, self.opposite) == 0
        return bool(impossible.any())


def _probability_and_complement(predictions: Predictions, columns: IntArray) -> tuple[Vector, Vector]:
    """Return the probability of one column of every row, and of all others together; O(nK) in blocks of rows."""
    own, others = np.empty(predictions.n_rows), np.empty(predictions.n_rows)

    def read(rows: slice) -> int:
        block = float64_probabilities(predictions, rows)
        place = (np.arange(len(block)), columns[rows])
        own[rows] = block[place]
        block[place] = 0.0
        others[rows] = row_sums(block)
        return len(block)

    with BlockSums.over(*predictions.scores.shape) as over_all_rows:
        over_all_rows(read)
    least = MIN_SOFTMAX if predictions.space is Space.LOGITS else 0.0
    # Rows sum to one only up to rounding; probabilities are capped at one.
    return np.clip(own, least, 1.0), np.clip(others, least, 1.0)


def chosen_event(data: LabelledPredictions, kind: EventKind) -> tuple[Event, str]:
    """Return the event and its name in words."""
    if kind == "positive" and data.n_classes != 2:
        raise ParameterError(
            f"kind='positive' is for two classes, but there are {data.n_classes}; use kind='confidence'."
        )
    if kind == "confidence" or data.n_classes > 2:
        return Event.predicted_class(data), "the predicted class is correct"
    return Event.one_class(data, 1), f"{class_text(data.classes[1])} occurs"
