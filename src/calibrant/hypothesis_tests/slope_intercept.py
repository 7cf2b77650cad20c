"""Calibration slope and intercept: the line that would repair the log-odds, and tests of its being the identity."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, expit, ndtri

from calibrant.errors import ParameterError
from calibrant.hypothesis_tests.log_odds import LogOdds
from calibrant.hypothesis_tests.result import TestResult
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.logistic_line import LogisticLine, profile_end

__all__ = ["Coefficient", "SlopeIntercept", "calibration_slope_intercept"]

Event = Literal["auto", "positive", "confidence", "classwise"]
IntervalMethod = Literal["profile", "wald"]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Coefficient:
    """An estimate with its standard error and the ends of its confidence interval."""

    value: float
    standard_error: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"


@dataclass(frozen=True)
class SlopeIntercept:
    """The logistic recalibration of one event.

    Attributes
    ----------
    slope, intercept : Coefficient
        The line that fits best. A slope below 1 means too much confidence, above 1 too little. Where the scores
        tell hits from misses without error the slope is infinite, where all scores are equal or only one
        outcome occurs it is NaN; the intercept then is NaN.
    in_the_large : Coefficient
        Intercept with the slope fixed at 1: positive if events are more frequent than predicted.
        Infinite if only one outcome occurs.
    slope_test, in_the_large_test, joint_test : TestResult
        Likelihood-ratio tests: slope 1 with a free intercept; intercept 0 with slope 1; both at once, whose
        statistic is the sum of the other two.
    event : str
        What was predicted.
    level : float
        Confidence level of the intervals.
    n_rows : int
        Number of rows.
    """

    slope: Coefficient
    intercept: Coefficient
    in_the_large: Coefficient
    slope_test: TestResult
    in_the_large_test: TestResult
    joint_test: TestResult
    event: str
    level: float
    n_rows: int

    def __str__(self) -> str:
        return (
            f"{self.event}, {self.n_rows} rows: slope {self.slope}, p = {self.slope_test.p_value:.3g}; "
            f"in the large {self.in_the_large}, p = {self.in_the_large_test.p_value:.3g}; "
            f"both p = {self.joint_test.p_value:.3g} ({100 * self.level:g} % intervals)."
        )


@overload
def calibration_slope_intercept(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: Literal["auto", "positive", "confidence"] = "auto",
    level: float = 0.95,
    interval: IntervalMethod = "profile",
) -> SlopeIntercept: ...


@overload
def calibration_slope_intercept(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: Literal["classwise"],
    level: float = 0.95,
    interval: IntervalMethod = "profile",
) -> tuple[SlopeIntercept, ...]: ...


def calibration_slope_intercept(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: Event = "auto",
    level: float = 0.95,
    interval: IntervalMethod = "profile",
) -> SlopeIntercept | tuple[SlopeIntercept, ...]:
    r"""Fit a line to the log-odds, and test whether it is the identity.

    For an event of probability :math:`p_i`,

    .. math:: \log \frac{P(\text{event})}{1 - P(\text{event})} = a + b \log \frac{p_i}{1 - p_i}

    by maximum likelihood; calibrated predictions have the intercept a = 0 and the slope b = 1
    :cite:`cox1958,miller1991`. With the slope held at 1, a is the calibration in the large.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two. Logits, through
        ``Predictions.from_logits``, give log-odds that never saturate.
    sample_weight : array of shape (n,), optional
        How much each row matters; only ratios count. Rows are independent observations, and the likelihood is
        scaled to the effective sample size :math:`(\sum w)^2 / \sum w^2`, which is right as long as weights are
        unrelated to scores.
    kind : {"auto", "positive", "confidence", "classwise"}, default="auto"
        The event: the second class of two; the predicted class being right; or every class in turn, with one
        result each. ``"auto"`` takes the first for two classes and the second for more.
    level : float, default=0.95
        Confidence level of the intervals.
    interval : {"profile", "wald"}, default="profile"
        All values that the likelihood-ratio test does not reject, or the estimate plus and minus normal
        quantiles of its standard error: faster, symmetric, and worse for few rows.

    Returns
    -------
    SlopeIntercept
        Or a tuple of K of them for ``kind="classwise"``.

    Notes
    -----
    Probabilities of exactly 0 and 1 have no log-odds; they count as ``Predictions.floor``, half of the smallest
    positive probability that occurs. Set another with ``Predictions.from_probabilities(..., floor=...)``. One
    wrong row at the floor has much leverage, as it should.

    Newton's method on two parameters, O(n) for each of about eight steps; profile intervals take
    some hundred passes more, a few seconds for a million rows. O(nK) to read the log-odds.

    Examples
    --------
    Eighty of a hundred events at 90 % and twenty at 10 %: the log-odds should be :math:`\pm\log 4`, but are
    :math:`\pm\log 9`.

    >>> y = [1] * 80 + [0] * 20 + [1] * 20 + [0] * 80
    >>> line = calibration_slope_intercept(y, [0.9] * 100 + [0.1] * 100)
    >>> round(line.slope.value, 6), round(float(np.log(4) / np.log(9)), 6)
    (0.63093, 0.63093)
    >>> print(line)
    positive class, 200 rows: slope 0.6309 (0.4783 to 0.7945), p = 2.5e-05; in the large 0 (-0.4601 to 0.4601),
    p = 1; both p = 0.000139 (95 % intervals).
    """
    _check_options(kind, level, interval)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    if kind == "positive" and data.n_classes != 2:
        raise ParameterError(
            f"kind='positive' is for two classes, but there are {data.n_classes}; use kind='classwise'."
        )
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    weights = weights * (weights.sum() / (weights @ weights))
    log_odds = LogOdds(data.predictions)

    def line(scores: Vector, outcomes: NDArray[np.bool_], event: str) -> SlopeIntercept:
        return _line(LogisticLine(scores, outcomes, weights), event, level, interval)

    if kind == "classwise":
        return tuple(
            line(log_odds.of_class(k), data.labels == k, f"class {name}")
            for k, name in enumerate(data.classes)
        )
    if kind == "confidence" or data.n_classes != 2:
        hits = data.predictions.predicted == data.labels
        return line(log_odds.of_predicted, hits, "predicted class")
    return line(log_odds.of_class(1), data.labels == 1, "positive class")


def _line(regression: LogisticLine, event: str, level: float, interval: IntervalMethod) -> SlopeIntercept:
    """Return all estimates, intervals and tests."""
    identity = regression.log_likelihood(regression.scores)
    if regression.one_outcome:
        large, shifted, large_error = float(np.copysign(np.inf, regression.signs[0])), 0.0, np.inf
    else:
        large, shifted = regression.shift(1.0)
        mean = expit(regression.scores + large)
        information = float(regression.weights @ (mean * (1 - mean)))
        large_error = information**-0.5 if information > 0 else np.inf
    limit = regression.supremum()
    if limit is None:
        line, best, covariance = regression.best_line()
        start, steepness = line.tolist()
        intercept_error, slope_error = np.sqrt(np.diag(covariance)).tolist()
    else:
        steepness, best = limit
        start, intercept_error, slope_error = np.nan, np.inf, np.inf

    def loss_of_intercept(a: float) -> float:
        return best - regression.best(regression.scores, np.full_like(regression.scores, a), steepness)[1]

    def loss_of_slope(b: float) -> float:
        return best - regression.shift(b, 0.0 if np.isnan(start) else start)[1]

    def coefficient(value: float, error: float, loss: Callable[[float], float]) -> Coefficient:
        return Coefficient(value, error, *_interval(value, error, loss, level, interval))

    def test(name: str, null: str, gain: float, degrees: int) -> TestResult:
        statistic = max(0.0, 2 * gain)  # rounding may leave a maximum below what it contains
        described = f"likelihood-ratio test of the {name} ({event}, {degrees} degrees of freedom)"
        return TestResult(
            statistic, float(chdtrc(degrees, statistic)), described, null, len(regression.scores)
        )

    return SlopeIntercept(
        coefficient(steepness, slope_error, loss_of_slope),
        coefficient(start, intercept_error, loss_of_intercept),
        coefficient(large, large_error, lambda a: shifted - regression.log_likelihood(regression.scores + a)),
        test("calibration slope", "the calibration slope is 1", best - shifted, 1),
        test("calibration in the large", "events are as frequent as predicted", shifted - identity, 1),
        # With a single score, slope and intercept are one parameter.
        test("line", "slope 1 and intercept 0", best - identity, 1 if regression.one_score else 2),
        event,
        level,
        len(regression.scores),
    )


def _interval(
    value: float, error: float, loss: Callable[[float], float], level: float, method: IntervalMethod
) -> tuple[float, float]:
    quantile = float(ndtri((1 + level) / 2))
    if np.isnan(value) or (method == "wald" and not np.isfinite(value + error)):
        return -np.inf, np.inf  # these rows say nothing about it
    if method == "wald":
        return value - quantile * error, value + quantile * error
    allowed = quantile**2 / 2
    return profile_end(value, quantile * error, loss, allowed, -1), profile_end(
        value, quantile * error, loss, allowed, 1
    )


def _check_options(kind: Any, level: Any, interval: Any) -> None:
    if kind not in get_args(Event):
        raise ParameterError(f"kind must be 'auto', 'positive', 'confidence' or 'classwise', not {kind!r}.")
    if not (isinstance(level, float | np.floating) and 0 < level < 1):
        raise ParameterError(f"level must be a number strictly between 0 and 1, not {level!r}.")
    if interval not in get_args(IntervalMethod):
        raise ParameterError(f"interval must be 'profile' or 'wald', not {interval!r}.")
