"""Learning batch by batch for methods that map the probability of one event."""

from abc import abstractmethod
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.calibrators.partial_fitting import PartialFitting
from calibrant.calibrators.reductions.binary_method import BinaryMethod
from calibrant.calibrators.reductions.binary_problem import binary_problem
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.calibrators.reductions.one_vs_rest import OneVsRest
from calibrant.calibrators.reductions.rest import AgainstRest
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import gathered
from calibrant.predictions import Predictions

__all__ = ["PartialEventFitting"]

Vector = NDArray[np.float64]
Outcomes = NDArray[np.bool_]


class PartialEventFitting(PartialFitting, BinaryMethod):
    """A binary method with ``partial_fit``; abstract.

    With more than two classes every class has a map, and a memory, of its own. A class that is still to come
    then leaves its column as it is, where an ordinary fit would leave that class out of the others' sum.
    """

    @abstractmethod
    def _event_memory(
        self, scores: EventScores, outcomes: Outcomes, weights: Vector | None, n_rows: float
    ) -> dict[str, Any]:
        """Return what is remembered of the rows that were just fitted."""

    @abstractmethod
    def _update_event(
        self, scores: EventScores, outcomes: Outcomes, weights: Vector | None, kept: float, n_rows: float
    ) -> None:
        """Learn from a batch and from ``memory_``, of which ``kept`` still counts."""

    def _transform(self, predictions: Predictions) -> Predictions:
        return predictions.without_zeros() if self._waits else super()._transform(predictions)

    def _condense(self, data: LabelledPredictions, n_rows: float) -> None:
        if data.n_classes == 2:
            self.memory_ = self._event_memory(
                EventScores(data.predictions), data.labels == 1, data.weights, n_rows
            )
            return
        maps = self.one_vs_rest_.calibrators_ if self.present_columns_ is None else None
        against = AgainstRest(data.predictions)
        calibrators = []
        with gathered(data.n_classes, "one-vs-rest fit"):
            for column in range(data.n_classes):
                binary = binary_problem(against.column(column), data.labels == column, data.weights)
                if maps is None:
                    learnt: PartialEventFitting = clone(self)
                    learnt._learn_rows(binary, n_rows)
                else:
                    learnt = maps[column]
                    learnt._condense(binary, n_rows)
                calibrators.append(learnt)
        self.present_columns_ = None
        self._set_maps(against, data, calibrators, {"rows": 0.0, "harm": 0.0}, 1.0, n_rows)

    def _update(self, data: LabelledPredictions, kept: float, n_rows: float) -> None:
        if data.n_classes == 2:
            self._update_event(EventScores(data.predictions), data.labels == 1, data.weights, kept, n_rows)
            return
        against = AgainstRest(data.predictions)
        calibrators = []
        with gathered(data.n_classes, "one-vs-rest update"):
            for column, calibrator in enumerate(self.one_vs_rest_.calibrators_):
                learnt: PartialEventFitting = copy(calibrator)
                binary = binary_problem(against.column(column), data.labels == column, data.weights)
                learnt.learn_batch(binary, kept)
                calibrators.append(learnt)
        self._set_maps(against, data, calibrators, self.memory_, kept, n_rows)

    def _set_maps(
        self,
        against: AgainstRest,
        data: LabelledPredictions,
        calibrators: list["PartialEventFitting"],
        memory: dict[str, Any],
        kept: float,
        n_rows: float,
    ) -> None:
        """Put the maps of all classes together, and add up whether they did more harm than doing nothing."""
        together = OneVsRest(clone(self))
        together.classes_, together.space_, together.floor_ = self.classes_, self.space_, self.floor_
        together.column_names_ = together.present_columns_ = None
        together.calibrators_ = list(calibrators)
        together.identity_kept_ = False
        harm = 0.0
        if self.traits.contains_identity:
            mapped = data.row_losses("log", together._together(against))
            unmapped = data.row_losses("log", data.predictions.without_zeros())
            harm = memory["harm"] * kept + float(np.average(mapped - unmapped, weights=data.weights)) * (
                data.total_weight
            )
            together.identity_kept_ = harm > 0
        self.one_vs_rest_ = together
        self.memory_ = {"rows": float(n_rows), "harm": harm}
