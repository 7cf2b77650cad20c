"""Rows of two classes as they come: log-odds, forecasts and outcomes without loss of digits."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.errors import LabelError, PredictionError
from calibrant.labels import encode_labels
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["clipped_log_odds", "forecast_columns", "parsed_forecasts", "parsed_outcomes"]

Vector = NDArray[np.float64]


def parsed_forecasts(p: Any) -> Predictions:
    """Return predictions of two columns, or refuse more.

    >>> parsed_forecasts([0.2, 0.9]).probabilities
    array([[0.8, 0.2], [0.1, 0.9]])
    """
    predictions = Predictions.parse(p)
    if predictions.n_classes != 2:
        raise PredictionError(
            f"forecasts of one event are needed, but there are {predictions.n_classes} columns; for the predicted "
            "class pass p.max(axis=1), and p.argmax(axis=1) == y as what happened."
        )
    return predictions


def parsed_outcomes(y: Any, predictions: Predictions) -> NDArray[np.bool_]:
    """Return whether the second class occurred in every row."""
    names = predictions.classes
    if names is not None and np.array_equal(names, [0, 1]):
        predictions = replace(predictions, classes=None)
    labels, _ = encode_labels(y, 2, predictions.classes)
    if len(labels) != predictions.n_rows:
        raise LabelError(
            f"there are {predictions.n_rows} forecasts but {len(labels)} outcomes; pass one per row."
        )
    happened: NDArray[np.bool_] = labels == 1
    return happened


def clipped_log_odds(predictions: Predictions, floor: float) -> Vector:
    """Return log-odds, (n,), of probabilities that are kept ``floor`` away from 0 and 1."""
    limit = float(np.log1p(-floor) - np.log(floor))
    scores = predictions.scores.astype(np.float64)
    if predictions.space is Space.LOGITS:
        log_odds: Vector = scores[:, 1] - scores[:, 0]
    else:
        scores = np.maximum(scores, np.finfo(np.float64).tiny)
        log_odds = np.log(scores[:, 1]) - np.log(scores[:, 0])
    return np.clip(log_odds, -limit, limit)


def forecast_columns(log_odds: Vector) -> Vector:
    """Return the probabilities of both classes, (n, 2), neither of them zero."""
    bounded = np.clip(log_odds, -700.0, 700.0)
    columns: Vector = expit(np.column_stack([-bounded, bounded]))
    return columns
