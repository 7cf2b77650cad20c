"""Losses of fixed predictions, for evaluation with many label vectors."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.metrics.row_losses import Loss
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.simplex import log_softmax, softmax
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["LossesOf", "prepared_losses"]


LossesOf = Callable[[NDArray[np.intp]], Vector]
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

        def log_losses(labels: NDArray[np.intp]) -> Vector:
            truth = scores[everywhere, labels].astype(np.float64)
            with np.errstate(divide="ignore"):
                return 0.0 - np.log(np.minimum(truth, 1.0, out=truth), out=truth)

        return log_losses
    normaliser, squares = _row_constants(predictions)
    if loss == "log":
        return lambda labels: np.maximum(normaliser - scores[everywhere, labels].astype(np.float64), 0.0)

    def truth_of(labels: NDArray[np.intp]) -> Vector:
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
        block: NDArray[np.floating] = predictions.scores[rows].astype(np.float64)
        if predictions.space is Space.LOGITS:
            normaliser[rows] = block[:, 0] - log_softmax(block)[:, 0]
            block = softmax(block)
        squares[rows] = np.einsum("ik,ik->i", block, block)
    return normaliser, squares
