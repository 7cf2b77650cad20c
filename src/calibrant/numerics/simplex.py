"""Rows on the simplex: softmax, floors for zeros, and one-vs-rest sums."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.numerics.reductions import NARROW, row_maxima, row_sums
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.row_order import argmax_restored

__all__ = [
    "Rest",
    "bounded_gaps",
    "log_softmax",
    "renormalised_restriction",
    "rest_of_classes",
    "rest_of_largest",
    "softmax",
    "with_floor",
]


def softmax(scores: FloatArray) -> FloatArray:
    """Return exp(scores) with every row divided by its sum, never overflowing.

    The maximum of each *row* is subtracted first; a maximum over the whole array would turn rows far
    below it into 0/0. Costs O(nK), works in blocks that stay in the cache, allocates the result only.

    >>> softmax(np.array([[0.0, np.log(3.0)], [1e4, -1e4]]))
    array([[0.25, 0.75], [1.  , 0.  ]])
    """
    result = np.empty_like(scores)
    for rows in row_blocks(len(scores), scores.shape[1], scores.itemsize):
        block = result[rows]
        np.subtract(scores[rows], row_maxima(scores[rows])[:, np.newaxis], out=block)
        np.exp(block, out=block)
        block /= row_sums(block)[:, np.newaxis]
    return result


def log_softmax(scores: FloatArray) -> FloatArray:
    """Return the logarithm of :func:`softmax` without ever forming the softmax.

    >>> log_softmax(np.array([[0.0, 0.0], [0.0, -2e4]]))
    array([[-6.93147181e-01, -6.93147181e-01], [ 0.00000000e+00, -2.00000000e+04]])
    """
    result = np.empty_like(scores)
    for rows in row_blocks(len(scores), scores.shape[1], scores.itemsize):
        block = result[rows]
        np.subtract(scores[rows], row_maxima(scores[rows])[:, np.newaxis], out=block)
        block -= np.log(row_sums(np.exp(block)))[:, np.newaxis]
    return result


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


class Rest(NamedTuple):
    """The largest entry of every row, its column, and the sum of the other entries; of logits its logarithm."""

    largest: Vector
    column: NDArray[np.intp]
    rest: Vector


def rest_of_largest(scores: FloatArray, *, logits: bool) -> Rest:
    """Return the largest entry of every row of a block and the sum of the others, added up without it.

    >>> rest_of_largest(np.array([[1.0, 1e-20, 1e-20]]), logits=False).rest
    array([2.e-20])
    """
    rows, column = np.arange(len(scores)), scores.argmax(axis=1)
    others = scores.astype(np.float64)
    largest = others[rows, column]
    if logits:
        _, second, totals = _other_parts(others, column)
        rest: Vector = np.asarray(second + np.log(totals), dtype=np.float64)[:, 0]
    else:
        others[rows, column] = 0.0
        rest = np.asarray(row_sums(others), dtype=np.float64)
    return Rest(largest, column, rest)


def rest_of_classes(scores: FloatArray, *, logits: bool) -> Vector:
    """Return the sum of all other entries of the row in every column of a block; of logits its logarithm.

    The rest of a class is the total minus the class, except for the largest entry of a row: where a class has nearly
    all of the probability, the difference would have lost its digits.

    >>> rest_of_classes(np.array([[0.2, 0.5, 0.3], [1.0, 1e-20, 1e-20]]), logits=False)
    array([[8.e-01, 5.e-01, 7.e-01],
           [2.e-20, 1.e+00, 1.e+00]])
    """
    wide = scores.astype(np.float64, copy=False)
    if scores.shape[1] <= NARROW:
        largest = _tops(wide)
        is_largest = wide == largest
        if np.count_nonzero(is_largest) == len(wide):  # no ties
            if not logits:
                rest = _totals(np.where(is_largest, 0.0, wide))
                differences: Vector = np.subtract(largest + rest, wide)
                np.copyto(differences, rest, where=is_largest)
                return differences
            parts: Vector = np.where(is_largest, -np.inf, wide)
            second = _tops(parts)
            parts -= second
            np.exp(parts, out=parts)
            totals = _totals(parts)
            rests = _log_rests(parts, totals, largest, second)
            np.copyto(rests, second + np.log(totals), where=is_largest)
            return rests
    rows, column = np.arange(len(scores)), scores.argmax(axis=1)
    own = wide[rows, column]
    if logits:
        parts, second, totals = _other_parts(wide, column)
        rests = _log_rests(parts, totals, own[:, np.newaxis], second)
        rests[rows, column] = (second + np.log(totals))[:, 0]
        return rests
    rest = rest_of_largest(scores, logits=False).rest
    sums: Vector = np.subtract((own + rest)[:, np.newaxis], scores)
    sums[rows, column] = rest
    return sums


def _tops(matrix: Vector) -> Any:
    """Return the largest entry of every row, (n, 1); of a single row as a number, which takes less time."""
    return matrix.item(matrix.argmax()) if len(matrix) == 1 else row_maxima(matrix)[:, np.newaxis]


def _totals(matrix: Vector) -> Any:
    """Return the sums of narrow rows, (n, 1); of a single row as a number."""
    return np.add.accumulate(matrix, axis=1).item(-1) if len(matrix) == 1 else row_sums(matrix)[:, np.newaxis]


def _other_parts(logits: Vector, column: NDArray[np.intp]) -> tuple[Vector, FloatArray, FloatArray]:
    """Return the exponentials of all logits but the largest, relative to the second largest, that one, and their sum."""
    parts = logits.copy()
    parts[np.arange(len(parts)), column] = -np.inf
    second = row_maxima(parts)[:, np.newaxis]
    parts -= second
    np.exp(parts, out=parts)
    return parts, second, row_sums(parts)[:, np.newaxis]


def _log_rests(parts: Vector, totals: Any, largest: Any, second: Any) -> Vector:
    r"""Return :math:`\log \sum_{j \ne k} e^{x_j}` for all logits but the largest; overwrites the exponentials.

    .. math:: \log\bigl(e^{m} + e^{s} (t - a_k)\bigr) = m + \log\bigl(1 + e^{s - m} (t - a_k)\bigr)

    with m the largest and s the second largest logit, and t the sum of the exponentials :math:`a_k`.
    """
    np.subtract(totals, parts, out=parts)
    parts *= np.exp(second - largest)
    parts += 1
    np.log(parts, out=parts)
    parts += largest
    return parts
