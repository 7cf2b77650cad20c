"""The one-parameter fit behind temperature scaling, and the start of every larger fit."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.reductions import row_maxima, row_sums
from calibrant.numerics.row_blocks import BlockSums
from calibrant.solvers import Solution, Status, bracketed_newton

__all__ = ["bounded_steepness", "fit_inverse_temperature", "start_temperature"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]

SAMPLE_ROWS = 1000  # enough for one per cent of beta, from where two or three passes over all rows suffice

SCRAMBLING = 1e4 * (5**0.5 - 1) / 2  # no simple fraction, so that regular rows are scrambled too


def fit_inverse_temperature(
    data: LabelledPredictions,
    loss: Literal["log", "brier"] = "log",
    bounds: tuple[float, float] = (1e-3, 1e3),
    tolerance: float | None = None,
) -> Solution:
    """Return the best inverse temperature as a one-element theta.

    A sample of the rows finds the neighbourhood when there are many rows; then all rows decide. The Brier score may
    have several minima: the sample finds where they are, and all rows decide which of them is the lowest.
    """
    logits, labels, weights = data.predictions.logits, data.labels, data.weights
    if tolerance is None:
        tolerance = 1e-7 if logits.dtype == np.float32 else 1e-10
    mean_loss = _MeanLoss(logits, labels, weights, loss)
    starts = [1.0]
    if len(labels) >= 4 * SAMPLE_ROWS or loss == "brier":
        rows = _sample(mean_loss)
        sample = _MeanLoss(logits[rows], labels[rows], None if weights is None else weights[rows], loss)
        rough = [1.0] if loss == "log" else _local_minima(sample, bounds)
        starts = [bracketed_newton(sample, start, bounds, tolerance=1e-2).argument for start in rough]
    with BlockSums.over(data.n_rows, data.n_classes, logits.itemsize) as mean_loss.sums:
        start = starts[0] if len(starts) == 1 else min(starts, key=lambda beta: mean_loss(beta)[0])
        found = bracketed_newton(mean_loss, start, bounds, tolerance=tolerance)
        identity_loss = mean_loss(1.0)[0]
    beta, value, status = found.argument, found.value, found.status
    if value > identity_loss:
        beta, value, status = 1.0, identity_loss, Status.IDENTITY
    return Solution(
        theta=np.array([beta]),
        value=value,
        loss=value,
        identity_loss=identity_loss,
        decrement=found.decrement,
        n_iterations=found.n_evaluations,
        n_evaluations=found.n_evaluations + 1,
        status=status,
    )


def bounded_steepness(solution: Solution) -> float:
    """Return the inverse temperature found, or 1 where rows are all right and none is steep enough.

    Where rows say nothing, or the opposite, the flat end of the range is the answer, and is kept.
    """
    best = float(solution.theta[0])
    return 1.0 if best > 1 and solution.status is Status.AT_BOUND else best


def start_temperature(data: LabelledPredictions) -> float:
    """Return the inverse temperature from which a larger fit starts and to which it shrinks.

    Where the rows are all right, or say nothing, the best one lies at the edge of its range and is no place to
    start from; then it is 1.
    """
    solution = fit_inverse_temperature(data)
    return 1.0 if solution.status is Status.AT_BOUND else float(solution.theta[0])


def _sample(mean_loss: "_MeanLoss") -> NDArray[np.intp] | slice:
    """Return about :data:`SAMPLE_ROWS` rows, the same whatever the order of the rows and of the classes."""
    if len(mean_loss.tops) < 4 * SAMPLE_ROWS:
        return slice(None)
    # Digits far behind the point are as good as random, and belong to what a row holds.
    gaps = np.asarray(mean_loss.logits.sum(axis=1, dtype=np.float64))
    gaps -= mean_loss.logits.shape[1] * mean_loss.tops[:, 0].astype(np.float64)
    scrambled = (gaps * SCRAMBLING) % 1.0
    return np.argpartition(scrambled, SAMPLE_ROWS)[:SAMPLE_ROWS]


def _local_minima(sample: "_MeanLoss", bounds: tuple[float, float]) -> list[float]:
    """Return the places of a coarse scan that are lower than both neighbours."""
    places = np.geomspace(*bounds, 25)
    values = np.array([sample(beta)[0] for beta in places.tolist()])
    padded = np.concatenate([[np.inf], values, [np.inf]])
    minima: list[float] = places[(values <= padded[:-2]) & (values <= padded[2:])].tolist()
    return minima


class _MeanLoss:
    """Mean loss of softmax(beta z) and its two derivatives in beta, summed over row blocks."""

    def __init__(
        self, logits: FloatArray, labels: NDArray[np.intp], weights: Vector | None, loss: str
    ) -> None:
        self.logits = logits
        self.tops = row_maxima(logits)[:, np.newaxis]
        of_labels = logits[np.arange(len(labels)), labels]
        self.label_gaps = of_labels - self.tops[:, 0]
        self.weights = weights
        self.total_weight = float(len(labels) if weights is None else weights.sum())
        self.rows = self._log_rows if loss == "log" else self._brier_rows
        self.sums: BlockSums | None = None

    def __call__(self, beta: float) -> tuple[float, float, float]:
        def block(rows: slice) -> Vector:
            return self._block(beta, rows)

        total = block(slice(None)) if self.sums is None else self.sums(block)
        value, first, second = total / self.total_weight
        return float(value), float(first), float(second)

    def _block(self, beta: float, rows: slice) -> Vector:
        gaps = self.logits[rows] - self.tops[rows]
        per_row = self.rows(gaps.dtype.type(beta), gaps, self.label_gaps[rows])
        if self.weights is None:
            return np.array([part.sum(dtype=np.float64) for part in per_row])
        return np.array([self.weights[rows] @ part for part in per_row])

    @staticmethod
    def _log_rows(beta: np.floating, gaps: FloatArray, label_gaps: FloatArray) -> list[FloatArray]:
        # With gaps <= 0 the exponentials cannot overflow and their sum is at least one.
        terms = np.exp(beta * gaps)
        total = row_sums(terms)
        terms *= gaps
        mean = row_sums(terms) / total
        terms *= gaps
        square = row_sums(terms) / total
        return [np.log(total) - beta * label_gaps, mean - label_gaps, square - mean**2]

    @staticmethod
    def _brier_rows(beta: np.floating, gaps: FloatArray, label_gaps: FloatArray) -> list[FloatArray]:
        # With m the mean of z under p and v its variance: p' = p (z - m) and p'' = p ((z - m)^2 - v).
        probabilities = np.exp(beta * gaps)
        total = row_sums(probabilities)
        probabilities /= total[:, np.newaxis]
        centred = gaps - row_sums(probabilities * gaps)[:, np.newaxis]
        first = probabilities * centred
        variance = np.einsum("ik,ik->i", first, centred)
        square = np.einsum("ik,ik->i", probabilities, probabilities)
        first_square = np.einsum("ik,ik->i", first, first)
        # The label's own column, from its gap alone.
        own = np.exp(beta * label_gaps) / total
        own_centred = label_gaps - (gaps[:, 0] - centred[:, 0])
        return [
            square - 2 * own + 1,
            2 * (np.einsum("ik,ik->i", probabilities, first) - own * own_centred),
            2 * (2 * first_square - variance * square - own * (own_centred**2 - variance)),
        ]
