"""Scores at the best temperature: what one increasing function for all classes is applied to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.scaling.temperature_fit import bounded_steepness, fit_inverse_temperature
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.linear_segments import weighted_quantiles
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import BlockSums
from calibrant.numerics.simplex import log_softmax
from calibrant.predictions import Predictions
from calibrant.solvers import Solution

__all__ = ["Inputs", "TemperedScores", "mapped_scores", "tempered_scores"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]
Inputs = Literal["log-probabilities", "logits"]

BOUNDS = (1e-3, 1e3)


def tempered_scores(predictions: Predictions, inverse_temperature: float, inputs: Inputs) -> FloatArray:
    """Return what the function is applied to, (n, K), a new array in the float type of the scores.

    Logarithms of probabilities at the temperature, or the logits themselves divided by it. The former do not change
    if a constant is added to a row of logits; the latter do.
    """
    logits = predictions.logits
    scaled: FloatArray = logits * logits.dtype.type(inverse_temperature)
    return log_softmax(scaled) if inputs == "log-probabilities" else scaled


def mapped_scores(
    predictions: Predictions,
    inverse_temperature: float,
    inputs: Inputs,
    curve: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """Return calibrated logits (n, K): one function of all :func:`tempered_scores`, block by block; a new array."""
    scores = tempered_scores(predictions, inverse_temperature, inputs)

    def fill(rows: slice) -> int:
        scores[rows] = curve(scores[rows])
        return 1

    with BlockSums.over(*scores.shape) as in_all_blocks:
        in_all_blocks(fill)
    return scores


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
        Mean log-loss of doing nothing.
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
