"""Proper losses per row, and metrics that are the mean of one value per row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from calibrant.arrays import FloatArray, IntArray, Matrix, Vector
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import Evaluator
from calibrant.numerics.row_blocks import BlockSums, row_blocks
from calibrant.numerics.simplex import log_softmax, softmax
from calibrant.options import check_choice, is_number
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__: list[str] = []


Loss = Literal["log", "brier", "spherical"]

_BlockLoss = Callable[[Matrix, IntArray, Space], Vector]


def check_loss(loss: Any) -> None:
    """Raise unless this is the name of a loss."""
    check_choice("loss", loss, get_args(Loss))


def log_loss_ceiling(floor: Any) -> float:
    """Return the largest log-loss for a lower limit of the probability; raise unless it is in [0, 1)."""
    if not is_number(floor) or not 0 <= floor < 1:
        raise ParameterError(f"floor must be a number of at least 0 and below 1, but is {floor!r}.")
    return float(-np.log(float(floor))) if floor > 0 else np.inf


def row_losses(data: LabelledPredictions, loss: Loss) -> Vector:
    r"""Return the loss of every row, (n,); the weights of the rows have no effect.

    .. math::

        \ell_\mathrm{log} = -\log p_{iy_i}, \qquad
        \ell_\mathrm{brier} = \sum_k (p_{ik} - [y_i = k])^2, \qquad
        \ell_\mathrm{spherical} = 1 - \frac{p_{iy_i}}{\lVert p_i \rVert_2} .

    The Brier loss is halved for two classes, as in :func:`~calibrant.metrics.brier_score`. All losses are at least
    zero, lower is better, and zero means that the true class had probability one :cite:`gneiting2007`. The log-loss
    is infinite if the true class had probability zero; from logits it is exact and finite. Costs
    O(nK), or O(n) for the log-loss of given probabilities; memory O(n), also for logits.

    >>> data = LabelledPredictions.parse([[0.6, 0.4], [0.0, 1.0]], [0, 1])
    >>> row_losses(data, "log").round(6), row_losses(data, "brier").round(6)
    (array([0.510826, 0.      ]), array([0.16, 0.  ]))
    """
    check_loss(loss)
    if loss == "log":
        if data.predictions.space is Space.PROBABILITIES:
            return _log_of_probabilities(data)
        return _by_blocks(data, _log_of_logits)
    if loss == "spherical":
        return _by_blocks(data, _spherical)
    return _by_blocks(data, _half_brier if data.n_classes == 2 else _brier)


def _log_of_probabilities(data: LabelledPredictions) -> Vector:
    given = data.predictions.scores[np.arange(data.n_rows), data.labels].astype(np.float64)
    with np.errstate(divide="ignore"):
        # Rows sum to one only up to rounding; probabilities are capped at one.
        logarithms = np.log(np.minimum(given, 1.0, out=given), out=given)
    # Subtraction from zero, unlike a change of sign, never gives -0.0.
    return np.subtract(0.0, logarithms, out=logarithms)


def _log_of_logits(scores: Matrix, labels: IntArray, _: Space) -> Vector:
    logarithms: Vector = log_softmax(scores)[np.arange(len(scores)), labels].astype(np.float64, copy=False)
    return 0.0 - logarithms


def _brier(scores: Matrix, labels: IntArray, space: Space) -> Vector:
    difference = scores if space is Space.PROBABILITIES else softmax(scores)
    difference[np.arange(len(difference)), labels] -= 1
    distances: Vector = np.einsum("ik,ik->i", difference, difference)
    return distances


def _half_brier(scores: Matrix, labels: IntArray, space: Space) -> Vector:
    return _brier(scores, labels, space) / 2


def _spherical(scores: Matrix, labels: IntArray, space: Space) -> Vector:
    others = scores if space is Space.PROBABILITIES else softmax(scores)
    every = np.arange(len(others))
    truth = others[every, labels]
    others[every, labels] = 0
    wasted: Vector = np.einsum("ik,ik->i", others, others)
    length = np.sqrt(wasted + truth * truth)
    # Equal to 1 - truth / length, which would be all rounding error when the true class is almost certain.
    return wasted / (length * (length + truth))


def _by_blocks(data: LabelledPredictions, of_block: _BlockLoss) -> Vector:
    """Return the losses of all rows; the loss may overwrite its block of scores, a float64 copy."""
    scores, space = data.predictions.scores, data.predictions.space
    losses = np.empty(data.n_rows)

    def fill(rows: slice) -> int:
        losses[rows] = of_block(scores[rows].astype(np.float64), data.labels[rows], space)
        return 1

    with BlockSums.over(data.n_rows, data.n_classes) as for_all:
        for_all(fill)
    return losses


LossesOf = Callable[[IntArray], Vector]
"""The loss of every row, (n,), as a function of the column numbers of the true classes."""


def prepared_losses(predictions: Predictions, loss: Loss) -> LossesOf:
    r"""Return the losses of :func:`~calibrant.metrics.row_losses.row_losses` as a function of labels alone.

    Each loss depends on the probability of the true class and on one constant per row:

    .. math::

        -\log p_y = \log \sum_k e^{z_k} - z_y, \qquad
        \sum_k (p_k - [k = y])^2 = 1 - 2 p_y + \lVert p \rVert^2, \qquad
        1 - p_y / \lVert p \rVert .

    The constant is computed once, in O(nK); every label vector then costs O(n).
    """
    scores, space = predictions.scores, predictions.space
    everywhere = np.arange(predictions.n_rows)
    if loss == "log" and space is Space.PROBABILITIES:

        def log_losses(labels: IntArray) -> Vector:
            truth = scores[everywhere, labels].astype(np.float64)
            with np.errstate(divide="ignore"):
                return 0.0 - np.log(np.minimum(truth, 1.0, out=truth), out=truth)

        return log_losses
    normaliser, squares = _row_constants(predictions)
    if loss == "log":
        return lambda labels: np.maximum(normaliser - scores[everywhere, labels].astype(np.float64), 0.0)

    def truth_of(labels: IntArray) -> Vector:
        truth = scores[everywhere, labels].astype(np.float64)
        return truth if space is Space.PROBABILITIES else np.exp(truth - normaliser)

    if loss == "spherical":
        lengths = np.sqrt(squares)
        return lambda labels: np.maximum(1 - truth_of(labels) / lengths, 0.0)
    half = 0.5 if predictions.n_classes == 2 else 1.0
    return lambda labels: half * np.maximum(squares + 1 - 2 * truth_of(labels), 0.0)


def _row_constants(predictions: Predictions) -> tuple[Vector, Vector]:
    """Return, for every row, the log-sum-exp of its logits, and sum p^2."""
    normaliser, squares = np.zeros(predictions.n_rows), np.empty(predictions.n_rows)
    for rows in row_blocks(predictions.n_rows, predictions.n_classes):
        block: FloatArray = predictions.scores[rows].astype(np.float64)
        if predictions.space is Space.LOGITS:
            normaliser[rows] = block[:, 0] - log_softmax(block)[:, 0]
            block = softmax(block)
        squares[rows] = np.einsum("ik,ik->i", block, block)
    return normaliser, squares


@dataclass(frozen=True)
class MeanSums:
    """Weighted sums over rows; sums over disjoint sets of rows add up."""

    weight: float
    total: float

    def __add__(self, other: Self) -> Self:
        return type(self)(self.weight + other.weight, self.total + other.total)


@dataclass(frozen=True)
class MeanMetric:
    r"""The mean :math:`\frac{1}{W} \sum_i w_i v_i` of a value v of each row."""

    values: Callable[[LabelledPredictions], Vector]  # of labelled rows, (n,)
    values_of: Callable[[Predictions], LossesOf]  # of fixed predictions, as a function of labels

    def __call__(self, data: LabelledPredictions) -> float:
        """Return the metric."""
        return float(np.average(self.values(data), weights=data.weights))

    def of(self, data: LabelledPredictions) -> MeanSums:
        values = self.values(data)
        total = values.sum() if data.weights is None else data.weights @ values
        return MeanSums(data.total_weight, float(total))

    def of_parts(self, data: LabelledPredictions, part: IntArray, n_parts: int) -> tuple[Vector, Vector]:
        values = self.values(data)
        if data.weights is not None:
            values = data.weights * values
        return (
            np.bincount(part, data.weights, n_parts).astype(np.float64),
            np.bincount(part, values, n_parts).astype(np.float64, copy=False),
        )

    def from_arrays(self, *arrays: Vector) -> MeanSums:
        return MeanSums(*map(float, arrays))

    def check_batches(self) -> None:
        """Accept all options: sums over rows always add up."""

    def value(self, sums: MeanSums) -> float:
        return sums.total / sums.weight

    def prepared(self, predictions: Predictions) -> Evaluator:
        values_of = self.values_of(predictions)

        def evaluate(labels: IntArray, weights: Vector | None) -> float:
            values = values_of(labels)
            if weights is None:
                return float(values.mean())
            # A row that was not drawn has weight zero, and must not count even if its loss is infinite.
            total = weights @ np.where(weights > 0, values, 0.0)
            return float(total / weights.sum())

        return evaluate
