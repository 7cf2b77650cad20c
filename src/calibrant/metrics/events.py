"""The event that a score refers to: the predicted class being correct, or each class in turn."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions

__all__ = ["Kind", "check_kind", "columns", "confidences", "events", "mean_over_events"]

Kind = Literal["confidence", "classwise", "positive"]
"""``"confidence"``: the predicted class, by its confidence. ``"classwise"``: every class by its own probability,
mean over classes. ``"positive"``: the second class of two by its probability."""

Error = Callable[[NDArray[np.floating], NDArray[np.bool_], NDArray[np.float64] | None], float]
"""A calibration error of one column: scores, outcomes and weights, each of shape (n,)."""

# Columns are read in groups: reading one column of a row-major array touches as much memory as reading sixteen.
COLUMNS_AT_A_TIME = 16


def check_kind(kind: Any) -> None:
    """Raise on an unknown kind of event."""
    if kind not in get_args(Kind):
        raise ParameterError(f"kind must be 'confidence', 'classwise' or 'positive', not {kind!r}.")


def confidences(predictions: Predictions) -> NDArray[np.floating]:
    """Return the probability of the predicted class of every row, (n,), in its own float type."""
    return predictions.probabilities[np.arange(predictions.n_rows), predictions.predicted]


def columns(predictions: Predictions) -> Iterator[NDArray[np.floating]]:
    """Yield the probabilities of one class after another, each (n,) and contiguous; O(n) memory."""
    for first in range(0, predictions.n_classes, COLUMNS_AT_A_TIME):
        group = predictions.probabilities[:, first : first + COLUMNS_AT_A_TIME]
        yield from np.ascontiguousarray(group.T)


def events(data: LabelledPredictions, kind: Kind) -> Iterator[tuple[NDArray[np.floating], NDArray[np.bool_]]]:
    """Yield scores and outcomes, (n,) each, of the one event of this kind or of every class in turn."""
    check_kind(kind)
    if kind == "confidence":
        yield confidences(data.predictions), data.predictions.predicted == data.labels
    elif kind == "positive":
        if data.n_classes != 2:
            raise ParameterError(
                f"kind='positive' is for two classes, but there are {data.n_classes}; use kind='classwise'."
            )
        yield data.predictions.probabilities[:, 1], data.labels == 1
    else:
        for k, column in enumerate(columns(data.predictions)):
            yield column, data.labels == k


def mean_over_events(data: LabelledPredictions, kind: Kind, error: Error) -> float:
    """Return the error of the one event of this kind, or the mean of the errors of all classes."""
    return float(np.mean([error(scores, hits, data.weights) for scores, hits in events(data, kind)]))
