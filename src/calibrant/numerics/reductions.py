"""Row and column sums, row maxima, and the standard error of a weighted mean."""

import numpy as np

from calibrant.arrays import FloatArray, Vector

__all__ = ["NARROW", "column_sums", "row_maxima", "row_sums", "standard_error_of_mean"]


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


def standard_error_of_mean(terms: Vector, weights: Vector | None) -> float:
    r"""Return the standard error of the weighted mean of independent terms.

    .. math:: \frac{1}{W} \Bigl( \sum_i \frac{w_i^2 (t_i - \bar t)^2}{1 - w_i / W} \Bigr)^{1/2}

    Infinite for one row, which says nothing of how others differ, and for infinite terms.

    >>> standard_error_of_mean(np.array([0.0, 2.0]), None)
    1.0
    """
    n_rows = len(terms)
    if n_rows < 2 or not np.isfinite(terms).all():
        return float("inf")
    shares = np.full(n_rows, 1 / n_rows) if weights is None else weights / weights.sum()
    deviations = shares * (terms - shares @ terms)
    return float(np.sqrt((deviations * deviations / (1 - shares)).sum()))
