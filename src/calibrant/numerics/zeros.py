"""Probabilities of zero: a floor in their place, and logits whose softmax has none."""

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray
from calibrant.numerics.kept_order import argmax_restored
from calibrant.numerics.reductions import row_maxima, row_sums

__all__ = ["bounded_gaps", "renormalised_restriction", "with_floor"]


ROUNDING_OF_LOGITS = 0.01  # beyond which differences of huge logits are no longer what they were


def with_floor(probabilities: FloatArray, floor: float, *, only_zeros: bool = False) -> FloatArray:
    """Return rows with the floor in the place of smaller entries, divided by their sums; other rows are not touched.

    The arg-max of every row stays. The array itself is returned where no row changes. With ``only_zeros`` only rows
    that have an exact zero change.

    >>> with_floor(np.array([[1.0, 0.0], [0.9, 0.1]]), 0.05).round(3)
    array([[0.952, 0.048], [0.9  , 0.1  ]])
    """
    kind = probabilities.dtype
    least = max(floor, float(np.finfo(kind).tiny))
    if only_zeros:
        if probabilities.all():
            return probabilities
        rows = np.flatnonzero((probabilities == 0).any(axis=1))
    else:
        if probabilities.min() >= least:
            return probabilities
        rows = np.flatnonzero((probabilities < least).any(axis=1))
    given = probabilities[rows]
    raised = np.maximum(given, kind.type(least))
    raised /= raised.sum(axis=1, keepdims=True)
    argmax_restored(raised, given)
    result = probabilities.copy()
    result[rows] = raised
    return result


def bounded_gaps(logits: FloatArray) -> FloatArray:
    """Return logits that are not so far apart that their softmax has zeros; the array itself where none is.

    >>> bounded_gaps(np.array([[0.0, -1e4]])).round()
    array([[   0., -708.]])
    """
    # Further below the largest, a softmax of this float type would be zero.
    tops, kind = row_maxima(logits)[:, np.newaxis], np.finfo(logits.dtype)
    with np.errstate(over="ignore"):
        gaps = logits - tops
    least = np.log(kind.tiny).astype(logits.dtype)
    is_too_far = (gaps < least).any(axis=1, keepdims=True)
    if not is_too_far.any():
        return logits
    # A huge logit plus a small number is the logit itself: such rows become gaps.
    huge = is_too_far & (np.abs(tops) * kind.eps > ROUNDING_OF_LOGITS)
    raised: FloatArray = np.where(huge, np.maximum(gaps, least), np.maximum(logits, tops + least))
    return raised


def renormalised_restriction(probabilities: FloatArray, columns: NDArray[np.intp]) -> FloatArray:
    """Return the probabilities of some classes given that the class is one of them.

    A row that gives these classes nothing says nothing about them: it becomes uniform.

    >>> renormalised_restriction(np.array([[0.2, 0.2, 0.6], [0.0, 0.0, 1.0]]), np.array([0, 1]))
    array([[0.5, 0.5], [0.5, 0.5]])
    """
    scores = probabilities[:, columns]
    total = row_sums(scores)[:, np.newaxis]
    restricted: FloatArray = np.divide(
        scores, total, out=np.full_like(scores, 1 / len(columns)), where=total > 0
    )
    return restricted
