"""Accuracy of the predicted class."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.mean_metric import MeanMetric
from calibrant.predictions import Predictions

__all__ = ["accuracy"]


def _right(predictions: Predictions) -> Callable[[NDArray[np.intp]], NDArray[np.float64]]:
    predicted = predictions.predicted
    return lambda labels: np.asarray(predicted == labels, dtype=np.float64)


def _accuracy() -> MeanMetric:
    return MeanMetric(lambda data: _right(data.predictions)(data.labels), _right)


@metric(MetricTraits(higher_is_better=True, two_sided=True), parts=_accuracy)
def accuracy(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    r"""Accuracy: fraction of rows whose most probable class is the true class.

    .. math:: \frac{1}{W} \sum_i w_i \, [\arg\max_k p_{ik} = y_i], \qquad W = \sum_i w_i

    Ties are predicted as the first column. The error rate is one minus the accuracy.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Weights of the rows.

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
