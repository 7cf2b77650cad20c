"""What one increasing function for all classes is fitted to: tempered scores, and the log-loss of its slopes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.scaling.temperature_fit import bounded_steepness, fit_inverse_temperature
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.linear_segments import LinearSegments, weighted_quantiles
from calibrant.numerics.reductions import row_maxima, row_sums
from calibrant.numerics.row_blocks import BlockSums
from calibrant.numerics.simplex import log_softmax
from calibrant.objective import CrossEntropy
from calibrant.predictions import Predictions
from calibrant.solvers import Solution
from calibrant.solvers.bounded_newton import ConvexExpansion

__all__ = ["Inputs", "SharedMapObjective", "TemperedScores", "mapped_scores", "tempered_scores"]

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


@dataclass(frozen=True, eq=False)
class SharedMapObjective:
    r"""Mean log-loss of one piecewise-linear function for all classes, as a function of its slopes.

    .. math:: F(s) = \frac{1}{\sum_i w_i} \Big[ \sum_i w_i\, \ell\big(\varphi_s(x_i), y_i\big)
              + \lambda \sum_j (s_j - 1)^2 + \mu \sum_j (s_{j+1} - s_j)^2 \Big]

    Convex, since :math:`\varphi_s` is linear in the slopes. With :math:`G_i` (K, m) the segments of the K scores of a
    row, its gradient is :math:`\sum_i w_i G_i^\top (p_i - e_{y_i})` and its Hessian
    :math:`\sum_i w_i G_i^\top (\mathrm{diag}\, p_i - p_i p_i^\top) G_i`, both from one pass.

    Attributes
    ----------
    rows : TemperedScores
        Calibration rows.
    segments : LinearSegments
        Where the slopes hold.
    slope_penalty, difference_penalty : float
        :math:`\lambda` and :math:`\mu`.
    """

    rows: TemperedScores
    segments: LinearSegments
    slope_penalty: float
    difference_penalty: float

    @property
    def penalty(self) -> NDArray[np.float64]:
        """Hessian of the penalty, (m, m)."""
        size = self.segments.n_segments
        differences = np.diff(np.eye(size), axis=0)
        strength = self.slope_penalty * np.eye(size) + self.difference_penalty * differences.T @ differences
        return 2 * strength / self.rows.total_weight

    def expand(self, slopes: Vector) -> ConvexExpansion:
        """Return value, gradient and Hessian."""
        size = self.segments.n_segments
        with BlockSums.over(len(self.rows.labels), self.rows.scores.shape[1] * size) as in_all_blocks:
            total = in_all_blocks(lambda block: self._block(slopes, block)) / self.rows.total_weight
        loss, gradient, hessian = total[0], total[1 : size + 1], total[size + 1 :].reshape(size, size)
        pull = self.penalty @ (slopes - 1)
        return ConvexExpansion(float(loss + (slopes - 1) @ pull / 2), gradient + pull, hessian + self.penalty)

    def price(self, slopes: Vector) -> float:
        """Return the penalty alone."""
        return float((slopes - 1) @ self.penalty @ (slopes - 1) / 2)

    def _block(self, slopes: Vector, rows: slice) -> Vector:
        """Return the sums of losses, gradients and Hessians of some rows, one after the other."""
        size = len(slopes)
        scores = self.rows.scores[rows].astype(np.float64, copy=False)
        shape = scores.shape
        features = self.segments.features(scores).reshape(size, -1)  # (m, rows * K)
        losses, probabilities, gradients = CrossEntropy().expand(
            (slopes @ features).reshape(shape), self.rows.labels[rows]
        )
        likely = features * probabilities.ravel()
        means = row_sums(likely.reshape(-1, shape[1])).reshape(size, -1)  # (m, rows)
        weights = None if self.rows.weights is None else self.rows.weights[rows]
        if weights is None:
            loss, weighted_means = losses.sum(), means
        else:
            loss, weighted_means = losses @ weights, means * weights
            gradients *= weights[:, np.newaxis]
            likely *= np.repeat(weights, shape[1])
        hessian = likely @ features.T - weighted_means @ means.T
        return np.concatenate([[loss], features @ gradients.ravel(), hessian.ravel()])


def _temperature(data: LabelledPredictions) -> Solution:
    """Return the best inverse temperature, sought around 1 and around that which makes logits of unit size."""
    logits = data.predictions.logits
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(row_maxima(logits).mean(dtype=np.float64) - logits.mean(dtype=np.float64))
    unit = 1 / size if 0 < size < np.inf else 1.0
    return fit_inverse_temperature(data, bounds=(BOUNDS[0] * min(1.0, unit), BOUNDS[1] * max(1.0, unit)))
