"""Learning batch by batch for logistic regressions on features of one score."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.partial_event_fitting import Outcomes, PartialEventFitting, Vector
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.calibrators.scaling.remembered_loss import Loss, RememberedLoss, event_loss
from calibrant.solvers import Solution

__all__ = ["PartialLogistic"]


class PartialLogistic(PartialEventFitting):
    """A logistic map of one event that remembers the loss of past rows as a quadratic function; abstract."""

    solution_: Solution

    @abstractmethod
    def _features(self, scores: EventScores) -> NDArray[np.float64]:
        """Return what the parameters are multiplied by, (P, n)."""

    @abstractmethod
    def _lower_bounds(self) -> Vector:
        """Return the smallest allowed value of every parameter, (P,)."""

    @abstractmethod
    def _set_coefficients(self) -> None:
        """Set the attributes that follow from ``solution_``."""

    def _targets(self, outcomes: Outcomes, counts: Vector) -> Vector:  # noqa: ARG002
        """Return what is fitted, given the weight of all rows without and with the event."""
        return outcomes.astype(np.float64)

    def _rough_parameters(self, n_classes: int) -> int:
        return len(self._lower_bounds()) * (1 if n_classes == 2 else n_classes)

    def _event_memory(
        self, scores: EventScores, outcomes: Outcomes, weights: Vector | None, n_rows: float
    ) -> dict[str, Any]:
        counts = _counts(outcomes, weights)
        loss = self._batch_loss(scores, outcomes, weights, counts)
        remembered = RememberedLoss.of(loss, self.solution_.theta, float(counts.sum()))
        return remembered.memory(n_rows) | {"counts": counts}

    def _update_event(
        self, scores: EventScores, outcomes: Outcomes, weights: Vector | None, kept: float, n_rows: float
    ) -> None:
        batch = _counts(outcomes, weights)
        counts = self.memory_["counts"] * kept + batch
        remembered = RememberedLoss.from_memory(self.memory_).faded(kept)
        loss = self._batch_loss(scores, outcomes, weights, counts)
        self.solution_, remembered = remembered.updated(loss, float(batch.sum()), self._lower_bounds())
        self.memory_ = remembered.memory(n_rows) | {"counts": counts}
        self._set_coefficients()

    def _batch_loss(
        self, scores: EventScores, outcomes: Outcomes, weights: Vector | None, counts: Vector
    ) -> Loss:
        return event_loss(self._features(scores), self._targets(outcomes, counts), weights)


def _counts(outcomes: Outcomes, weights: Vector | None) -> Vector:
    """Return the weight of the rows without and with the event."""
    return np.bincount(outcomes, weights, minlength=2).astype(np.float64)
