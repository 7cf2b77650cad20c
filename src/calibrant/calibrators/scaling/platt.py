"""Platt scaling: a straight line through the log-odds of an event."""

from typing import Any, ClassVar, Literal

import numpy as np

from calibrant.arrays import Vector
from calibrant.calibrator import Traits
from calibrant.calibrators.parametric import EventScaling
from calibrant.graph import Event, Value
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective import Family, FeatureRows
from calibrant.options import check_choice, check_flag
from calibrant.solvers import Solution, outcome_logistic, smoothed_targets

__all__ = ["PlattScaling"]


class PlattScaling(EventScaling):
    r"""Scale and shift the log-odds of an event: logistic regression on one score.

    .. math:: \hat q = \frac{1}{1 + e^{-(a s + b)}}, \qquad s = \ln \frac{p}{1 - p}

    with a and b minimising the log-loss on the calibration set :cite:`platt1999`. More than two classes are
    calibrated one against the rest.

    Parameters
    ----------
    feature : {"log-odds", "probability"}, default="log-odds"
        The score s. On log-odds the family contains the identity and is beta calibration with a = b. With
        ``"probability"`` s is p itself, a poor family that often does harm, for comparison with programs that do so.
    smoothed_targets : bool, default=False
        Fit to Platt's targets, :math:`(N_+ + 1)/(N_+ + 2)` where the event happened and :math:`1/(N_- + 2)` where
        it did not, instead of to ones and zeros. Weights count as numbers of rows.

    Attributes
    ----------
    slope_ : float
        Fitted a, of two classes; below 1 if the classifier was over-confident. For more classes see the
        ``calibrators_`` of ``one_vs_rest_``.
    intercept_ : float
        Fitted b.
    solution_ : Solution
        How the fit went.
    one_vs_rest_ : OneVsRest
        The maps of all classes, if there are more than two.

    Notes
    -----
    A convex problem, solved to its optimum by Newton's method: O(n) per step in time and memory, a few steps.
    On log-odds and without smoothing a fit is never worse than the identity on its own rows. The slope may be
    negative, for a classifier whose scores point the wrong way.

    *Separated outcomes.* Where every row with the event has a higher score than every row without, a steeper map is
    always better and no fit exists. Then the map of the smoothed targets is taken, or the identity if that is better
    on the calibration rows; the former with a :class:`~calibrant.errors.ConvergenceWarning`.
    Log-odds are given out within the range in which probabilities of their float type are not zero.

    *What others call Platt scaling.* Platt's score is the margin of a support vector machine, unbounded, for which
    log-odds are the counterpart. The ``"sigmoid"`` of scikit-learn takes whatever the classifier gives and so
    fits to probabilities where there is no decision function: ``feature="probability", smoothed_targets=True``. The
    program of :cite:`wenger2020` fits to probabilities without smoothing, that of :cite:`kumar2019` to log-odds
    without smoothing, as here.

    *Batches.* ``partial_fit`` keeps the loss of past rows as the quadratic function that it is near the last estimate, so
    that memory is constant; see :doc:`/online`.

    Examples
    --------
    Of the rows at 90 % and at 10 % a quarter goes the other way: :math:`9^{1/2} = 3`.

    >>> fitted = PlattScaling().fit([0.9] * 4 + [0.1] * 4, [1, 1, 1, 0, 1, 0, 0, 0])
    >>> round(fitted.slope_, 6), abs(round(fitted.intercept_, 6))
    (0.5, 0.0)
    >>> fitted.predict_proba([0.9, 0.1]).round(6)
    array([[0.25, 0.75], [0.75, 0.25]])
    """

    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"platt": {}}

    structure: ClassVar[tuple[str, ...]] = ("feature",)
    _is_penalised: ClassVar[bool] = False
    slope_: float
    intercept_: float

    def __init__(
        self, feature: Literal["log-odds", "probability"] = "log-odds", smoothed_targets: bool = False
    ) -> None:
        self.feature = feature
        self.smoothed_targets = smoothed_targets

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """The identity is a line through log-odds only, and smoothed targets may prefer another to it."""
        return Traits(contains_identity=self.feature == "log-odds" and not self.smoothed_targets)

    def _check_parameters(self) -> None:
        check_choice("feature", self.feature, ("log-odds", "probability"))
        check_flag("smoothed_targets", self.smoothed_targets)

    def _event_family(self) -> Family:
        on_log_odds = self._setting("feature") == "log-odds"
        design = _line_of_log_odds if on_log_odds else _line_of_probability
        start = np.array([1.0 if on_log_odds else 0.0, 0.0])
        return Family.of_event(design, start, np.full(2, -np.inf), bias=True, contains_identity=on_log_odds)

    @property
    def _theta(self) -> Vector:
        return np.array([self.slope_, self.intercept_])

    def _set_parameters(self, theta: Vector) -> None:
        self.slope_, self.intercept_ = theta.tolist()

    def _solved(self, family: Family, rows: FeatureRows) -> Solution:
        return outcome_logistic(
            rows,
            family.map.identity(),
            family.lower(),
            bias=True,
            smoothed=bool(self.smoothed_targets),
            keep_start=family.contains_identity,
        )

    # Smoothed targets depend on the weight of all rows so far.

    def _batch_state(self, data: LabelledPredictions, n_fitted: float) -> dict[str, Any]:  # noqa: ARG002
        return {"counts": data.class_weights}

    def _faded_state(self, past: dict[str, Any], data: LabelledPredictions, kept: float) -> dict[str, Any]:
        return {"counts": past["counts"] * kept + data.class_weights}

    def _batch_rows(self, family: Family, data: LabelledPredictions, state: dict[str, Any]) -> FeatureRows:
        rows = super()._batch_rows(family, data, state)
        if not self.smoothed_targets:
            return rows
        without, with_event = smoothed_targets(*state["counts"])
        return rows.mapped(labels=lambda outcomes: np.where(outcomes > 0.5, with_event, without))


def _line_of_log_odds(event: Event) -> list[Value]:
    return [event.log_odds, event.log_odds.constant(1.0)]


def _line_of_probability(event: Event) -> list[Value]:
    return [event.probability, event.probability.constant(1.0)]
