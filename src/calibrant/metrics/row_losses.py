"""Proper losses per row, from which scores, their differences and standard errors are computed."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.row_blocks import BlockSums
from calibrant.numerics.simplex import log_softmax, softmax
from calibrant.space import Space

__all__ = ["Loss", "check_loss", "row_losses"]

Loss = Literal["log", "brier", "spherical"]

_BlockLoss = Callable[[Matrix, NDArray[np.intp], Space], Vector]


def check_loss(loss: Any) -> None:
    """Raise unless this is the name of a loss."""
    if loss not in get_args(Loss):
        raise ParameterError(f"loss must be 'log', 'brier' or 'spherical', not {loss!r}.")


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


def _log_of_logits(scores: Matrix, labels: NDArray[np.intp], _: Space) -> Vector:
    logarithms: Vector = log_softmax(scores)[np.arange(len(scores)), labels].astype(np.float64, copy=False)
    return 0.0 - logarithms


def _brier(scores: Matrix, labels: NDArray[np.intp], space: Space) -> Vector:
    difference = scores if space is Space.PROBABILITIES else softmax(scores)
    difference[np.arange(len(difference)), labels] -= 1
    distances: Vector = np.einsum("ik,ik->i", difference, difference)
    return distances


def _half_brier(scores: Matrix, labels: NDArray[np.intp], space: Space) -> Vector:
    return _brier(scores, labels, space) / 2


def _spherical(scores: Matrix, labels: NDArray[np.intp], space: Space) -> Vector:
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
