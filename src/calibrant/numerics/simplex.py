"""Softmax and its relatives, row by row, in the float type of the input."""

import numpy as np

from calibrant.arrays import FloatArray
from calibrant.numerics.reductions import row_maxima, row_sums
from calibrant.numerics.row_blocks import row_blocks

__all__ = ["log_softmax", "softmax"]


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
