"""An event of every row, with probabilities that are exact close to zero and close to one."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.reductions import row_sums
from calibrant.numerics.row_blocks import BlockSums
from calibrant.numerics.simplex import softmax
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["Event", "exact_probabilities"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# A softmax is never zero, though its float64 may be.
LEAST_SOFTMAX = float(np.finfo(np.float64).tiny)


def exact_probabilities(predictions: Predictions, rows: slice) -> Matrix:
    """Return probabilities of some rows in float64, (b, K), from logits without a detour through float32."""
    block = predictions.scores[rows].astype(np.float64)
    return np.asarray(softmax(block), dtype=np.float64) if predictions.space is Space.LOGITS else block


@dataclass(frozen=True, eq=False)
class Event:
    """What was predicted of one event, and whether it happened.

    Attributes
    ----------
    probability, opposite : ndarray of shape (n,)
        Of the event, and of all else as the sum over the other classes: one minus a probability that rounds to
        one would be zero, also where some float32 softmax said otherwise.
    happened : ndarray of shape (n,)
    """

    probability: Vector
    opposite: Vector
    happened: NDArray[np.bool_]

    @classmethod
    def predicted_class(cls, data: LabelledPredictions) -> Self:
        """Take the predicted class being right."""
        predicted = data.predictions.predicted
        return cls(*_apart(data.predictions, predicted), predicted == data.labels)

    @classmethod
    def one_class(cls, data: LabelledPredictions, column: int) -> Self:
        """Take the class of a column."""
        columns = np.full(data.n_rows, column, dtype=np.intp)
        return cls(*_apart(data.predictions, columns), data.labels == column)

    @property
    def variance(self) -> Vector:
        """Variance of whether it happens, (n,)."""
        return self.probability * self.opposite

    @property
    def refuted(self) -> bool:
        """Whether what was certain not to happen did."""
        impossible = np.where(self.happened, self.probability, self.opposite) == 0
        return bool(impossible.any())


def _apart(predictions: Predictions, columns: NDArray[np.intp]) -> tuple[Vector, Vector]:
    """Return the probability of one column of every row, and of the others together; O(nK) in blocks of rows."""
    own, others = np.empty(predictions.n_rows), np.empty(predictions.n_rows)

    def read(rows: slice) -> int:
        block = exact_probabilities(predictions, rows)
        place = (np.arange(len(block)), columns[rows])
        own[rows] = block[place]
        block[place] = 0.0
        others[rows] = row_sums(block)
        return len(block)

    with BlockSums.over(*predictions.scores.shape) as over_all_rows:
        over_all_rows(read)
    least = LEAST_SOFTMAX if predictions.space is Space.LOGITS else 0.0
    # Rows sum to one only up to rounding, and nothing is more probable than certain.
    return np.clip(own, least, 1.0), np.clip(others, least, 1.0)
