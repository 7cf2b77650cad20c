"""OnlineForecaster: base class of forecasters of one event, and the parsing of their streams."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.arrays import AnyArray, Matrix, Vector
from calibrant.errors import LabelError, PredictionError
from calibrant.labels import encode_labels
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = [
    "OnlineForecaster",
    "as_rows",
    "check_order",
    "clipped_log_odds",
    "decay_per_row",
    "forecast_columns",
    "is_empty",
]


class OnlineForecaster(ABC):
    """Base class: forecast the rows of a stream of one event, and update with their outcomes."""

    n_rows: int
    """Number of rows so far."""

    @abstractmethod
    def _forecasts(self, predictions: Predictions) -> Matrix:
        """Return forecasts from the current state, (n, 2)."""

    @abstractmethod
    def _process(self, predictions: Predictions, outcomes: NDArray[np.bool_]) -> Vector:
        """Process rows in order; return the forecast of each, (n,), made before its outcome was used."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the state as plain numbers, lists and dictionaries, for ``from_state``."""

    def predict_proba(self, p: Any) -> Matrix:
        """Return forecasts from the current state, (n, 2), without updating it."""
        return np.empty((0, 2)) if is_empty(p) else self._forecasts(parsed_forecasts(p))

    def update(self, p: Any, y: Any) -> Vector:
        """Process rows in order: forecast each, then update with its outcome; a batch may be empty.

        Forecasts are the first argument, like X in ``fit`` and ``partial_fit``; metrics and
        :class:`~calibrant.online.CalibrationMonitor` take outcomes first.

        Parameters
        ----------
        p : array of shape (n,), (n, 2), Predictions or float
            Probabilities of the event from the classifier; a single number is one row.
        y : array of shape (n,), int or bool
            Whether the event occurred: 0 and 1, or labels that the predictions name.

        Returns
        -------
        ndarray of shape (n,)
            Probability of the event in every row, as forecast before its outcome was used.
        """
        if is_empty(p, y):
            return np.empty(0)
        predictions = parsed_forecasts(p)
        outcomes = parsed_outcomes(y, predictions)
        forecasts = self._process(predictions, outcomes)
        self.n_rows += len(outcomes)
        return forecasts

    def learn_one(self, p: float, y: Any) -> Self:
        """Update with a single row, and return self."""
        self.update(p, y)
        return self


def is_empty(p: Any, y: Any = ()) -> bool:
    """Return whether a batch has no rows; it is then valid and ignored.

    >>> is_empty([], []), is_empty(np.empty((0, 2))), is_empty([0.3], [])
    (True, True, False)
    """
    return all(not isinstance(part, Predictions) and np.shape(part)[:1] == (0,) for part in (p, y))


def as_rows(values: Any) -> Any:
    """Return a single number or label as a batch of one row, and anything else unchanged.

    >>> as_rows(0.3), as_rows([0.3, 0.4])
    ([0.3], [0.3, 0.4])
    """
    return [values] if isinstance(values, str | int | float | np.generic) else values


def parsed_forecasts(p: Any) -> Predictions:
    """Return predictions with two columns; raise if there are more.

    >>> parsed_forecasts([0.2, 0.9]).probabilities
    array([[0.8, 0.2], [0.1, 0.9]])
    """
    predictions = Predictions.parse(as_rows(p))
    if predictions.n_classes != 2:
        raise PredictionError(
            f"forecasts of one event are needed, but there are {predictions.n_classes} columns; for the predicted "
            "class pass p.max(axis=1) as forecasts and p.argmax(axis=1) == y as outcomes."
        )
    return predictions


def parsed_outcomes(y: Any, predictions: Predictions) -> NDArray[np.bool_]:
    """Return whether the event occurred in every row, from 0 and 1 or labels that the predictions name.

    The meaning of a label must not depend on the other labels in the batch, so other labels raise an error.

    >>> parsed_outcomes([1, 2], parsed_forecasts([0.2, 0.9]))
    Traceback (most recent call last):
    calibrant.errors.LabelError: outcomes must be 0 or 1, False or True, but row 1 has 2; for other labels pass
    Predictions.from_probabilities(p, classes=[...]) as forecasts.
    """
    y = as_rows(y)
    check_order(y, "update(p, y), forecasts first")
    occurred = _occurred(y, predictions.classes)
    if len(occurred) != predictions.n_rows:
        raise LabelError(
            f"there are {predictions.n_rows} forecasts but {len(occurred)} outcomes; pass one per row."
        )
    return occurred


def check_order(outcomes: Any, order: str) -> None:
    """Raise if outcomes lie strictly between 0 and 1, which indicates swapped arguments."""
    numbers = np.asarray(outcomes)
    if numbers.dtype.kind != "f":
        return
    between = (numbers > 0) & (numbers < 1)
    if between.any():
        raise LabelError(
            f"outcomes must name classes, but {numbers[between][0]:g} is among them; the order is {order}."
        )


def _occurred(y: Any, names: AnyArray | None) -> NDArray[np.bool_]:
    if names is not None and not np.array_equal(names, [0, 1]) and np.asarray(y).dtype.kind != "b":
        labels, classes = encode_labels(y, 2, names)
        if np.array_equal(classes, names):
            return np.equal(labels, 1)
        # Column numbers, used with names that are not numbers, are unambiguous.
        if names.dtype.kind == "U" and np.array_equal(classes, [0, 1]):
            return np.equal(labels, 1)
        raise LabelError(f"outcomes must be among the names of the forecasts, {names.tolist()}.")
    values = np.asarray(y).ravel()
    outside = [row for row, value in enumerate(values.tolist()) if value not in (0, 1)]
    if outside:
        raise LabelError(
            f"outcomes must be 0 or 1, False or True, but row {outside[0]} has {values.tolist()[outside[0]]!r}; for other "
            "labels pass Predictions.from_probabilities(p, classes=[...]) as forecasts."
        )
    labels, _ = encode_labels(y, 2, None)
    return np.equal(labels, 1)


def decay_per_row(half_life: float | None) -> float:
    """Return the factor per row with which a weight decays to one half after the half-life.

    >>> decay_per_row(None), decay_per_row(1)
    (1.0, 0.5)
    """
    return 1.0 if half_life is None else float(0.5 ** (1 / half_life))


def clipped_log_odds(predictions: Predictions, floor: float) -> Vector:
    """Return log-odds, (n,), of probabilities clipped to a distance ``floor`` from 0 and 1."""
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
