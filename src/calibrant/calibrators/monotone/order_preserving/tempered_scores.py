"""Scores at the best temperature, the inputs of order-preserving maps."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.calibrators.scaling.temperature_fit import bounded_steepness, fit_inverse_temperature
from calibrant.graph import TracedPredictions, Value
from calibrant.graph.apply import evaluated
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.linear_segments import weighted_quantiles
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.simplex import log_softmax
from calibrant.predictions import Predictions
from calibrant.solvers import Solution

__all__ = ["Inputs", "TemperedScores", "tempered_scores", "traced_tempered_scores"]

Inputs = Literal["log-probabilities", "logits"]

BOUNDS = (1e-3, 1e3)


def traced_tempered_scores(given: TracedPredictions, inverse_temperature: float, inputs: Inputs) -> Value:
    """Return the argument of the function, (n, K).

    Logarithms of probabilities at the temperature, or the logits themselves divided by it. The former do not change
    if a constant is added to a row of logits; the latter do.
    """
    scaled = given.logits * inverse_temperature
    return scaled.log_softmax() if inputs == "log-probabilities" else scaled


def tempered_scores(predictions: Predictions, inverse_temperature: float, inputs: Inputs) -> FloatArray:
    """Return the argument of the function for predictions, a new array in the float type of the scores."""
    return evaluated(lambda given: traced_tempered_scores(given, inverse_temperature, inputs), predictions)


@dataclass(frozen=True, eq=False)
class TemperedScores:
    """Calibration rows at their best temperature, where slopes of one mean temperature scaling.

    Attributes
    ----------
    inverse_temperature : float
        The best one; 1 where rows are all right and none is steep enough.
    scores : ndarray of shape (n, K)
        See :func:`tempered_scores`.
    labels : ndarray of shape (n,)
        Column number of the true class.
    weights : ndarray of shape (n,) or None
        Weights of the rows.
    identity_loss : float
        Mean log-loss of the uncalibrated predictions.
    """

    inverse_temperature: float
    scores: FloatArray
    labels: NDArray[np.intp]
    weights: Vector | None
    identity_loss: float

    @classmethod
    def of(cls, data: LabelledPredictions, inputs: Inputs) -> "TemperedScores":
        """Find the temperature and apply it."""
        solution = _temperature(data)
        beta = bounded_steepness(solution)
        scores = tempered_scores(data.predictions, beta, inputs)
        return cls(beta, scores, data.labels, data.weights, solution.identity_loss)

    @property
    def total_weight(self) -> float:
        """Number of rows, or the sum of their weights."""
        return float(len(self.labels) if self.weights is None else self.weights.sum())

    def information(self, rows: slice) -> Vector:
        """Return the weight of every score in some rows, (rows, K): p (1 - p), its variance, times that of the row."""
        logarithms = log_softmax(self.scores[rows].astype(np.float64))
        information: Vector = np.exp(logarithms) * -np.expm1(logarithms)
        if self.weights is not None:
            information *= self.weights[rows, np.newaxis]
        return information

    def quantiles(self, n_parts: int) -> Vector:
        """Return places that part the scores into as many parts of equal information, at most ``n_parts`` - 1."""
        return weighted_quantiles(self.scores, self.information, np.arange(1, n_parts) / n_parts)


def _temperature(data: LabelledPredictions) -> Solution:
    """Return the best inverse temperature, sought around 1 and around that which makes logits of unit size."""
    logits = data.predictions.logits
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(row_maxima(logits).mean(dtype=np.float64) - logits.mean(dtype=np.float64))
    unit = 1 / size if 0 < size < np.inf else 1.0
    return fit_inverse_temperature(data, bounds=(BOUNDS[0] * min(1.0, unit), BOUNDS[1] * max(1.0, unit)))
