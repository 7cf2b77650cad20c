"""Parametric calibrators: a method states its family once; fits, batches and intervals are functions of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.arrays import Vector
from calibrant.batches import Summary
from calibrant.calibrator import Calibrator
from calibrant.calibrators.quadratic_summary import QuadraticSummary
from calibrant.calibrators.reductions.binary_method import BinaryMethod, OneVsRestBatches
from calibrant.calibrators.reductions.event_scores import EventScores, binary_problem
from calibrant.calibrators.scaling.temperature_fit import start_temperature
from calibrant.graph import Event, TracedPredictions
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective import ArrayRows, Family, FeatureRows
from calibrant.objective.source import ArraySource, RowSource
from calibrant.solvers import Solution, bounded_newton, newton_cg, outcome_logistic

__all__ = ["EventScaling", "Parametric", "ParametricCalibrator", "as_targets"]


# In nats, before the last step. The error after it does not depend on how rows are partitioned.
TOLERANCE = 1e-13


class Parametric(ABC):
    """Base of calibrators with a family, for several classes or one event.

    A method implements :meth:`family`, and :meth:`_set_parameters` for named fitted attributes. If the family depends on
    the rows, by knots or a temperature, ``_prepare`` sets these as fitted attributes first.
    """

    solution_: Solution
    _setting: Callable[[str], Any]

    @abstractmethod
    def family(self, n_classes: int) -> Family:
        """Return the family of maps for K classes."""

    _is_penalised: ClassVar[bool] = True
    """Whether a penalty may depend on the number of rows."""

    @property
    def _theta(self) -> Vector:
        """Parameters of the fitted map."""
        return self.solution_.theta

    def _set_parameters(self, theta: Vector) -> None:  # noqa: B027 (nothing to name)
        """Set the fitted attributes that follow from the parameters."""

    def _prepare(self, source: RowSource) -> None:  # noqa: B027 (nothing to know)
        """Set the fitted attributes that the family depends on."""

    def _use(self, solution: Solution) -> None:
        self.solution_ = solution
        self._set_parameters(solution.theta)

    def _n_parameters(self, n_classes: int) -> int | None:
        """Return the number of parameters, or somewhat more; None if the loss is no likelihood."""
        family = self.family(n_classes)
        return family.n_parameters if family.loss.fisher_is_hessian else None

    # Batches

    def _batch_family(self, n_classes: int) -> Family:
        """Return the family with the penalty of later batches."""
        return self.family(n_classes)

    def _batch_state(self, data: LabelledPredictions, n_fitted: float) -> dict[str, Any]:  # noqa: ARG002
        """Return the additional state for later batches, after a fit of rows that count as ``n_fitted``."""
        return {}

    def _faded_state(self, past: dict[str, Any], data: LabelledPredictions, kept: float) -> dict[str, Any]:  # noqa: ARG002
        """Return that state after another batch."""
        return {}

    def _batch_rows(
        self,
        family: Family,
        data: LabelledPredictions,
        state: dict[str, Any],  # noqa: ARG002
    ) -> FeatureRows:
        labels = as_targets(data.labels) if family.is_event else data.labels
        return ArrayRows(family.features(data.predictions), labels, data.weights)

    def _optimum(self, family: Family, data: LabelledPredictions) -> Vector:  # noqa: ARG002
        """Return the optimal parameters of a single map for rows that were just fitted."""
        return self.solution_.theta

    def _use_batch(self, solution: Solution, data: LabelledPredictions) -> None:  # noqa: ARG002
        self._use(solution)

    def _with_batch_strengths(self, sample: LabelledPredictions) -> Self:  # noqa: ARG002
        """Return an unfitted copy with the selected regularisation strengths."""
        twin: Self = clone(self)
        return twin


class ParametricCalibrator(Parametric, Calibrator):
    r"""A parametric multi-class calibrator, :math:`\hat q = \mathrm{softmax}(u(\theta; x))`; abstract.

    The fit starts at the best temperature, ``theta = beta * identity``, and ends at the optimum of the penalised mean
    loss, or at the identity if that has a lower loss.
    """

    batches: ClassVar[Summary | None] = QuadraticSummary()

    def fit_rows(self, source: RowSource) -> Self:
        """Fit out-of-core rows, such as a memory map or batches that can be read several times.

        Parameters
        ----------
        source : RowSource
            See :class:`calibrant.objective.RowSource`.

        Examples
        --------
        >>> from calibrant import TemperatureScaling
        >>> from calibrant.objective import RowSource
        >>> batches = [([[0.9, 0.1]] * 2, [0, 0]), ([[0.9, 0.1]] * 2, [0, 1])]
        >>> round(TemperatureScaling().fit_rows(RowSource.from_batches(batches)).temperature_, 6)
        2.0
        """
        return self._fit_from(source, self._fit_source)

    def _fit(self, data: LabelledPredictions) -> None:
        self._fit_source(ArraySource(data))

    def _fit_source(self, source: RowSource) -> None:
        self._check_parameters()
        self._prepare(source)
        family = self.family(source.n_classes)
        if family.penalty_in_rows is not None:
            source = source.with_counting_weights()
        self._use(self._solved(family, source.features(family.features)))
        self.solution_.warn_unless_converged(type(self).__name__)

    def _solved(self, family: Family, rows: FeatureRows) -> Solution:
        return newton_cg(family.objective(rows), start_temperature(rows) * family.map.identity())

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        scores = self.family(given.n_classes).traced_scores(self._theta, given)
        return given.with_logits(scores, "argmax" if self.traits.keeps_argmax else None)


class EventScaling(Parametric, BinaryMethod):
    r"""A parametric binary calibrator, :math:`\hat q = \sigma(x^\top \theta)` with features x of the scores; abstract.

    More than two classes are calibrated one-vs-rest.
    """

    batches: ClassVar[Summary | None] = OneVsRestBatches(QuadraticSummary(needs_all_classes=False))

    def family(self, n_classes: int = 2) -> Family:  # noqa: ARG002
        """Return the family of one event, for any number of classes."""
        return self._event_family()

    @abstractmethod
    def _event_family(self) -> Family:
        """Return the family of one event."""

    def _fit_event(self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None) -> None:
        self._fit_event_source(ArraySource(binary_problem(scores.predictions, outcomes, weights)))

    def _fit_event_source(self, source: RowSource) -> None:
        self._prepare(source)
        family = self._event_family()
        rows = source.features(family.features, labels=as_targets)
        self._use(self._solved(family, rows))
        self.solution_.warn_unless_converged(type(self).__name__)

    def _solved(self, family: Family, rows: FeatureRows) -> Solution:
        if family.penalty_in_rows is None:
            return outcome_logistic(
                rows,
                family.map.identity(),
                family.lower(),
                bias=family.map.bias,
                keep_start=family.contains_identity,
            )
        objective = family.objective(rows)
        with objective.open():
            found = bounded_newton(
                objective.second_order, family.map.identity(), family.lower(), tolerance=TOLERANCE
            )
        return replace(found, loss=found.value - objective.penalty.value(found.theta))

    def _n_parameters(self, n_classes: int) -> int | None:
        of_event = super()._n_parameters(2)
        return None if of_event is None else of_event * (1 if n_classes == 2 else n_classes)

    def _traced_event(self, event: Event) -> Event:
        return event.with_log_odds(self._event_family().traced_log_odds(self._theta, event))


def as_targets(labels: NDArray[Any]) -> Vector:
    """Return 1 for rows of the second class and 0 for others."""
    return np.asarray(labels == 1, dtype=np.float64)
