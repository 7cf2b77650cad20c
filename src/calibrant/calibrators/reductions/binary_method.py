"""Base of binary methods: a map of the probability of one event, and one-vs-rest for more classes."""

from abc import abstractmethod
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from calibrant.arrays import Vector
from calibrant.batches import Part, Summary, learn_batch, learn_rows
from calibrant.calibrator import Calibrator
from calibrant.calibrators.reductions.event_scores import AgainstRest, EventScores, binary_problem
from calibrant.calibrators.reductions.one_vs_rest import OneVsRest
from calibrant.graph import Event, TracedPredictions
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import gathered
from calibrant.objective.source import RowSource
from calibrant.predictions import read_only

__all__ = ["BinaryMethod", "EventCounts", "OneVsRestBatches"]


def _is_fitted_by_event(method: "BinaryMethod") -> bool:
    """Return whether a fit consists of fits of single events; a method with a fit of its own needs all rows at once."""
    return type(method)._fit is BinaryMethod._fit


class BinaryMethod(Calibrator):
    """Base of methods for two classes; abstract.

    For two classes the event is the second class. For more, ``one_vs_rest_`` holds a :class:`~calibrant.OneVsRest` of
    this method, whose ``calibrators_`` have the fitted attributes.
    """

    one_vs_rest_: OneVsRest

    def __getattr__(self, name: str) -> Any:
        """Raise an error that names ``one_vs_rest_`` for fitted attributes of more than two classes."""
        where = ""
        if name.endswith("_") and not name.startswith("_") and "one_vs_rest_" in vars(self):
            where = f"; with more than two classes see one_vs_rest_.calibrators_[k].{name}"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{where}")

    @abstractmethod
    def _fit_event(self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None) -> None:
        """Fit the map; both outcomes occur."""

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

    @available_if(_is_fitted_by_event)  # type: ignore[untyped-decorator]
    def fit_rows(self, source: RowSource) -> Self:
        """Fit rows that need not be in memory; see :meth:`calibrant.TemperatureScaling.fit_rows`.

        Methods without a formula, such as isotonic regression, hold the scores of one class at a time in memory.
        """
        return self._fit_from(source, self._fit_source)

    def _fit_source(self, source: RowSource) -> None:
        self._check_parameters()
        source = source.with_counting_weights()
        if source.n_classes == 2:
            self._fit_event_source(source)
        else:
            several = OneVsRest(clone(self))
            self.one_vs_rest_ = several._fit_from(source, several._fit_source, warn_of_absent=False)

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


class EventCounts(Summary):
    """Counts and the like: what the method itself makes of the rows of one event."""

    def condense(self, calibrator: Any, data: LabelledPredictions, n_rows: float, *, sampled: bool) -> None:  # noqa: ARG002
        scores = EventScores(data.predictions)
        calibrator.memory_ = calibrator._event_memory(scores, data.labels == 1, data.weights, n_rows)

    def update(self, calibrator: Any, data: LabelledPredictions, kept: float, n_rows: float) -> None:
        scores = EventScores(data.predictions)
        calibrator._update_event(scores, data.labels == 1, data.weights, kept, n_rows)


class OneVsRestBatches(Summary):
    """Summary of one event for two classes, and one summary per class, one-vs-rest, for more.

    The column of a class without rows so far is not changed, while an ordinary fit would exclude that class from the
    rest of the others.
    """

    def __init__(self, of_event: Summary) -> None:
        self.of_event = of_event

    def condense(self, calibrator: Any, data: LabelledPredictions, n_rows: float, *, sampled: bool) -> None:
        if data.n_classes == 2:
            self.of_event.condense(calibrator, data, n_rows, sampled=sampled)
            return
        maps = calibrator.one_vs_rest_.calibrators_ if calibrator.present_columns_ is None else None
        against = AgainstRest(data.predictions)
        calibrators = []
        with gathered(data.n_classes, "one-vs-rest fit"):
            for column in range(data.n_classes):
                binary = binary_problem(against.column(column), data.labels == column, data.weights)
                if maps is None:
                    learnt = clone(calibrator)
                    learn_rows(learnt, binary, n_rows)
                else:
                    learnt = maps[column]
                    self.of_event.condense(learnt, binary, n_rows, sampled=sampled)
                calibrators.append(learnt)
        calibrator.present_columns_ = None
        _set_maps(calibrator, data, calibrators, {"rows": 0.0, "harm": 0.0}, 1.0, n_rows)

    def update(self, calibrator: Any, data: LabelledPredictions, kept: float, n_rows: float) -> None:
        if data.n_classes == 2:
            self.of_event.update(calibrator, data, kept, n_rows)
            return
        against = AgainstRest(data.predictions)
        calibrators = []
        with gathered(data.n_classes, "one-vs-rest update"):
            for column, of_class in enumerate(calibrator.one_vs_rest_.calibrators_):
                learnt = copy(of_class)
                binary = binary_problem(against.column(column), data.labels == column, data.weights)
                learn_batch(learnt, binary, kept)
                calibrators.append(learnt)
        _set_maps(calibrator, data, calibrators, calibrator.memory_, kept, n_rows)

    def check(self, calibrator: Any) -> None:
        self.of_event.check(calibrator)

    def parts(self, calibrator: Any) -> list[Any]:
        several = vars(calibrator).get("one_vs_rest_")
        return [] if several is None else list(several.calibrators_)

    def fit_rows(self, calibrator: Any, data: LabelledPredictions, *, sampled: bool) -> None:
        self.of_event.fit_rows(calibrator, data, sampled=sampled)

    def refitted(self, calibrator: Part, sample: LabelledPredictions) -> Part:
        return self.of_event.refitted(calibrator, sample)

    def degrees_of_freedom(self, calibrator: Any, n_approximate: int, n_rows: float) -> float:
        return self.of_event.degrees_of_freedom(calibrator, n_approximate, n_rows)

    def n_approximate(self, calibrator: Any, n_classes: int) -> int:
        return self.of_event.n_approximate(calibrator, n_classes)


def _set_maps(
    calibrator: Any,
    data: LabelledPredictions,
    calibrators: list[Any],
    memory: dict[str, Any],
    kept: float,
    n_rows: float,
) -> None:
    """Combine the maps of all classes, and compare their loss with that of the identity."""
    together = OneVsRest(clone(calibrator))
    together._set_inputs(data)
    together.classes_, together.floor_ = calibrator.classes_, calibrator.floor_
    together.space_, together.column_names_ = calibrator.space_, None
    together.calibrators_ = list(calibrators)
    together.identity_kept_ = False
    harm = 0.0
    if calibrator.traits.contains_identity:
        mapped = data.row_losses("log", together._transform(data.predictions))
        unmapped = data.row_losses("log", data.predictions.without_zeros())
        harm = memory["harm"] * kept + float(np.average(mapped - unmapped, weights=data.weights)) * (
            data.total_weight
        )
        together.identity_kept_ = harm > 0
    calibrator.one_vs_rest_ = together
    calibrator.memory_ = {"rows": float(n_rows), "harm": harm}
