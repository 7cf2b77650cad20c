"""A metric as a function of the number of times each row was drawn."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import one_number
from calibrant.metrics.declaration import evaluator, is_declared, parts_of
from calibrant.metrics.row_losses import MeanMetric
from calibrant.space import Space

__all__ = ["Statistic", "statistic_of"]

Statistic = Callable[[NDArray[np.intp] | None], float]
"""The value for rows that were drawn ``counts`` times, (n,), or for the original rows if it is None. It may
cache its last arguments, and must not be called by two threads at once."""


def statistic_of(metric: Callable[..., Any], data: LabelledPredictions, y_proba: Any) -> Statistic:
    """Return a statistic that uses weights for metrics of this library, and repeated rows for other functions.

    Other functions get the user's original labels, and probabilities in the shape of ``y_proba``
    as it was given: the positive class alone if that was flat.
    """
    if not is_declared(metric):
        return _by_rows(metric, data, y_proba)
    parts = parts_of(metric)
    return _mean(parts.values(data), data) if isinstance(parts, MeanMetric) else _by_weights(metric, data)


def _mean(values: NDArray[np.float64], data: LabelledPredictions) -> Statistic:
    """Return the mean of fixed row losses."""
    infinite = np.flatnonzero(np.isinf(values))
    finite = values.copy()
    finite[infinite] = 0.0

    def statistic(counts: NDArray[np.intp] | None) -> float:
        if counts is None:
            return float(np.average(values, weights=data.weights))
        if counts[infinite].any():  # handled separately, since infinity times zero is NaN
            return float("inf")
        weights = _weights(counts, data)
        return float((weights * finite).sum() / weights.sum())  # a product by BLAS would start threads

    return statistic


def _by_weights(metric: Callable[..., Any], data: LabelledPredictions) -> Statistic:
    evaluate = evaluator(metric, data)

    def statistic(counts: NDArray[np.intp] | None) -> float:
        if counts is None:
            return evaluate(data.labels, data.weights)
        return evaluate(data.labels, _weights(counts, data))

    return statistic


def _weights(counts: NDArray[np.intp], data: LabelledPredictions) -> NDArray[np.float64]:
    return counts.astype(np.float64) if data.weights is None else counts * data.weights


def _by_rows(metric: Callable[..., Any], data: LabelledPredictions, y_proba: Any) -> Statistic:
    labels = data.classes[data.labels]
    scores = data.predictions.probabilities
    if data.predictions.space is Space.PROBABILITIES and np.ndim(y_proba) == 1:
        scores = scores[:, 1]

    def statistic(counts: NDArray[np.intp] | None) -> float:
        if counts is None:
            rows: Any = slice(None)
        else:
            rows = np.repeat(np.arange(len(counts)), counts)
        weights = {} if data.weights is None else {"sample_weight": data.weights[rows]}
        return one_number(metric(labels[rows], scores[rows], **weights), metric)

    return statistic
