"""Calibration slope and intercept: logistic recalibration of the log-odds, and tests that it is the identity."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtrc, expit, log_expit, logsumexp, ndtri, xlogy

from calibrant.arrays import Vector
from calibrant.errors import ParameterError, PredictionError
from calibrant.hypothesis_tests.result import TestResult, small_sample_caution
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import check_two_classes
from calibrant.numerics.row_blocks import row_blocks
from calibrant.options import check_level
from calibrant.predictions import Predictions
from calibrant.presentation.sentences import class_text, counted, p_text
from calibrant.remedies import USE_OTHER_TEST, USE_TEST_OF_RESIDUALS
from calibrant.space import Space

__all__ = [
    "Coefficient",
    "IntervalMethod",
    "LogOdds",
    "LogisticLine",
    "SlopeIntercept",
    "calibration_slope_intercept",
    "finite_log_odds",
    "fitted_line",
]


class LogOdds:
    r"""Log-odds of the predicted class and of any class, (n,); O(nK) once and O(n) for each class.

    For given probabilities :math:`\log p_k - \log \sum_{j \ne k} p_j`. Probabilities of exactly 0 and 1 have infinite
    log-odds. They are replaced by the largest finite absolute log-odds of the event plus :math:`\log 2`, with their sign:
    twice, or half, the most extreme odds. So both ends are treated alike, and an event and its complement too. If the
    predictions have a floor, it is used instead.
    """

    def __init__(self, predictions: Predictions) -> None:
        self._predictions = predictions
        self._least = predictions.declared_floor or 0.0
        self._total = np.empty(
            predictions.n_rows
        )  # sum of a row; for logits the log of the sum of exponentials
        self._of_predicted = np.empty(predictions.n_rows)
        for rows in row_blocks(*predictions.scores.shape):
            block = predictions.scores[rows].astype(np.float64)
            top = (np.arange(len(block)), predictions.predicted[rows])
            largest = block[top]
            # One minus a probability close to one is rounding error; the sum of the others is not.
            if predictions.space is Space.LOGITS:
                self._total[rows] = logsumexp(block, axis=1)
                block[top] = -np.inf
                self._of_predicted[rows] = largest - logsumexp(block, axis=1)
            else:
                self._total[rows] = block.sum(axis=1)
                block[top] = 0.0
                self._of_predicted[rows] = self._logarithm_of_ratio(largest, block.sum(axis=1))

    def of_predicted(self) -> Vector:
        """Return the log-odds of the predicted class, (n,)."""
        return finite_log_odds(self._of_predicted, "the predicted class")

    def n_certain(self, k: int | None = None) -> int:
        """Return the number of rows with a probability of exactly 0 or 1 for class k, or for the predicted class."""
        if k is None:
            return int(np.isinf(self._of_predicted).sum())
        if self._predictions.space is Space.LOGITS or self._least > 0:
            return 0
        ruled_out = int((self._predictions.scores[:, k] == 0).sum())
        return ruled_out + int(np.isinf(self._of_predicted[self._predictions.predicted == k]).sum())

    def of_class(self, k: int, name: str) -> Vector:
        """Return the log-odds of column k, (n,); the name is for an error message."""
        return finite_log_odds(self.with_infinities(k), name)

    def with_infinities(self, k: int | None = None) -> Vector:
        """Return the log-odds of column k, or of the predicted class, infinite for probabilities of exactly 0 and 1."""
        if k is None:
            return self._of_predicted
        scores = self._predictions.scores[:, k].astype(np.float64)
        top = self._predictions.predicted == k
        if self._predictions.space is Space.LOGITS:
            logarithm = scores - self._total
            logarithm[~top] -= np.log1p(-np.exp(logarithm[~top]))
        else:
            # If it is not the largest, it is at most half of the total, and the difference is accurate.
            logarithm = self._logarithm_of_ratio(scores, np.where(top, 1.0, self._total - scores))
        logarithm[top] = self._of_predicted[top]
        return logarithm

    def _logarithm_of_ratio(self, own: Vector, others: Vector) -> Vector:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(own, self._least)) - np.log(np.maximum(others, self._least))


def finite_log_odds(log_odds: Vector, event: str) -> Vector:
    """Return log-odds with infinite values replaced by finite ones, the same for both signs."""
    finite = np.isfinite(log_odds)
    if finite.all():
        return log_odds
    if not finite.any():
        raise PredictionError(
            f"every probability of {event} is exactly 0 or 1, so there are no finite log-odds to fit a line to; "
            f"{USE_TEST_OF_RESIDUALS}."
        )
    reach = float(np.abs(log_odds[finite]).max()) + np.log(2)
    return np.where(finite, log_odds, np.copysign(reach, log_odds))


LARGEST_NUMBER_OF_STEPS = 200


class LogisticLine:
    """Logistic regression of an outcome on one score, with the limits where there is no maximum.

    Parameters
    ----------
    scores, outcomes : arrays of shape (n,)
    weights : array of shape (n,)
        Weight of a row, or the sum of the weights of rows with this score and outcome.
    squares : array of shape (n,), optional
        Sum of the squares of these weights.
    n_rows : int, optional
        Number of rows; n by default.
    """

    def __init__(
        self,
        scores: Vector,
        outcomes: NDArray[np.bool_],
        weights: Vector,
        squares: Vector | None = None,
        n_rows: int | None = None,
    ) -> None:
        self.squares = weights**2 if squares is None else squares
        self.n_rows = len(scores) if n_rows is None else n_rows
        self.scores = scores
        self.outcomes = outcomes.astype(np.float64)
        self.signs = 2 * self.outcomes - 1
        self.weights = weights
        self.one_outcome = bool(outcomes.all() or not outcomes.any())
        self.one_score = bool(scores.min() == scores.max())

    def log_likelihood(self, linear: Vector) -> float:
        """Return the weighted log-likelihood of the outcomes at these log-odds."""
        return float(self.weights @ log_expit(self.signs * linear))

    def best(self, column: Vector, offset: Vector, start: float) -> tuple[float, float]:
        """Return the coefficient of one column that maximises the likelihood, and the maximum."""
        low, high, reach, at = -np.inf, np.inf, 1.0, start
        for _ in range(LARGEST_NUMBER_OF_STEPS):
            mean = expit(offset + at * column)
            slope = float(self.weights @ ((self.outcomes - mean) * column))
            bend = float(self.weights @ (mean * (1 - mean) * column * column))
            low, high = (at, high) if slope > 0 else (low, at)
            # Where everything is saturated Newton would leap anywhere: reach out further each time instead.
            step = slope / bend if bend * reach > abs(slope) else float(np.copysign(reach, slope))
            if slope == 0 or abs(step) <= 1e-9 * (1 + abs(at)):
                break
            at = at + step if low < at + step < high else (low + high) / 2
            reach *= 2
        return at, self.log_likelihood(offset + at * column)

    def shift(self, slope: float, start: float = 0.0) -> tuple[float, float]:
        """Return the best intercept for a given slope, and the likelihood there."""
        return self.best(np.ones_like(self.scores), slope * self.scores, start)

    def best_line(self) -> tuple[Vector, float, NDArray[np.float64]]:
        """Return intercept and slope, the maximum, and the covariance, by Newton on standardised scores."""
        centre = float(np.average(self.scores, weights=self.weights))
        spread = float(np.sqrt(np.average((self.scores - centre) ** 2, weights=self.weights)))
        columns = np.stack([np.ones_like(self.scores), (self.scores - centre) / spread])
        theta = np.zeros(2)
        value = self.log_likelihood(theta @ columns)
        for _ in range(LARGEST_NUMBER_OF_STEPS):
            mean = expit(theta @ columns)
            gradient = columns @ (self.weights * (self.outcomes - mean))
            hessian = (columns * (self.weights * mean * (1 - mean))) @ columns.T
            covariance = np.linalg.pinv(hessian, hermitian=True)
            step = covariance @ gradient
            if gradient @ step < 1e-16:  # the square of the distance from the optimum, in standard errors
                break
            while (new := self.log_likelihood((theta + step) @ columns)) < value - 1e-12 * abs(value):
                step /= 2
            theta, value = theta + step, new
        back = np.array([[1.0, -centre / spread], [0.0, 1 / spread]])
        return back @ theta, value, back @ covariance @ back.T

    def supremum(self) -> tuple[float, float] | None:
        """Return slope and likelihood in the limit where outcomes are separated; None where they overlap."""
        if self.one_outcome:
            return np.nan, 0.0
        hits, misses = self.scores[self.outcomes == 1], self.scores[self.outcomes == 0]
        if self.one_score:
            return np.nan, self.shift(0.0)[1]
        for slope, below, above in ((np.inf, misses.max(), hits.min()), (-np.inf, hits.max(), misses.min())):
            if below < above:
                return slope, 0.0
            if below == above:  # rows on the border stay undecided
                border = self.scores == below
                hit = float(self.weights @ (border * self.outcomes))
                miss = float(self.weights @ (border * (1 - self.outcomes)))
                return slope, float(xlogy(hit, hit / (hit + miss)) + xlogy(miss, miss / (hit + miss)))
        return None


Event = Literal["auto", "positive", "confidence", "classwise"]

IntervalMethod = Literal["profile", "wald"]


@dataclass(frozen=True)
class Coefficient:
    """An estimate with its standard error and confidence interval."""

    value: float
    standard_error: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"


@dataclass(frozen=True)
class SlopeIntercept:
    """Calibration slope and intercept of one event.

    Attributes
    ----------
    slope, intercept : Coefficient
        The fitted line. A slope below 1 means overconfidence, above 1 underconfidence. If the scores separate
        the outcomes perfectly the slope is infinite. If all scores are equal, or only one outcome occurs, it is
        NaN. The intercept is NaN in both cases.
    in_the_large : Coefficient
        Calibration in the large: intercept with the slope fixed at 1, positive if events are more frequent than
        predicted. Infinite if only one outcome occurs.
    slope_test, in_the_large_test, joint_test : TestResult
        Likelihood-ratio tests: slope 1 with a free intercept; intercept 0 with slope 1; both jointly, whose
        statistic is the sum of the other two.
    event : str
        The event: "predicted class", or a class with its label.
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
            f"{self.event}, {counted(self.n_rows, 'row')}: slope {self.slope}, "
            f"{p_text(self.slope_test.p_value)}; in the large {self.in_the_large}, "
            f"{p_text(self.in_the_large_test.p_value)}; both {p_text(self.joint_test.p_value)} "
            f"({100 * self.level:g} % intervals)."
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
    r"""Calibration slope and intercept (Cox recalibration): logistic regression of an event on its log-odds.

    For an event of probability :math:`p_i`,

    .. math:: \log \frac{P(\text{event})}{1 - P(\text{event})} = a + b \log \frac{p_i}{1 - p_i}

    by maximum likelihood. Calibrated predictions have the intercept a = 0 and the slope b = 1
    :cite:`cox1958,miller1991`. With the slope fixed at 1, a is the calibration in the large.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two. Pass logits through
        ``Predictions.from_logits`` for log-odds that never saturate.
    sample_weight : array of shape (n,), optional
        Importance of each row; only ratios matter. Rows are independent observations, whatever their weight; see
        the notes for intervals and tests.
    kind : {"auto", "positive", "confidence", "classwise"}, default="auto"
        The event: the second class of two; the predicted class being correct; or every class in turn, with one
        result each. ``"auto"`` is the first for two classes and the second for more.
    level : float, default=0.95
        Confidence level of the intervals.
    interval : {"profile", "wald"}, default="profile"
        Profile-likelihood intervals, or Wald intervals (estimate plus and minus normal quantiles of the standard
        error), which are faster, symmetric, and less accurate for few rows.

    Returns
    -------
    SlopeIntercept
        Or a tuple of K of them for ``kind="classwise"``.

    Notes
    -----
    Probabilities of exactly 0 and 1 have infinite log-odds. They are replaced by the largest finite absolute log-odds of
    the event plus :math:`\log 2`, with their sign: twice the most extreme odds, the same at both ends, so that
    an event and its complement have the same slope and opposite intercepts. A single wrong row there has high leverage,
    as it should. To use another value, set ``Predictions.from_probabilities(..., floor=...)``.
    If all probabilities of an event are 0 or 1 there is no line to fit, and an error is raised; use
    :func:`~calibrant.hypothesis_tests.cumulative_test` or
    :func:`~calibrant.hypothesis_tests.spiegelhalter_test`.

    *Weights.* A weighted likelihood is not the likelihood of the rows. Standard errors are therefore sandwich estimates,

    .. math:: A^{-1} B A^{-1}, \qquad A = \sum_i w_i \mu_i (1 - \mu_i) x_i x_i^T, \quad
        B = \sum_i w_i^2 \mu_i (1 - \mu_i) x_i x_i^T

    with :math:`\mu_i` on the fitted line and :math:`x_i` one and the log-odds. They are valid for any weights, also if
    these depend on the score, and reduce to the usual ones for equal weights. Log-likelihood differences, for
    profile intervals and tests of one coefficient, are divided by the ratio of its sandwich variance to its likelihood
    variance (Rao-Scott correction, as for surveys). This is approximate, as is the joint test, whose
    statistic is the sum of the two although they are then not independent. If there is no finite estimate,
    and hence no ratio, the likelihood is that of the effective sample size :math:`(\sum w)^2 / \sum w^2`.
    The slow tests simulate the coverage for several kinds of weights.

    Newton's method on two parameters, O(n) for each of about eight steps. Profile intervals take about
    a hundred more passes, a few seconds for a million rows. O(nK) to compute the log-odds.

    Examples
    --------
    Eighty of a hundred events occur at 90 %, and twenty at 10 %: the log-odds should be :math:`\pm\log 4`, but are
    :math:`\pm\log 9`.

    >>> y = [1] * 80 + [0] * 20 + [1] * 20 + [0] * 80
    >>> line = calibration_slope_intercept(y, [0.9] * 100 + [0.1] * 100)
    >>> round(line.slope.value, 6), round(float(np.log(4) / np.log(9)), 6)
    (0.63093, 0.63093)
    >>> print(line)
    class 1, 200 rows: slope 0.6309 (0.4783 to 0.7945), p = 2.5e-05; in the large 0 (-0.4601 to 0.4601),
    p = 1; both p = 0.000139 (95 % intervals).
    """
    _check_options(kind, level, interval)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    if kind == "positive":
        check_two_classes(data.n_classes)
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    weights = weights * (weights.sum() / (weights @ weights))
    log_odds = LogOdds(data.predictions)

    def line(scores: Vector, outcomes: NDArray[np.bool_], event: str, n_certain: int) -> SlopeIntercept:
        return fitted_line(LogisticLine(scores, outcomes, weights), event, level, interval, n_certain)

    if kind == "classwise":
        return tuple(
            line(log_odds.of_class(k, name), data.labels == k, name, log_odds.n_certain(k))
            for k, name in enumerate(map(class_text, data.classes))
        )
    if kind == "confidence" or data.n_classes != 2:
        hits = data.predictions.predicted == data.labels
        return line(log_odds.of_predicted(), hits, "predicted class", log_odds.n_certain())
    name = class_text(data.classes[1])
    return line(log_odds.of_class(1, name), data.labels == 1, name, log_odds.n_certain(1))


def _caution(n_certain: int, scores: Vector) -> str | None:
    """Return the odds that replace probabilities without finite log-odds; None if there are none."""
    if n_certain == 0:
        return None
    odds = float(np.exp(np.abs(scores).max()))
    count = f"{n_certain} probabilities" if n_certain > 1 else "a probability"
    return f"{count} of exactly 0 or 1 count{'' if n_certain > 1 else 's'} as odds of {odds:.3g} to one; the fit depends on this"


# Total variance of the outcomes, after weighting, below which the distribution of the likelihood ratio is rough.
MIN_VARIANCE = 10.0


def _of_small_variance(regression: LogisticLine) -> str | None:
    """Return that few of the less probable outcomes are expected; None if there are enough."""
    variances = expit(regression.scores) * expit(-regression.scores)
    squares = float(regression.squares @ variances)
    variance = float(regression.weights @ variances) ** 2 / squares if squares > 0 else 0.0
    if variance >= MIN_VARIANCE:
        return None
    return (
        f"the p-value is rough, since the total variance of the outcomes is {variance:.2g}, less than {MIN_VARIANCE:g}"
        f"{USE_OTHER_TEST}"
    )


def fitted_line(
    regression: LogisticLine, event: str, level: float, interval: IntervalMethod, n_certain: int
) -> SlopeIntercept:
    """Return all estimates, intervals and tests; ``n_certain`` rows have a probability of exactly 0 or 1."""
    caution = (
        small_sample_caution(regression.n_rows)
        or _caution(n_certain, regression.scores)
        or _of_small_variance(regression)
    )
    identity = regression.log_likelihood(regression.scores)
    large_inflation = inflation = np.ones(2)  # variance inflation of intercept and slope by weights
    if regression.one_outcome:
        large, shifted, large_error = float(np.copysign(np.inf, regression.signs[0])), 0.0, np.inf
    else:
        large, shifted = regression.shift(1.0)
        mean = expit(regression.scores + large)
        information = float(regression.weights @ (mean * (1 - mean)))
        large_error = information**-0.5 if information > 0 else np.inf
        if information > 0:
            large_inflation = _inflation(regression, mean, np.diag([1 / information, 0.0]))
    limit = regression.supremum()
    if limit is None:
        line, best, covariance = regression.best_line()
        start, steepness = line.tolist()
        intercept_error, slope_error = np.sqrt(np.diag(covariance)).tolist()
        inflation = _inflation(regression, expit(start + steepness * regression.scores), covariance)
    else:
        steepness, best = limit
        start, intercept_error, slope_error = np.nan, np.inf, np.inf

    def loss_of_intercept(a: float) -> float:
        return best - regression.best(regression.scores, np.full_like(regression.scores, a), steepness)[1]

    def loss_of_slope(b: float) -> float:
        return best - regression.shift(b, 0.0 if np.isnan(start) else start)[1]

    def loss_in_the_large(a: float) -> float:
        return shifted - regression.log_likelihood(regression.scores + a)

    def coefficient(
        value: float, error: float, by_weights: float, loss: Callable[[float], float]
    ) -> Coefficient:
        error *= by_weights**0.5
        ends = _interval(value, error, lambda at: loss(at) / by_weights, level, interval)
        return Coefficient(value, error, *ends)

    def test(name: str, null: str, gain: float, degrees: int) -> TestResult:
        statistic = max(0.0, 2 * gain)  # rounding may make it slightly negative
        described = f"likelihood-ratio test of the {name} ({event}, {counted(degrees, 'degree')} of freedom)"
        p_value = float(chdtrc(degrees, statistic))
        return TestResult(statistic, p_value, described, null, regression.n_rows, caution=caution)

    intercept_by_weights, slope_by_weights = inflation.tolist()
    large_by_weights = float(large_inflation[0])
    slope_gain, large_gain = (best - shifted) / slope_by_weights, (shifted - identity) / large_by_weights
    return SlopeIntercept(
        coefficient(steepness, slope_error, slope_by_weights, loss_of_slope),
        coefficient(start, intercept_error, intercept_by_weights, loss_of_intercept),
        coefficient(large, large_error, large_by_weights, loss_in_the_large),
        test("calibration slope", "the calibration slope is 1", slope_gain, 1),
        test("calibration in the large", "events are as frequent as predicted", large_gain, 1),
        # With a single score, slope and intercept are one parameter.
        test("line", "slope 1 and intercept 0", slope_gain + large_gain, 1 if regression.one_score else 2),
        event,
        level,
        regression.n_rows,
    )


def _inflation(regression: LogisticLine, mean: Vector, covariance: Vector) -> Vector:
    """Return the variance inflation of intercept and slope by weights, relative to the likelihood.

    The ratio of the sandwich to ``covariance``, which is one for equal weights; one if the variance is zero.
    """
    of_rows = regression.squares / regression.weights
    if of_rows.min() == of_rows.max():
        return np.ones(2)
    columns = np.stack([np.ones_like(regression.scores), regression.scores])
    influence = covariance @ columns
    plain, robust = np.diag(covariance), influence**2 @ (regression.squares * mean * (1 - mean))
    usable = (plain > 0) & (robust > 0)
    return np.divide(robust, plain, out=np.ones(2), where=usable)


def _interval(
    value: float, error: float, loss: Callable[[float], float], level: float, method: IntervalMethod
) -> tuple[float, float]:
    quantile = float(ndtri((1 + level) / 2))
    if np.isnan(value) or (method == "wald" and not np.isfinite(value + error)):
        return -np.inf, np.inf  # these rows carry no information on it
    if method == "wald":
        return value - quantile * error, value + quantile * error
    allowed = quantile**2 / 2
    return profile_end(value, quantile * error, loss, allowed, -1), profile_end(
        value, quantile * error, loss, allowed, 1
    )


def _check_options(kind: Any, level: Any, interval: Any) -> None:
    if kind not in get_args(Event):
        raise ParameterError(f"kind must be 'auto', 'positive', 'confidence' or 'classwise', not {kind!r}.")
    check_level(level)
    if interval not in get_args(IntervalMethod):
        raise ParameterError(f"interval must be 'profile' or 'wald', not {interval!r}.")


def profile_end(
    value: float, reach: float, loss: Callable[[float], float], allowed: float, side: int
) -> float:
    """Return where the log-likelihood has fallen from its maximum by as much as the interval allows."""
    if value == side * np.inf:
        return value
    # Saturated rows make standard errors that are far too long for a step.
    inside, step = value, side * min(reach, 1 + abs(value))
    if np.isinf(value):
        inside, step = 0.0, -float(side)
        while loss(inside) >= allowed:
            inside, step = inside + step, 2 * step
        step = float(side)
    outside = inside + step
    while loss(outside) < allowed:
        inside, step = outside, 2 * step
        outside = inside + step
    precision = 1e-7 * abs(outside - inside)
    return float(brentq(lambda at: loss(at) - allowed, inside, outside, xtol=precision))
