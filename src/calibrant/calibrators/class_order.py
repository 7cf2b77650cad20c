"""Canonical order of the classes: by what the rows contain, whatever the order of the columns and of the rows."""

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import row_blocks
from calibrant.objective import RowSource

__all__ = ["canonical_class_order"]


# Sums of equal terms in another order differ by far less, and classes that differ in one of a million rows by far more.
DECIMALS = 9

# Frequencies of the waves by which entries, labels and colours of the classes are told apart; any irrational ratios will do.
OF_SCORE, OF_LABEL, OF_COLOUR, OF_ENTRY, OF_ROW = np.sqrt([2.0, 5.0, 7.0, 3.0, 11.0])


def canonical_class_order(source: RowSource) -> NDArray[np.intp]:
    """Return column numbers in an order that follows any permutation of the columns, (K,).

    Colour refinement (Weisfeiler and Leman): a class is known by the mean, over the rows, of a function of its own entry,
    of whether it is the label, and of all entries of the row as a set. Where classes tie, further passes also look at the
    colours of the other classes in the row. Multiplying all weights by a constant, or giving a row twice in place of a
    weight of two, changes nothing. Classes that the rows do not tell apart stay in the order of their columns.

    Costs one pass of O(nK), one more for every round of refinement; nearly always one is enough.
    """
    n_classes = source.n_classes
    colours = np.zeros(n_classes, dtype=np.intp)
    n_colours = 1
    while True:
        content = source.summed(lambda data: _content(data, colours / n_classes))  # noqa: B023 (called at once)
        means = np.round(content[:-1] / content[-1], DECIMALS)
        different, refined = np.unique(np.stack([colours, means], axis=1), axis=0, return_inverse=True)
        colours = refined.reshape(-1)
        if len(different) in (n_classes, n_colours):
            return np.argsort(colours, kind="stable")
        n_colours = len(different)


def _content(data: LabelledPredictions, colours: Vector) -> Vector:
    """Return the sum of what is known about every class, and the total weight, (K + 1,)."""
    content = np.zeros(data.n_classes + 1)
    for rows in row_blocks(data.n_rows, data.n_classes):
        scores = data.predictions.scores[rows].astype(np.float64)
        with np.errstate(over="ignore"):
            below_top = row_maxima(scores)[:, np.newaxis] - scores
        # Smooth, so that rounding stays rounding, and on a scale on which huge logits still differ.
        entries = OF_SCORE * np.log1p(np.minimum(below_top, np.finfo(np.float64).max)) + OF_COLOUR * colours
        entries[np.arange(len(entries)), data.labels[rows]] += OF_LABEL
        of_row = np.sin(entries).sum(axis=1, keepdims=True)
        weights = np.ones(len(entries)) if data.weights is None else data.weights[rows]
        content[:-1] += weights @ np.cos(OF_ENTRY * entries + OF_ROW * of_row)
        content[-1] += weights.sum()
    return content
