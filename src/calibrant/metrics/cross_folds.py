"""Random folds of rows that do not depend on the order of the rows."""

import numpy as np

from calibrant.arrays import IntArray, Vector
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import content_seed, folds_by_content
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.simplex import softmax
from calibrant.space import Space

__all__ = ["cross_folds"]


# Decimals to which sort keys are compared. Rows that differ only by rounding count as equal and are ordered by their
# labels, not by the rounding.
KEY_DECIMALS = 12


def cross_folds(data: LabelledPredictions, n_folds: int) -> list[IntArray]:
    """Return the rows of every fold; each row is in exactly one fold, and no fold is empty.

    Folds depend on the predictions of the rows and not on their order. A row is never split between folds, whatever
    its weight, so no row is evaluated by a map that was fitted to it. Costs a sort.
    """
    n_folds = min(n_folds, data.n_rows)
    if n_folds < 2:
        return [np.arange(data.n_rows)]
    keys = _row_keys(data)
    folds = folds_by_content(keys, _fold_weights(data.weights), n_folds, _seed(data, keys[0]))
    return [fold.test_rows for fold in folds if len(fold.test_rows)]


def _seed(data: LabelledPredictions, key: Vector) -> int:
    """Return zero, or if some rows have equal predictions, a seed that depends on their outcomes.

    Labels decide the order of rows with equal predictions. With the same seed for all data sets, the label frequencies of
    each fold would be a fixed function of the class counts, and the estimate would be biased by them.
    """
    hits = data.predictions.predicted == data.labels
    order = np.lexsort((hits, key))
    ordered = key[order]
    return content_seed(hits[order]) if (ordered[1:] == ordered[:-1]).any() else 0


def _row_keys(data: LabelledPredictions) -> tuple[Vector, ...]:
    """Return the sort keys of rows: their predictions, and labels only to break ties.

    Folds that depended on labels would hold fixed numbers of wrong predictions and not be a random split. Keys are
    computed from probabilities in float64, so that logits and their softmax agree, as do both float types. The first
    key does not depend on the order of the classes.
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
    """Return weights of the same ratios that cannot be mistaken for row counts: the largest is not an integer.

    Rounded to twelve digits, so that a common factor, whose rounding differs between rows, changes no comparison.
    """
    if weights is None:
        return None
    fraction, exponent = np.frexp(0.7 * (weights / weights.max()))
    return np.asarray(np.ldexp(fraction.round(KEY_DECIMALS), exponent), dtype=np.float64)
