"""Fit of an inverse temperature, for temperature scaling and as the start of every larger fit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from calibrant.arrays import FloatArray, Vector
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.rounding import with_bits
from calibrant.objective import (
    ArrayRows,
    BrierLoss,
    CrossEntropy,
    FeatureRows,
    Objective,
    QuadraticPenalty,
    RowSource,
    ScalarMap,
)
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, Status, bracketed_newton

__all__ = [
    "LOSSES",
    "bounded_steepness",
    "event_temperature",
    "fit_inverse_temperature",
    "scrambled_key",
    "start_temperature",
]


LOSSES = {"log": CrossEntropy(), "brier": BrierLoss()}

EVENT_BOUNDS = (1e-6, 1e6)  # of the inverse temperature, relative to one that gives log-odds of unit size

SAMPLE_ROWS = 1000  # determine beta to one per cent, from where two or three passes over all rows suffice

DIGITS = 36  # bits of an inverse temperature: far more than rows determine, fewer than sums agree in

SCRAMBLING = 1e4 * (5**0.5 - 1) / 2  # irrational, so that regular rows are scrambled too


def fit_inverse_temperature(
    data: LabelledPredictions | FeatureRows,
    loss: Literal["log", "brier"] = "log",
    bounds: tuple[float, float] = (1e-3, 1e3),
    tolerance: float | None = None,
    penalty: QuadraticPenalty | None = None,
) -> Solution:
    """Return the best inverse temperature of labelled predictions, or of rows of logits, as a one-element theta.

    ``penalty`` is added to the mean loss. A fit to a sample is the start of a fit to a large calibration set. The Brier score
    may have several local minima: the sample locates them, and all rows decide which is the lowest.
    """
    rows = data if isinstance(data, FeatureRows) else _logit_rows(data)
    if tolerance is None:
        tolerance = 1e-7 if rows.dtype == np.float32 else 1e-10
    starts = [1.0]
    if rows.n_rows >= 4 * SAMPLE_ROWS or loss == "brier":
        some = rows if rows.n_rows < 4 * SAMPLE_ROWS else rows.sample(SAMPLE_ROWS, scrambled_key)
        sample = _MeanLoss(some, loss, penalty)
        rough = [1.0] if loss == "log" else _local_minima(sample, bounds)
        starts = [bracketed_newton(sample, start, bounds, tolerance=1e-2).argument for start in rough]
    mean_loss = _MeanLoss(rows, loss, penalty)
    with mean_loss.objective.open():
        start = starts[0] if len(starts) == 1 else min(starts, key=lambda beta: mean_loss(beta)[0])
        found = bracketed_newton(mean_loss, start, bounds, tolerance=tolerance)
        identity_loss = mean_loss(1.0)[0]
    if found.value > identity_loss:
        found = found._replace(argument=1.0, value=identity_loss, status=Status.IDENTITY)
    elif found.status is Status.CONVERGED:
        # The last digits depend on the order in which rows are added up, and would decide ties of tempered scores.
        found = found._replace(argument=float(with_bits(np.array(found.argument), DIGITS)))
    return replace(
        found.solution(identity_loss - mean_loss.penalty_at(1.0)),
        loss=found.value - mean_loss.penalty_at(found.argument),
    )


def bounded_steepness(solution: Solution) -> float:
    """Return the fitted inverse temperature, or 1 if it is at the upper bound because all rows are correct.

    A value at the lower bound, for scores without information or with inverted order, is kept.
    """
    best = float(solution.theta[0])
    return 1.0 if best > 1 and solution.status is Status.AT_BOUND else best


def start_temperature(data: LabelledPredictions | FeatureRows) -> float:
    """Return the inverse temperature at which a larger fit starts and to which it shrinks; 1 if the fit is at a bound."""
    solution = fit_inverse_temperature(data)
    return 1.0 if solution.status is Status.AT_BOUND else float(solution.theta[0])


def event_temperature(source: RowSource, log_odds: Callable[[Predictions], Vector]) -> Solution:
    """Return the best inverse temperature of the log-odds of one event, with bounds relative to their mean size."""

    def sizes(data: LabelledPredictions) -> float:
        size = np.abs(log_odds(data.predictions))
        return float(size.sum() if data.weights is None else size @ data.weights)

    def pair(predictions: Predictions) -> Vector:
        scores = log_odds(predictions)
        return np.column_stack([np.zeros_like(scores), scores])

    with np.errstate(over="ignore"):
        size = source.summed(sizes) / source.total_weight
    unit = 1 / size if 1 / np.finfo(np.float64).max < size < np.inf else 1.0
    bounds = (EVENT_BOUNDS[0] * min(1.0, unit), EVENT_BOUNDS[1] * max(1.0, unit))
    return fit_inverse_temperature(source.features(pair), bounds=bounds, tolerance=1e-10)


def _logit_rows(data: LabelledPredictions) -> ArrayRows:
    return ArrayRows(data.predictions.logits, data.labels, data.weights)


class _MeanLoss:
    """Mean loss of softmax(beta z) plus a penalty, with its two derivatives in beta."""

    def __init__(self, rows: FeatureRows, loss: str, penalty: QuadraticPenalty | None = None) -> None:
        self.objective = Objective(LOSSES[loss], ScalarMap(rows.n_columns), rows, exact=False)
        self.penalty = QuadraticPenalty.none(1) if penalty is None else penalty

    def __call__(self, beta: float) -> tuple[float, float, float]:
        theta = np.array([beta])
        at = self.objective.data_expansion(theta)
        return (
            at.value + self.penalty.value(theta),
            float(at.gradient[0] + self.penalty.gradient(theta)[0]),
            float(at.hessian[0, 0] + self.penalty.hessian()[0, 0]),
        )

    def penalty_at(self, beta: float) -> float:
        return self.penalty.value(np.array([beta]))


def scrambled_key(logits: FloatArray) -> Vector:
    """Return a hash of every row as a number in [0, 1), which does not depend on the order of the classes."""
    # Low-order digits are as good as random.
    gaps = np.asarray(logits.sum(axis=1, dtype=np.float64))
    gaps -= logits.shape[1] * row_maxima(logits).astype(np.float64)
    gaps *= SCRAMBLING
    scrambled: Vector = gaps - np.floor(gaps)  # a fraction of the time of a remainder
    return scrambled


def _local_minima(sample: _MeanLoss, bounds: tuple[float, float]) -> list[float]:
    """Return the local minima on a coarse grid."""
    places = np.geomspace(*bounds, 25)
    values = np.array([sample(beta)[0] for beta in places.tolist()])
    padded = np.concatenate([[np.inf], values, [np.inf]])
    minima: list[float] = places[(values <= padded[:-2]) & (values <= padded[2:])].tolist()
    return minima
