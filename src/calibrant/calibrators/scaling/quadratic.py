"""Quadratic scaling: an increasing quadratic function of the log-odds of an event."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays import Matrix, Vector
from calibrant.calibrator import Traits
from calibrant.calibrators.identity_check import (
    is_clearly_better_than_identity,
    is_worse_than_identity,
)
from calibrant.calibrators.parametric import EventScaling
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.calibrators.scaling.temperature_fit import bounded_steepness, event_temperature
from calibrant.graph import Event, Value
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.linear_segments import Range
from calibrant.objective import Family, QuadraticPenalty, RowSource
from calibrant.options import check_flag, check_not_negative
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, Status

__all__ = ["QuadraticScaling"]


# Least slope relative to that of temperature scaling: nearly flat, and still increasing.
LEAST_SLOPE = 1e-3
# Range of log-odds that is too narrow for a curvature; a line is fitted.
NARROW = 1e-3
LARGEST = 1e150  # log-odds whose squares are finite
ROUNDING = 1e-12  # relative difference within which two mean losses are equal


class QuadraticScaling(EventScaling):
    r"""Quadratic scaling: logistic regression on the log-odds and their square, increasing on the calibration range.

    .. math:: \hat q = \sigma(u), \qquad u = b + w_1 s + w_2 s^2, \qquad s = \ln \frac{p}{1 - p}, \qquad
              w_1 + 2 w_2 s \ge \varepsilon \quad \text{at the lowest and at the highest calibration score}

    and linear beyond these two. It is the posterior if the log-odds of each outcome are Gaussian
    :cite:`berta2026matrix`; with equal variances it is Platt scaling. With :math:`x = \beta s` at the best temperature
    :math:`1/\beta`, and :math:`u = b + v_1 x + v_2 x^2`, it minimises

    .. math:: \frac1n \Bigl[ \sum_i \ell(u_i, o_i) + \rho \bigl( b^2 + (v_1 - 1)^2 + v_2^2 \bigr) \Bigr]

    over n rows, where :math:`o_i` says whether the event happened and :math:`\ell` is the log-loss.
    More than two classes are calibrated one-vs-rest.

    Parameters
    ----------
    ridge : float, default=1.0
        Regularisation strength :math:`\rho` towards temperature scaling, in rows; 0 for none.
    monotone : bool, default=True
        Constrain the map to be increasing. False fits an unconstrained parabola, which maps higher scores to lower
        probabilities beyond its vertex.
    temperature : bool, default=True
        Shrink towards temperature scaling. False shrinks towards the identity, as with :math:`\beta = 1`.

    Attributes
    ----------
    intercept_ : float
        Fitted b for two classes; for more see the ``calibrators_`` of ``one_vs_rest_``.
    slope_ : float
        Fitted :math:`w_1`, the coefficient of the log-odds.
    curvature_ : float
        Fitted :math:`w_2`, the coefficient of their square.
    lowest_, highest_ : float
        Log-odds between which the map is a parabola; minus and plus infinity unless ``monotone``.
    temperature_ : float
        :math:`1/\beta`; 1 if the temperature fit diverges, and without ``temperature``.
    solution_ : Solution
        Result of the solver; ``theta`` are intercept, slope and curvature.
    one_vs_rest_ : OneVsRest
        The maps of all classes, if there are more than two.

    Notes
    -----
    *Monotonicity.* The slope of a parabola is linear, so it is positive on an interval if it is positive at both ends.
    In these two slopes and b the problem is convex with two lower bounds, solved to its optimum by a bounded Newton method.
    The least slope :math:`\varepsilon` is a thousandth of that of temperature scaling, so the map is order-preserving up to
    rounding, and the AUC is unchanged. If the calibration scores are nearly equal the map is linear.

    *Contains the identity*: the training log-loss never exceeds that of the uncalibrated predictions, since temperature
    scaling, or the identity, is a member of the family with zero penalty. With a positive ``ridge`` the fit is finite even if
    scores separate the outcomes.

    *Ridge.* On small calibration sets shrinkage towards the temperature is better; on large ones there is no difference. It
    also makes the fit invariant to the scale of the scores. An unconstrained parabola can be far worse than the
    uncalibrated predictions beyond the calibration scores.

    *Published.* ``QuadraticScaling(ridge=0, monotone=False)`` is the logistic regression on s and :math:`s^2` of
    :cite:`berta2026matrix`, whose program has no constraint. If scores separate the outcomes it has no optimum, and gives a
    :class:`~calibrant.errors.ConvergenceWarning`.

    Costs O(n) time per step, about ten steps including those of the temperature, and O(n) memory.

    Examples
    --------
    Predicted odds of 9, 1 and 1/9 with true odds 3, 1 and 1/27 lie on a parabola with :math:`w_1 = 1` and
    :math:`w_2 = -1 / \ln 81`, whose vertex is at the highest score.

    >>> p = np.repeat([0.9, 0.5, 0.1], 2800)
    >>> y = np.concatenate([np.arange(2800) < events for events in (2100, 1400, 100)]).astype(int)
    >>> fitted = QuadraticScaling().fit(p, y)
    >>> fitted.predict_proba([0.9, 0.5, 0.1])[:, 1].round(3)
    array([0.75 , 0.5  , 0.036])
    >>> round(fitted.slope_, 2), round(fitted.curvature_, 2)
    (1.0, -0.23)

    Beyond that score the map is linear with a small slope; the unconstrained parabola decreases:

    >>> fitted.predict_proba([0.999])[:, 1].round(2)
    array([0.75])
    >>> QuadraticScaling(monotone=False).fit(p, y).predict_proba([0.999])[:, 1].round(2)
    array([0.02])
    """

    traits = Traits(contains_identity=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"quadratic": {}}

    structure: ClassVar[tuple[str, ...]] = ("temperature",)

    intercept_: float
    slope_: float
    curvature_: float
    lowest_: float
    highest_: float
    temperature_: float
    solution_: Solution

    def __init__(self, ridge: float = 1.0, monotone: bool = True, temperature: bool = True) -> None:
        self.ridge = ridge
        self.monotone = monotone
        self.temperature = temperature

    def _check_parameters(self) -> None:
        check_not_negative("ridge", self.ridge, "the weight of the identity in rows")
        check_flag("monotone", self.monotone)
        check_flag("temperature", self.temperature)

    def _prepare(self, source: RowSource) -> None:
        log_odds = lru_cache(1)(_log_odds)  # rows in memory come again as the same object
        best = event_temperature(source, log_odds)
        steepness = bounded_steepness(best)
        if best.status is Status.AT_BOUND and not (self.monotone and self.temperature):
            steepness = 1.0  # a bad start for maps that may decrease, or are shrunk to the identity
        if not self.temperature:
            steepness = min(steepness, 1.0)  # a scale on which neither scores nor the penalty are large
        self.temperature_ = 1 / steepness if self.temperature else 1.0
        self.unit_, self.identity_loss_ = steepness, best.identity_loss
        self.lowest_, self.highest_ = -np.inf, np.inf
        if self.monotone:
            scores = source.summed(lambda data: Range.of(log_odds(data.predictions)))
            self.lowest_, self.highest_ = scores.low, scores.high

    def _parabolas(self) -> "_Parabolas":
        """Return the parabolas of log-odds on the scale of the fit."""
        unit = self._unit
        wanted = 1.0 if self._setting("temperature") else 1 / unit
        return _Parabolas.over(self.lowest_ * unit, self.highest_ * unit, LEAST_SLOPE * min(1.0, wanted))

    @property
    def _unit(self) -> float:
        # Files of version 0.1 have none.
        return float(vars(self).get("unit_", 1 / self.temperature_))

    def _event_family(self) -> Family:
        if "temperature_" not in vars(self):
            return Family.of_event(_design_of_powers, np.array([0.0, 1.0, 0.0]), np.full(3, -np.inf))
        parabolas, unit = self._parabolas(), self._unit

        def design(event: Event) -> list[Value]:
            x = (event.log_odds * unit).clip(-LARGEST, LARGEST)
            inside = x.clip(parabolas.low, parabolas.high)
            # Beyond the range the map continues along its tangent.
            return [x.constant(1.0), x, inside * (x * 2.0 - inside)]

        coefficients = parabolas.coefficients
        tempered = self._setting("temperature")
        penalised = coefficients if tempered else unit ** np.arange(3)[:, np.newaxis] * coefficients
        centre = parabolas.line(1.0 if tempered else 1 / unit)
        return Family.of_event(
            design,
            parabolas.line(1.0),
            parabolas.lower,
            mixing=parabolas.coefficients,
            penalty_in_rows=QuadraticPenalty(
                np.zeros(len(centre)), centre, self.ridge * penalised.T @ penalised
            ),
            free_direction=centre if tempered else None,
        )

    def _fit_event_source(self, source: RowSource) -> None:
        super()._fit_event_source(source)
        found = self.solution_
        if is_clearly_better_than_identity(found, source, max(-self.lowest_, self.highest_)):
            return
        if not found.loss <= found.identity_loss * (1 + ROUNDING) or is_worse_than_identity(
            source, self._transform
        ):
            # Only rounding, or scores too large for their float type, can lead here.
            identity = np.array([0.0, 1.0, 0.0])
            self.intercept_, self.slope_, self.curvature_ = identity.tolist()
            self.solution_ = replace(
                found,
                theta=identity,
                value=found.identity_loss,
                loss=found.identity_loss,
                status=Status.IDENTITY,
            )

    def _use(self, solution: Solution) -> None:
        coefficients = self._parabolas().coefficients @ solution.theta * self._unit ** np.arange(3)
        self.intercept_, self.slope_, self.curvature_ = coefficients.tolist()
        identity_loss = self.__dict__.pop("identity_loss_", np.nan)
        self.solution_ = replace(solution, theta=coefficients, identity_loss=identity_loss)

    @property
    def _theta(self) -> Vector:
        coefficients = np.array([self.intercept_, self.slope_, self.curvature_])
        parabolas = self._parabolas()
        theta = parabolas.parameters(coefficients / self._unit ** np.arange(3))
        # A slope at its bound must be restored exactly.
        return np.where(np.abs(theta - parabolas.lower) <= ROUNDING, parabolas.lower, theta)

    def _optimum(self, family: Family, data: LabelledPredictions) -> Vector:  # noqa: ARG002
        return self._theta


@dataclass(frozen=True, eq=False)
class _Parabolas:
    """Quadratic functions of scores, in parameters with lower bounds as their only constraints.

    ``coefficients`` (3, m) maps the parameters to the coefficients of 1, x and x^2. Parameters are b and the slopes at both
    ends, or b and one slope for a line, or the coefficients themselves for an unconstrained parabola.
    """

    low: float
    high: float
    coefficients: Matrix
    lower: Vector

    @classmethod
    def over(cls, low: float, high: float, least: float) -> "_Parabolas":
        """Return the parabolas with at least this slope on a range; all if the range is infinite."""
        if not np.isfinite(low):
            return cls(low, high, np.eye(3), np.full(3, -np.inf))
        reach = high - low
        if reach <= NARROW:
            return cls(low, high, np.eye(3, 2), np.array([-np.inf, least]))
        coefficients = np.array(
            [[1.0, 0.0, 0.0], [0.0, high / reach, -low / reach], [0.0, -0.5 / reach, 0.5 / reach]]
        )
        return cls(low, high, coefficients, np.array([-np.inf, least, least]))

    def line(self, slope: float) -> Vector:
        """Return the parameters of a line through the origin."""
        return self.parameters(np.array([0.0, slope, 0.0]))

    def parameters(self, coefficients: Vector) -> Vector:
        """Return the parameters of a parabola."""
        b, slope, bend = coefficients.tolist()
        if len(self.lower) == 2:
            return np.array([b, slope])
        if np.isneginf(self.lower).all():
            return np.array([b, slope, bend])
        return np.array([b, slope + 2 * bend * self.low, slope + 2 * bend * self.high])


def _log_odds(predictions: Predictions) -> Vector:
    return EventScores(predictions).log_odds


def _design_of_powers(event: Event) -> list[Value]:
    return [event.own.constant(1.0), event.log_odds, event.log_odds.function("square")]
