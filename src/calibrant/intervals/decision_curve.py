"""Decision curve: net benefit over all probability thresholds, with confidence intervals."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from calibrant.arrays import Float64Array
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.options import check_level, real_array
from calibrant.tabular import Tabular

__all__ = ["DecisionCurve", "decision_curve"]


@dataclass(frozen=True, eq=False)
class DecisionCurve(Tabular):
    """Net benefit of acting by the predictions, on all rows and on none, for every threshold.

    Attributes
    ----------
    threshold : ndarray of shape (m,)
        Probabilities from which on one acts.
    net_benefit : ndarray of shape (m,)
        Net benefit of acting on the rows whose probability is at least the threshold.
    low, high : ndarray of shape (m,)
        Ends of the confidence interval of the net benefit, for each threshold separately.
    treat_all : ndarray of shape (m,)
        Net benefit of acting on all rows; acting on none has 0.
    prevalence : float
        Fraction of rows with the event.
    level : float
        Confidence level.
    n_rows : int
        Number of rows.
    """

    threshold: Float64Array
    net_benefit: Float64Array
    low: Float64Array
    high: Float64Array
    treat_all: Float64Array
    prevalence: float
    level: float
    n_rows: int

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per threshold."""
        return {
            "threshold": self.threshold,
            "net_benefit": self.net_benefit,
            "low": self.low,
            "high": self.high,
            "treat_all": self.treat_all,
        }


def decision_curve(
    y_true: Any, y_proba: Any, *, thresholds: Any = None, sample_weight: Any = None, level: float = 0.95
) -> DecisionCurve:
    r"""Decision curve: net benefit as a function of the probability threshold, with confidence intervals.

    .. math:: \mathrm{NB}(t) = \pi_1(t) - \frac{t}{1 - t} \, \pi_2(t)

    with the fractions :math:`\pi_1(t)` and :math:`\pi_2(t)` of true and false positives among all rows
    :cite:`vickers2006`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns; two classes.
    y_proba : array, frame or Predictions
        Probabilities (n, 2), or (n,) or (n, 1) for the positive class.
    thresholds : array of shape (m,), optional
        Probabilities strictly between 0 and 1; by default 0.01, 0.02, ..., 0.99.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    level : float, default=0.95
        Confidence level of the interval at each threshold.

    Returns
    -------
    DecisionCurve

    Notes
    -----
    The interval combines the Wilson intervals :math:`[l_j, u_j]` of the two fractions and their correlation
    :math:`\rho = -\sqrt{\pi_1 \pi_2 / ((1 - \pi_1)(1 - \pi_2))}` (MOVER, :cite:`zou2008`). With o the odds of t,

    .. math::

        \mathrm{NB} - \sqrt{a^2 + b^2 - 2 \rho a b}, \quad a = \hat\pi_1 - l_1, \; b = o \, (u_2 - \hat\pi_2)

    is the lower end, and the upper end likewise. Unlike a bootstrap interval it has a width if no row is a false
    positive. With weights, the sample size is Kish's effective one, :math:`(\sum w)^2 / \sum w^2`. Rows must be independent;
    for groups use :func:`bootstrap` with ``partial(net_benefit, threshold=t)`` and ``groups=``. The difference
    between two models has :func:`paired_bootstrap`.

    The curve of a calibrated model is never below those of acting on all or on no rows, up to sampling error. A model whose
    curve is, does harm at that threshold. Costs :math:`O(n \log n + m \log n)`.

    Examples
    --------
    >>> curve = decision_curve([1, 1, 0, 0], [0.9, 0.3, 0.4, 0.1], thresholds=[0.2, 0.5])
    >>> curve.net_benefit, curve.treat_all
    (array([0.4375, 0.25  ]), array([0.375, 0.   ]))
    """
    check_level(level)
    at = _parsed_thresholds(thresholds)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    if data.n_classes != 2:
        raise ParameterError(
            f"a decision curve is for two classes, but there are {data.n_classes}; pass the probability of one class and "
            "whether it is the true one."
        )
    scores = data.predictions.probabilities[:, 1].astype(np.float64)
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    total = float(weights.sum())
    order = np.argsort(scores)
    below = np.searchsorted(scores[order], at, side="left")
    events = (data.labels == 1) * weights

    def at_or_above(values: Float64Array) -> Float64Array:
        sums = np.concatenate([np.cumsum(values[order][::-1])[::-1], [0.0]])
        fractions: Float64Array = np.clip(sums[below] / total, 0.0, 1.0)
        return fractions

    odds = at / (1 - at)
    true, false = at_or_above(events), at_or_above(weights - events)
    n_effective = total**2 / float(weights @ weights)
    low, high = _interval_of_difference(true, false, odds, n_effective, level)
    prevalence = float(events.sum()) / total
    return DecisionCurve(
        threshold=at,
        net_benefit=true - odds * false,
        low=low,
        high=high,
        treat_all=prevalence - odds * (1 - prevalence),
        prevalence=prevalence,
        level=float(level),
        n_rows=data.n_rows,
    )


def _parsed_thresholds(thresholds: Any) -> Float64Array:
    if thresholds is None:
        return np.arange(1, 100) / 100
    at = real_array(thresholds)
    if at is None or at.ndim != 1 or len(at) == 0 or not ((at > 0) & (at < 1)).all():
        raise ParameterError(
            f"thresholds must be one or more numbers strictly between 0 and 1, not {thresholds!r}."
        )
    return at


def _interval_of_difference(
    true: Float64Array, false: Float64Array, odds: Float64Array, n: float, level: float
) -> tuple[Float64Array, Float64Array]:
    """Return the MOVER interval of ``true - odds * false``, two fractions of the same n rows."""
    (low_1, high_1), (low_2, high_2) = (_wilson(fraction, n, level) for fraction in (true, false))
    others = (1 - true) * (1 - false)
    rho = -np.sqrt(np.divide(true * false, others, out=np.zeros_like(true), where=others > 0))
    estimate = true - odds * false

    def half(a: Float64Array, b: Float64Array) -> Float64Array:
        width: Float64Array = np.sqrt(a**2 + b**2 - 2 * rho * a * b)
        return width

    return (
        estimate - half(true - low_1, odds * (high_2 - false)),
        estimate + half(high_1 - true, odds * (false - low_2)),
    )


def _wilson(fraction: Float64Array, n: float, level: float) -> tuple[Float64Array, Float64Array]:
    """Return the Wilson score interval of a proportion of n rows."""
    z = -float(ndtri((1 - level) / 2))
    centre = (fraction + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(fraction * (1 - fraction) / n + z**2 / (4 * n**2))
    return np.minimum(centre - half, fraction), np.maximum(centre + half, fraction)
