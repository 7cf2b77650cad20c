"""Few rows at a time: reductions along a row that cost one call of NumPy, with the bits of those for many rows."""

import numpy as np

from calibrant.arrays import FloatArray
from calibrant.numerics.reductions import NARROW, row_maxima, row_sums

__all__ = ["FEW_ROWS", "row_tops", "row_totals"]


# Up to this number of rows the time goes into calls of NumPy, not into numbers; their blocks are stored row by row.
FEW_ROWS = 16


def row_tops(x: FloatArray) -> FloatArray:
    """Return the largest entry of every row, (n, 1).

    >>> row_tops(np.array([[1.0, 2.0], [4.0, 3.0]]))
    array([[2.], [4.]])
    """
    if len(x) > FEW_ROWS:
        return row_maxima(x)[:, np.newaxis]
    tops: FloatArray = np.maximum.reduce(x, axis=1, keepdims=True)
    return tops


def row_totals(x: FloatArray) -> FloatArray:
    """Return the sum of every row, (n, 1).

    >>> row_totals(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[3.], [7.]])
    """
    if len(x) > FEW_ROWS:
        return row_sums(x)[:, np.newaxis]
    if x.shape[1] > NARROW:
        totals: FloatArray = np.add.reduce(x, axis=1, keepdims=True)
        return totals
    # From left to right, as sums of many narrow rows are taken; a sum of one row alone is not.
    return np.add.accumulate(x, axis=1)[:, -1:]
