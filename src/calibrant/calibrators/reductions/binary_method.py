"""Binary methods: a map of the probability of one event; more than two classes go one against the rest."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.arrays import Vector
from calibrant.calibrator import Calibrator
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.calibrators.reductions.fit_source import fit_source
from calibrant.calibrators.reductions.one_vs_rest import OneVsRest
from calibrant.graph import Event, TracedPredictions
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective.source import RowSource
from calibrant.predictions import read_only

__all__ = ["BinaryMethod"]


class BinaryMethod(Calibrator):
    """What all methods for two classes share; abstract.

    For two classes the event is that the class is the second one. For more, ``one_vs_rest_`` holds a
    :class:`~calibrant.OneVsRest` of this method, and the attributes of a fit are found in its ``calibrators_``.
    """

    one_vs_rest_: OneVsRest

    def __getattr__(self, name: str) -> Any:
        """Tell where the fitted numbers are if there are more than two classes."""
        where = ""
        if name.endswith("_") and not name.startswith("_") and "one_vs_rest_" in vars(self):
            where = f"; with more than two classes see one_vs_rest_.calibrators_[k].{name}"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{where}")

    @abstractmethod
    def _fit_event(self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None) -> None:
        """Learn the map; both outcomes occur."""

    @abstractmethod
    def _traced_event(self, event: Event) -> Event:
        """Return the fitted map of one event, by ``event.with_log_odds`` or ``event.with_probability``."""

    def _fit(self, data: LabelledPredictions) -> None:
        self._check_parameters()
        data = data.with_counting_weights()
        if data.n_classes == 2:
            self._fit_event(EventScores(data.predictions), data.labels == 1, data.weights)
        else:
            self.one_vs_rest_ = OneVsRest(clone(self)).fit_labelled(data, warn_of_absent=False)

    def fit_rows(self, source: RowSource) -> Self:
        """Fit rows that need not be in memory; see :meth:`calibrant.TemperatureScaling.fit_rows`.

        Methods without a formula, such as isotonic regression, hold the scores of one class at a time in memory.
        """
        fit_source(self, source, self._fit_source)
        return self

    def _fit_source(self, source: RowSource) -> None:
        self._check_parameters()
        source = source.with_counting_weights()
        if source.n_classes == 2:
            self._fit_event_source(source)
        else:
            self.one_vs_rest_ = OneVsRest(clone(self))
            fit_source(self.one_vs_rest_, source, self.one_vs_rest_._fit_source, warn_of_absent=False)

    def _fit_event_source(self, source: RowSource) -> None:
        """Fit the map of one event to the scores of all rows."""
        first = source.first.predictions
        scores = np.empty((source.n_rows, 2), first.scores.dtype)
        for column in range(2):
            scores[:, column] = source.per_row(
                lambda data, column=column: data.predictions.scores[:, column],  # type: ignore[misc]
                scores.dtype,
            )
        outcomes = source.per_row(lambda data: data.labels == 1, np.bool_)
        weights = None
        if source.is_weighted:
            weights = source.per_row(lambda data: np.asarray(data.weights))
        self._fit_event(EventScores(replace(first, scores=read_only(scores))), outcomes, weights)

    def _mapped_event(self, event: Event) -> Event:
        return super()._mapped_event(event) if self._has_seen_one_class else self._traced_event(event)

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        if given.n_classes > 2:
            return self.one_vs_rest_._trace(given)
        return self._traced_event(given.event).predictions()
