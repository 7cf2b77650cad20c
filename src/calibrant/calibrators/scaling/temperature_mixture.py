"""Predictions at two temperatures and the uniform ones: their mixture, and the best weights of it."""

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.kept_order import restore_argmax
from calibrant.numerics.reductions import row_maxima, row_sums
from calibrant.numerics.row_blocks import BlockSums
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, least_squares_weights, likeliest_weights
from calibrant.space import Space

__all__ = ["fit_mixture_weights", "mixed_probabilities"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]

# Weight of the uniform predictions where the given ones would be alone: too little to be seen in a loss, and
# enough for a class to which the classifier gave nothing not to be called impossible.
TRACE = 1e-10


def mixed_probabilities(predictions: Predictions, inverse_temperature: float, weights: Vector) -> FloatArray:
    """Return w1 softmax(beta z) + w2 softmax(z) + w3 / K, in the float type of the scores.

    No entry is zero, not even by underflow, and every row keeps its arg-max, although rounding makes entries
    equal that were not. Costs O(nK); of memory the result and a few blocks of rows.
    """
    result = np.empty(predictions.scores.shape, predictions.scores.dtype)
    of_tempered, of_given, of_uniform = weights.astype(result.dtype)
    share = result.dtype.type(of_uniform / predictions.n_classes)

    def mix(rows: slice) -> int:
        part = predictions.take(rows)
        block = result[rows]
        block[:] = share
        if of_tempered > 0:
            tempered = _tempered(part.logits, inverse_temperature)
            tempered *= of_tempered
            block += tempered
        if of_given > 0:
            given = _given(part)
            given *= of_given
            block += given
        np.maximum(block, np.finfo(block.dtype).tiny, out=block)
        restore_argmax(block, part.scores.argmax(axis=1))
        return 1

    with BlockSums.over(predictions.n_rows, predictions.n_classes, result.itemsize) as in_all_blocks:
        in_all_blocks(mix)
    return result


def fit_mixture_weights(
    data: LabelledPredictions, inverse_temperature: float, loss: Literal["log", "brier"]
) -> Solution:
    """Return the best weights of the three parts at this temperature as theta, the parts in that order.

    ``identity_loss`` is that of the given probabilities; NaN where they call impossible what happened.
    """
    fit = _likeliest if loss == "log" else _least_squares
    solution = fit(data, inverse_temperature)
    if solution.theta[1] > 1 - TRACE:
        solution = replace(solution, theta=np.array([0, 1 - TRACE, TRACE]))
    return solution


def _likeliest(data: LabelledPredictions, inverse_temperature: float) -> Solution:
    likelihoods = np.full((data.n_rows, 3), 1 / data.n_classes)

    def fill(rows: slice) -> int:
        part, labels = data.predictions.take(rows), data.labels[rows]
        tempered = _tempered(data.predictions.logits[rows], inverse_temperature)
        likelihoods[rows, 0] = tempered[np.arange(len(labels)), labels]
        likelihoods[rows, 1] = _given(part)[np.arange(len(labels)), labels]
        return 1

    with BlockSums.over(data.n_rows, data.n_classes, data.predictions.scores.itemsize) as in_all_blocks:
        in_all_blocks(fill)
    solution = likeliest_weights(likelihoods, data.weights)
    given = likelihoods[:, 1]
    if given.min() == 0:
        return solution
    return replace(solution, identity_loss=-float(np.average(np.log(given), weights=data.weights)))


def _least_squares(data: LabelledPredictions, inverse_temperature: float) -> Solution:
    def block(rows: slice) -> Vector:
        given, labels = _given(data.predictions.take(rows)), data.labels[rows]
        # In float32 sums lose digits, and the weights depend on differences of these sums.
        parts = np.empty((2, *given.shape))
        parts[0] = _tempered(data.predictions.logits[rows], inverse_temperature)
        parts[1] = given
        counted = parts if data.weights is None else data.weights[rows, np.newaxis] * parts
        products = counted.reshape(2, -1) @ parts.reshape(2, -1).T
        return np.append(products, counted[:, np.arange(len(labels)), labels].sum(axis=1))

    with BlockSums.over(data.n_rows, data.n_classes, data.predictions.scores.itemsize) as sums:
        totals = sums(block) / data.total_weight
    # Products of a distribution with the uniform one are always 1 / K.
    gram, linear = np.full((3, 3), 1 / data.n_classes), np.full(3, 1 / data.n_classes)
    gram[:2, :2], linear[:2] = totals[:4].reshape(2, 2), totals[4:]
    gram[1, 0] = gram[0, 1]
    solution = least_squares_weights(gram, linear, 1.0)
    return replace(solution, identity_loss=float(gram[1, 1] - 2 * linear[1] + 1))


def _tempered(logits: FloatArray, inverse_temperature: float) -> FloatArray:
    """Return softmax(beta z)."""
    block = logits - row_maxima(logits)[:, np.newaxis]
    with np.errstate(over="ignore"):
        block *= block.dtype.type(inverse_temperature)
    np.exp(block, out=block)
    block /= row_sums(block)[:, np.newaxis]
    return block


def _given(part: Predictions) -> FloatArray:
    """Return the probabilities as the classifier gave them, every row divided by its sum."""
    if part.space is Space.LOGITS:
        return _tempered(part.scores, 1.0)
    normalised: FloatArray = part.scores / row_sums(part.scores)[:, np.newaxis]
    return normalised
