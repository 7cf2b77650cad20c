"""Rows of past predictions of one event that stand for all, in a space that does not grow."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.binned.merged_levels import KEPT_LEVELS, MOST_LEVELS, cell_starts
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["RepresentativeRows"]


@dataclass(frozen=True, eq=False)
class RepresentativeRows:
    """Different predictions of two columns, in order of their log-odds, each with the weight of the rows it stands for.

    Up to 10,000 different rows are all kept. More are cut into about 5,000 cells of equal mass along the log-odds, and the
    row in the middle of each stays. It is a row that came, not a mean: rows of the same log-odds can differ in raw logits.

    Examples
    --------
    >>> rows = RepresentativeRows.of(Predictions.from_probabilities([0.7, 0.2, 0.7]), None)
    >>> rows.predictions.scores[:, 1], rows.weights
    (array([0.2, 0.7]), array([1., 2.]))
    """

    predictions: Predictions
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, predictions: Predictions, weights: NDArray[np.float64] | None) -> Self:
        """Return what is kept of some rows; costs a sort."""
        scores, log_odds = predictions.scores, EventScores(predictions).log_odds
        weights = np.ones(len(scores)) if weights is None else weights
        order = np.lexsort((scores[:, 1], log_odds))
        # What has faded below the smallest float counts no more.
        order = order[weights[order] > 0]
        differs = (scores[order[1:]] != scores[order[:-1]]).any(axis=1)
        starts = np.flatnonzero(np.concatenate([[True], differs]))
        chosen, weights = order[starts], np.add.reduceat(weights[order], starts)
        if len(chosen) > MOST_LEVELS:
            upper = np.cumsum(weights)
            starts = cell_starts(weights, KEPT_LEVELS)
            last = np.append(starts[1:], len(chosen)) - 1
            middles = (upper[starts] - weights[starts] + upper[last]) / 2
            chosen = chosen[np.clip(np.searchsorted(upper, middles), starts, last)]
            weights = np.add.reduceat(weights, starts)
        return cls(predictions.take(chosen), weights)

    def followed_by(self, batch: "RepresentativeRows", kept: float) -> "RepresentativeRows":
        """Return what is kept of these rows, whose weights are multiplied by ``kept``, and of others."""
        own = self.predictions
        scores = np.vstack([own.scores, batch.predictions.scores])
        return self.of(
            Predictions(scores, own.space, None, own.declared_floor),
            np.concatenate([self.weights * kept, batch.weights]),
        )

    @classmethod
    def from_memory(cls, memory: dict[str, Any]) -> Self:
        """Return what :meth:`memory` stored."""
        predictions = Predictions(memory["scores"], Space(memory["space"]), None, memory["floor"])
        return cls(predictions, memory["weights"])

    def memory(self, n_rows: float) -> dict[str, Any]:
        """Return plain arrays and numbers that a file can hold."""
        return {
            "rows": float(n_rows),
            "scores": np.array(self.predictions.scores),
            "space": self.predictions.space.value,
            "floor": self.predictions.floor,
            "weights": self.weights,
        }
