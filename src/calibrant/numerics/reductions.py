"""Sums and maxima along one axis of a tall matrix, by the fastest way for its width."""

import numpy as np

from calibrant.arrays import FloatArray

__all__ = ["NARROW", "column_sums", "row_maxima", "row_sums"]


# Up to this width numpy's own reduction along a row spends more time on starting rows than on adding them up.
NARROW = 50


def row_sums(matrix: FloatArray) -> FloatArray:
    """Return the sum of every row; a row's sum does not depend on the rows around it, to the last bit.

    >>> row_sums(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([3., 7.])
    """
    if matrix.shape[1] > NARROW:
        totals: FloatArray = matrix.sum(axis=1)
    elif len(matrix) == 1:
        # One entry after another, as below; NumPy would add the entries of a single row in pairs.
        totals = np.add.accumulate(matrix, axis=1)[:, -1]
    else:
        totals = np.ascontiguousarray(matrix.T).sum(axis=0)
    return totals


def column_sums(matrix: FloatArray) -> FloatArray:
    """Return the sum of every column, as a product with ones.

    >>> column_sums(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([4., 6.])
    """
    totals: FloatArray = np.ones(len(matrix), matrix.dtype) @ matrix
    return totals


def row_maxima(matrix: FloatArray) -> FloatArray:
    """Return the largest entry of every row.

    >>> row_maxima(np.array([[1.0, 2.0], [4.0, 3.0]]))
    array([2., 4.])
    """
    if matrix.shape[1] > NARROW:
        largest: FloatArray = matrix.max(axis=1)
    else:
        largest = np.ascontiguousarray(matrix.T).max(axis=0)
    return largest
