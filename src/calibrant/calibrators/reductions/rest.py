"""One class against all others: the two columns that a binary method sees."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.rest import Rest, rest_of_classes, rest_of_largest
from calibrant.numerics.row_blocks import row_blocks
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["AgainstRest"]


@dataclass(frozen=True, eq=False)
class AgainstRest:
    """Predictions of K classes, class by class against the sum of the others.

    Costs O(nK) once, and O(n) for each class; see :func:`~calibrant.numerics.rest.rest_of_classes`.

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
            rests[rows] = rest_of_classes(scores[rows], logits=self._is_logits)
        return rests
