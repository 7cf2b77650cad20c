"""One class against all others: the two columns that a binary method sees."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.row_blocks import row_blocks
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["AgainstRest"]


@dataclass(frozen=True, eq=False)
class AgainstRest:
    """Predictions of K classes, class by class against the sum of the others.

    The rest of a class is the total minus the class, except for the largest entry of a row, whose rest is
    added up from the others: where a class has nearly all of the probability, the difference would have
    lost its digits, and in float32 most confident rows would count as certain. Costs O(nK) once, and
    O(n) for each class.

    Examples
    --------
    >>> against = AgainstRest(Predictions.from_probabilities([[0.2, 0.5, 0.3], [1.0, 1e-20, 1e-20]]))
    >>> against.column(0).probabilities
    array([[8.e-01, 2.e-01], [2.e-20, 1.e+00]])
    """

    predictions: Predictions

    def column(self, column: int) -> Predictions:
        """Return two columns, the rest and this class, in the space of the predictions."""
        scores = self.predictions.scores
        own = scores[:, column]
        largest = self.predictions.predicted == column
        if self.predictions.space is Space.PROBABILITIES:
            rest = np.where(largest, self._rest_of_largest, self._total - own)
        else:
            # log(total - own), for an entry of at most half of the total.
            share = np.where(largest, 0.0, np.exp(np.minimum(own - self._total, 0.0)))
            rest = np.where(largest, self._rest_of_largest, self._total + np.log1p(-share))
        pair = np.column_stack([rest.astype(scores.dtype), own])
        return Predictions(pair, self.predictions.space, None, self.predictions.floor)

    def rest_of_largest(self) -> Predictions:
        """Return two columns: what the row gives to all but its largest entry, and that entry."""
        scores = self.predictions.scores
        own = scores[np.arange(len(scores)), self.predictions.predicted]
        pair = np.column_stack([self._rest_of_largest.astype(scores.dtype), own])
        return Predictions(pair, self.predictions.space, None, self.predictions.floor)

    @cached_property
    def _total(self) -> NDArray[np.float64]:
        """Sum of every row, (n,); in logits its logarithm."""
        scores = self.predictions.scores
        own = scores[np.arange(len(scores)), self.predictions.predicted].astype(np.float64)
        if self.predictions.space is Space.PROBABILITIES:
            return own + self._rest_of_largest
        return np.logaddexp(own, self._rest_of_largest)

    @cached_property
    def _rest_of_largest(self) -> NDArray[np.float64]:
        """Sum of all entries of a row but the largest, (n,); in logits its logarithm."""
        scores, predicted = self.predictions.scores, self.predictions.predicted
        rest = np.empty(len(scores))
        logits = self.predictions.space is Space.LOGITS
        for rows in row_blocks(len(scores), scores.shape[1]):
            others = scores[rows].astype(np.float64)
            others[np.arange(len(others)), predicted[rows]] = -np.inf if logits else 0.0
            if logits:
                second = others.max(axis=1)
                rest[rows] = second + np.log(np.exp(others - second[:, np.newaxis]).sum(axis=1))
            else:
                rest[rows] = others.sum(axis=1)
        return rest
