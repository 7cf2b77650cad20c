"""Platt scaling: a linear map of the log-odds of an event."""

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
    r"""Platt scaling: logistic regression on the log-odds of an event.

    .. math:: \hat q = \frac{1}{1 + e^{-(a s + b)}}, \qquad s = \ln \frac{p}{1 - p}

    with a and b minimising the log-loss on the calibration set :cite:`platt1999`. More than two classes are
    calibrated one-vs-rest.

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
        Result of the solver.
    one_vs_rest_ : OneVsRest
        The maps of all classes, if there are more than two.

    Notes
    -----
    A convex problem, solved to its optimum by Newton's method: O(n) per step in time and memory, a few steps.
    On log-odds and without smoothing the training loss never exceeds that of the uncalibrated predictions. The slope is
    negative if the order of the scores is inverted.

    *Separated outcomes.* If the scores separate the two outcomes, no maximum-likelihood fit exists. Then the smoothed targets
    are fitted, with a :class:`~calibrant.errors.ConvergenceWarning`, or the identity is kept if its training loss is lower.
    Log-odds are clipped to the range in which probabilities of their float type are not zero.

    *Variants.* Platt's score is the unbounded margin of a support vector machine, to which log-odds correspond. The
    ``"sigmoid"`` of scikit-learn uses any output of the classifier, and so fits to probabilities if there is no
    decision function: ``feature="probability", smoothed_targets=True``. The program of :cite:`wenger2020` fits to
    probabilities without smoothing, that of :cite:`kumar2019` to log-odds without smoothing, as here.

    *Batches.* ``partial_fit`` keeps a quadratic approximation of the loss of earlier batches, in constant
    memory; see :doc:`/online`.

    Examples
    --------
    A quarter of the rows at 90 % and at 10 % has the other outcome: :math:`9^{1/2} = 3`.

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
        """The identity is linear in log-odds only, and smoothed targets may give it a higher loss."""
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

    # Smoothed targets depend on the total weight of all rows so far.

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
