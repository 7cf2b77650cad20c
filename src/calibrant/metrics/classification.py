"""Accuracy, overconfidence and underconfidence: metrics of the predicted class."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array, IntArray
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import Evaluator, MetricTraits, metric
from calibrant.metrics.events import confidences
from calibrant.metrics.row_losses import MeanMetric
from calibrant.predictions import Predictions

__all__ = ["accuracy", "overconfidence", "underconfidence"]


def _right(predictions: Predictions) -> Callable[[IntArray], Float64Array]:
    predicted = predictions.predicted
    return lambda labels: np.asarray(predicted == labels, dtype=np.float64)


def _accuracy() -> MeanMetric:
    return MeanMetric(lambda data: _right(data.predictions)(data.labels), _right)


@metric(MetricTraits(higher_is_better=True, two_sided=True), parts=_accuracy)
def accuracy(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    r"""Accuracy: fraction of rows whose most probable class is the true class.

    .. math:: \frac{1}{W} \sum_i w_i \, [\arg\max_k p_{ik} = y_i], \qquad W = \sum_i w_i

    Ties are predicted as the first column. The error rate is one minus the accuracy.

    Returns
    -------
    float
        From 0 to 1; higher is better. Costs O(nK).

    Examples
    --------
    >>> accuracy([0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]], sample_weight=[1, 1, 2])
    0.5
    """
    return _accuracy()(LabelledPredictions.parse(y_proba, y_true, sample_weight))


def _capped_confidences(predictions: Predictions) -> Float64Array:
    # Rows sum to one only up to rounding; confidences are capped at one.
    return np.minimum(confidences(predictions).astype(np.float64), 1.0)


def _mean_of_some(values: Float64Array, chosen: NDArray[np.bool_], weights: Float64Array | None) -> float:
    """Return the weighted mean of the chosen rows; NaN if none is chosen."""
    counted = chosen.astype(np.float64) if weights is None else chosen * weights
    total = float(counted.sum())
    return float(counted @ values) / total if total > 0 else float("nan")


def _prepare_overconfidence(predictions: Predictions) -> Evaluator:
    confidence, predicted = _capped_confidences(predictions), predictions.predicted
    return lambda labels, weights: _mean_of_some(confidence, predicted != labels, weights)


def _prepare_underconfidence(predictions: Predictions) -> Evaluator:
    doubt, predicted = 1 - _capped_confidences(predictions), predictions.predicted
    return lambda labels, weights: _mean_of_some(doubt, predicted == labels, weights)


@metric(MetricTraits(always_defined=False, two_sided=True), prepare=_prepare_overconfidence)
def overconfidence(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    r"""Overconfidence: mean confidence in the predicted class over the misclassified rows.

    .. math:: o = E[\, c \mid \hat y \ne y \,], \qquad c = \max_k p_k, \quad \hat y = \arg\max_k p_k

    as a weighted mean over these rows :cite:`wenger2020`.

    Returns
    -------
    float
        From 1/K to 1; lower is better. NaN if no row is wrong.

    Notes
    -----
    It is not zero for a perfectly calibrated classifier. Only together with :func:`underconfidence` u does it
    measure calibration: with the accuracy a, :math:`o (1 - a) - u a` is the mean confidence minus the accuracy, and
    for :math:`1 \le p \le q`

    .. math:: | o (1 - a) - u a | \le \mathrm{ECE}_p \le \mathrm{ECE}_q,

    also for :func:`~calibrant.metrics.confidence_ece` with any bins (Theorem 1 there). Costs O(nK).

    Examples
    --------
    >>> overconfidence([0, 1, 1], [[0.9, 0.1], [0.7, 0.3], [0.5, 0.5]])      # the last two are wrong
    0.6
    >>> overconfidence([0], [[0.9, 0.1]])
    nan
    """
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    return _prepare_overconfidence(data.predictions)(data.labels, data.weights)


@metric(MetricTraits(always_defined=False, two_sided=True), prepare=_prepare_underconfidence)
def underconfidence(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    r"""Underconfidence: mean of one minus the confidence over the correctly classified rows.

    .. math:: u = E[\, 1 - c \mid \hat y = y \,], \qquad c = \max_k p_k, \quad \hat y = \arg\max_k p_k

    as a weighted mean over these rows :cite:`wenger2020`.

    Returns
    -------
    float
        From 0 to 1 - 1/K; lower is better. NaN if no row is right.

    Notes
    -----
    See :func:`overconfidence` for the bound on the calibration error. Costs O(nK).

    Examples
    --------
    >>> underconfidence([0, 1, 0], [[0.9, 0.1], [0.7, 0.3], [0.6, 0.4]])     # the first and last are right
    0.25
    """
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    return _prepare_underconfidence(data.predictions)(data.labels, data.weights)
