"""GiViTI calibration belt: a polynomial recalibration curve with a confidence region, and its test."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtri, expit, log_expit

from calibrant.arrays import Float64Array
from calibrant.errors import LabelError, ParameterError
from calibrant.hypothesis_tests.event import Event, EventKind, chosen_event
from calibrant.hypothesis_tests.result import TestResult
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.options import check_choice, check_level, check_whole
from calibrant.tabular import Tabular

__all__ = ["CalibrationBelt", "calibration_belt"]

SELECTION_LEVEL = 0.95
"""A further power is added if its likelihood-ratio test rejects at this level, as in the authors' program."""

N_DRAWS = 200_000
"""Draws of sums of truncated chi-square variables for each degree."""

LARGEST_LOGIT = 20.0

# Sum of the variances p (1 - p) below which the asymptotic region is rough.
SMALLEST_VARIANCE = 10.0


@dataclass(frozen=True, eq=False)
class CalibrationBelt(Tabular):
    """Polynomial recalibration curve with a confidence belt.

    Attributes
    ----------
    predicted : ndarray of shape (m,)
        Probabilities at which the curve is given, from the smallest prediction to the largest.
    curve : ndarray of shape (m,)
        Estimated frequency of the event.
    low, high : ndarray of shape (m,)
        Belt: all curves of this degree that the likelihood-ratio test does not reject.
    degree : int
        Degree of the polynomial of the log-odds.
    coefficients : ndarray of shape (degree + 1,)
        Its coefficients, the intercept first; (0, 1) is the diagonal.
    level : float
        Confidence level of the complete belt.
    event : str
        Which event the probabilities refer to.
    test : TestResult
        Test that the probabilities are calibrated.
    """

    predicted: Float64Array
    curve: Float64Array
    low: Float64Array
    high: Float64Array
    degree: int
    coefficients: Float64Array
    level: float
    event: str
    test: TestResult

    @property
    def below_diagonal(self) -> NDArray[np.bool_]:
        """Where the belt is below the diagonal: probabilities are too high."""
        return self.high < self.predicted

    @property
    def above_diagonal(self) -> NDArray[np.bool_]:
        """Where the belt is above the diagonal: probabilities are too low."""
        return self.low > self.predicted

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per probability."""
        return {"predicted": self.predicted, "curve": self.curve, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        parts = [
            f"Calibration belt of degree {self.degree}, {100 * self.level:g} %, p = {self.test.p_value:.3g}."
        ]
        for where, words in ((self.above_diagonal, "too low"), (self.below_diagonal, "too high")):
            if where.any():
                at = self.predicted[where]
                parts.append(f"Probabilities between {at.min():.3g} and {at.max():.3g} are {words}.")
        return " ".join(parts)


def calibration_belt(
    y_true: Any,
    y_proba: Any,
    *,
    kind: EventKind = "auto",
    max_degree: int = 4,
    level: float = 0.95,
    n_points: int = 101,
) -> CalibrationBelt:
    r"""GiViTI calibration belt: polynomial recalibration of the log-odds with a confidence region.

    .. math:: \mathrm{logit}\, P(o = 1 \mid p) = \sum_{j=0}^m \beta_j \, (\mathrm{logit}\, p)^j

    A forward selection by likelihood-ratio tests at the 95 % level chooses the degree m, from 1 to ``max_degree``
    :cite:`nattino2014`. The belt contains the curves of this degree whose likelihood ratio to the best one is below its
    critical value; the test compares the best curve with the diagonal. Both account for the selection.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    kind : {"auto", "confidence", "positive"}, default="auto"
        The event: the second of two classes occurs, or the predicted class is correct. ``"auto"`` uses the former for two
        classes and the latter for more.
    max_degree : int, default=4
        Largest degree.
    level : float, default=0.95
        Confidence level of the belt.
    n_points : int, default=101
        Number of probabilities at which the belt is computed.

    Returns
    -------
    CalibrationBelt

    Notes
    -----
    Under the null hypothesis the likelihood ratio of degree 1 against the diagonal is :math:`\chi^2_2`, and every further
    power adds an independent :math:`\chi^2_1` that exceeded the critical value. The p-value and the critical value of the
    belt average the exact tail of the former over 200,000 fixed draws of the latter. The degree starts from 1, as for a
    model that was developed on other rows. Log-odds are clipped at 20 in absolute value. The results are asymptotic, and rows
    must be independent. If the sum of :math:`p (1 - p)` is below 10, the test has a ``caution``: complete belts contained the
    diagonal in 65 % instead of 95 % of such data sets, see :doc:`/promises`.

    Costs about ten Newton steps of O(n m^2) per degree, and some ten more per point and side of the belt.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> p = generator.beta(1, 2, 2000)
    >>> y = (generator.random(2000) < p**1.3).astype(int)
    >>> belt = calibration_belt(y, p, n_points=21)
    >>> belt.degree, belt.test.p_value < 0.001, belt.below_diagonal[5]              # at 0.25 it is too high
    (1, True, np.True_)
    """
    check_choice("kind", kind, ("auto", "confidence", "positive"))
    check_whole("max_degree", max_degree)
    check_whole("n_points", n_points, least=2)
    check_level(level)
    data = LabelledPredictions.parse(y_proba, y_true)
    event, words = chosen_event(data, kind)
    outcomes = event.occurred.astype(np.float64)
    if outcomes.min() == outcomes.max():
        raise LabelError(
            "the belt needs rows with the event and rows without it; all rows have the same outcome."
        )
    log_odds = _log_odds(event)
    levels = len(np.unique(log_odds))
    if levels < 2:
        raise ParameterError("the belt needs two or more different probabilities; all rows have the same.")
    centre, scale = float(log_odds.mean()), float(log_odds.std())
    identity = float(np.sum(log_expit(np.where(outcomes == 1, log_odds, -log_odds))))
    x = (log_odds - centre) / scale
    degree = 1
    fitted = _Fit.of(_powers(x, 1), outcomes)
    ratio = 2 * (fitted.likelihood - identity)
    critical = _selection_critical()
    while degree < min(max_degree, levels - 1):
        larger = _Fit.of(_powers(x, degree + 1), outcomes, np.append(fitted.beta, 0.0))
        gain = 2 * (larger.likelihood - fitted.likelihood)
        if not gain > critical:
            break
        degree, fitted, ratio = degree + 1, larger, ratio + gain
    p_value = _p_value(ratio, max_degree)
    limit = _critical(level, degree)
    predicted = np.linspace(expit(log_odds.min()), expit(log_odds.max()), n_points)
    at = _powers((np.log(predicted / (1 - predicted)) - centre) / scale, degree)
    low, high = (expit(fitted.extremes(at, limit, side)) for side in (-1.0, 1.0))
    return CalibrationBelt(
        predicted=predicted,
        curve=expit(at @ fitted.beta),
        low=low,
        high=high,
        degree=degree,
        coefficients=_in_log_odds(fitted.beta, centre, scale),
        level=float(level),
        event=words,
        test=TestResult(
            statistic=float(ratio),
            p_value=p_value,
            test=f"GiViTI calibration test (degree {degree})",
            null_hypothesis=f"the probabilities that {words} are calibrated",
            n_rows=data.n_rows,
            caution=_caution(event),
        ),
    )


def _caution(event: Event) -> str | None:
    variance = float((event.probability * event.opposite).sum())
    if variance >= SMALLEST_VARIANCE:
        return None
    return f"a belt is rough if the total variance of the outcomes, here {variance:.2g}, is less than {SMALLEST_VARIANCE:g}"


@dataclass(frozen=True, eq=False)
class _Fit:
    """Maximum-likelihood fit of a logistic regression, and the region around it."""

    design: Float64Array
    outcomes: Float64Array
    beta: Float64Array
    likelihood: float

    @classmethod
    def of(cls, design: Float64Array, outcomes: Float64Array, start: Float64Array | None = None) -> "_Fit":
        beta = np.zeros(design.shape[1]) if start is None else start
        beta, likelihood, _ = _ascended(design, outcomes, beta, np.zeros(design.shape[1]))
        return cls(design, outcomes, beta, likelihood)

    def extremes(self, at: Float64Array, limit: float, side: float) -> Float64Array:
        """Return the largest (or smallest) linear predictor at each point over all beta within the likelihood region.

        The maximiser of g'beta + t l(beta) traces the region's border: t falls from infinity, and bisection over the length of
        the step finds where the likelihood ratio equals the limit.
        """
        information = self._information(self.beta)
        covariance = np.linalg.inv(information)
        found = np.empty(len(at))
        for i, g in enumerate(at):
            direction = side * g
            # Quadratic approximation: weight w of the direction for which the ratio is the limit.
            size = float(direction @ covariance @ direction)
            low, high = 0.0, np.sqrt(limit / size)
            beta = self.beta + high * covariance @ direction
            for _ in range(40):  # first widen, then bisect
                beta, likelihood, _ = _ascended(self.design, self.outcomes, beta, high * direction)
                if 2 * (self.likelihood - likelihood) >= limit or high > 1e6:
                    break
                low, high = high, 1.3 * high
            for _ in range(30):
                middle = 0.5 * (low + high)
                beta, likelihood, _ = _ascended(self.design, self.outcomes, beta, middle * direction)
                ratio = 2 * (self.likelihood - likelihood)
                if abs(ratio - limit) < 1e-4 * limit:
                    break
                low, high = (middle, high) if ratio < limit else (low, middle)
            found[i] = float(g @ beta)
        return found

    def _information(self, beta: Float64Array) -> Float64Array:
        q = expit(self.design @ beta)
        information: Float64Array = (self.design * (q * (1 - q))[:, np.newaxis]).T @ self.design
        return information


def _ascended(
    design: Float64Array, outcomes: Float64Array, beta: Float64Array, tilt: Float64Array
) -> tuple[Float64Array, float, float]:
    """Maximise log-likelihood plus ``tilt`` times beta by Newton's method; return beta and its log-likelihood."""

    def value(b: Float64Array) -> tuple[float, float, Float64Array]:
        u = design @ b
        likelihood = float(np.sum(log_expit(np.where(outcomes == 1, u, -u))))
        return likelihood + float(tilt @ b), likelihood, u

    total, likelihood, u = value(beta)
    ridge = 1e-10 * len(outcomes) * np.eye(design.shape[1])
    for _ in range(50):
        q = expit(u)
        gradient = design.T @ (outcomes - q) + tilt
        step = np.linalg.solve((design * (q * (1 - q))[:, np.newaxis]).T @ design + ridge, gradient)
        decrement = float(gradient @ step)
        length = 1.0
        while True:
            candidate = value(beta + length * step)
            if candidate[0] >= total + 1e-4 * length * decrement or length < 1e-8:
                break
            length /= 2
        if candidate[0] >= total:
            beta, (total, likelihood, u) = beta + length * step, candidate
        if decrement < 1e-9:
            break
    return beta, likelihood, total


def _log_odds(event: Event) -> Float64Array:
    with np.errstate(divide="ignore"):
        values = np.log(event.probability) - np.log(event.opposite)
    clipped: Float64Array = np.clip(values, -LARGEST_LOGIT, LARGEST_LOGIT)
    return clipped


def _powers(x: Float64Array, degree: int) -> Float64Array:
    powers: Float64Array = np.vander(x, degree + 1, increasing=True)
    return powers


def _in_log_odds(beta: Float64Array, centre: float, scale: float) -> Float64Array:
    """Return the coefficients of the polynomial of log-odds from those of standardised ones."""
    polynomial = np.polynomial.Polynomial(beta)(np.polynomial.Polynomial([-centre / scale, 1 / scale]))
    coefficients: Float64Array = np.zeros(len(beta))
    coefficients[: len(polynomial.coef)] = polynomial.coef
    return coefficients


@cache
def _selection_critical() -> float:
    return float(chdtri(1, 1 - SELECTION_LEVEL))


@cache
def _gains(degree: int) -> Float64Array:
    """Return draws of what powers beyond the first add to the likelihood ratio, given that this degree is selected."""
    generator = np.random.default_rng(degree)
    # Sums of chi-square variables above the critical value.
    chances = generator.uniform(0, 1 - SELECTION_LEVEL, (degree - 1, N_DRAWS))
    gains: Float64Array = chdtri(1, chances).sum(axis=0) if degree > 1 else np.zeros(1)
    return gains


def _tail(ratio: float, degree: int) -> float:
    """Return the probability of a larger ratio under calibration, given that this degree is selected."""
    # The first power adds a chi-square variable of two degrees of freedom, whose tail is an exponential.
    return float(np.exp(-np.maximum(ratio - _gains(degree), 0.0) / 2).mean())


def _p_value(ratio: float, max_degree: int) -> float:
    """Return the probability of a larger ratio under calibration, over all degrees that may be selected."""
    further = 1 - SELECTION_LEVEL
    return sum(
        further ** (degree - 1) * (1 if degree == max_degree else SELECTION_LEVEL) * _tail(ratio, degree)
        for degree in range(1, max_degree + 1)
    )


def _critical(level: float, degree: int) -> float:
    """Return the quantile of the ratio under calibration, given that this degree is selected."""
    return float(brentq(lambda ratio: _tail(ratio, degree) - (1 - level), 0.0, 1e4))
