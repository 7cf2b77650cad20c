"""Folds of rows that are random, yet the same whatever the order of the rows."""

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import content_seed, folds_by_content
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.simplex import softmax
from calibrant.space import Space

__all__ = ["cross_folds"]

Vector = NDArray[np.float64]
Rows = NDArray[np.intp]

# Decimals to which rows are compared when they are sorted: rows that differ only by rounding count as equal and
# are told apart by their labels, not by the rounding.
KEY_DECIMALS = 12


def cross_folds(data: LabelledPredictions, n_folds: int) -> list[Rows]:
    """Return the rows of every fold; each row is in one, and no fold is empty.

    Folds depend on the predictions of the rows and not on their order, and a row is never split between them
    whatever its weight, so that none is judged by a map that has seen it. Costs a sort.
    """
    n_folds = min(n_folds, data.n_rows)
    if n_folds < 2:
        return [np.arange(data.n_rows)]
    keys = _row_keys(data)
    folds = folds_by_content(keys, _fold_weights(data.weights), n_folds, _seed(data, keys[0]))
    return [fold.test_rows for fold in folds if len(fold.test_rows)]


def _seed(data: LabelledPredictions, key: Vector) -> int:
    """Return zero, or where rows have equal predictions a number that depends on what happened.

    Labels decide the order of such rows; with one seed for all data sets, the share of each label in each fold would
    then be a fixed function of their number, and the estimate biased by whatever that happens to be.
    """
    hits = data.predictions.predicted == data.labels
    order = np.lexsort((hits, key))
    ordered = key[order]
    return content_seed(hits[order]) if (ordered[1:] == ordered[:-1]).any() else 0


def _row_keys(data: LabelledPredictions) -> tuple[Vector, ...]:
    """Return what to sort rows by: their predictions, and labels only where these are equal.

    Folds that depended on labels would hold fixed shares of surprises, and no longer be a random split. Made from
    probabilities in float64, so that logits and their softmax, and both float types, agree; the first key does not
    depend on the order of the classes.
    """
    n_rows, n_classes = data.n_rows, data.n_classes
    squares, mixed = np.empty(n_rows), np.empty(n_rows)
    mixture = np.random.default_rng(0).uniform(1, 2, n_classes)
    for rows in row_blocks(n_rows, n_classes):
        scores = data.predictions.scores[rows].astype(np.float64)
        block = scores if data.predictions.space is Space.PROBABILITIES else softmax(scores)
        np.einsum("ik,ik->i", block, block, out=squares[rows])
        np.matmul(block, mixture, out=mixed[rows])
    return squares.round(KEY_DECIMALS), mixed.round(KEY_DECIMALS), data.labels.astype(np.float64), mixed


def _fold_weights(weights: Vector | None) -> Vector | None:
    """Return weights of the same ratios that are not taken for counts of rows: the largest is no whole number.

    Cut to twelve digits, so that a common factor, whose rounding differs from row to row, changes no comparison.
    """
    if weights is None:
        return None
    fraction, exponent = np.frexp(0.7 * (weights / weights.max()))
    return np.asarray(np.ldexp(fraction.round(KEY_DECIMALS), exponent), dtype=np.float64)
