"""Row and column sums, running sums, row maxima, and the standard error of a weighted mean."""

import numpy as np

from calibrant.arrays import FloatArray, Vector

__all__ = [
    "NARROW",
    "column_sums",
    "contiguous_row_sums",
    "row_maxima",
    "row_sums",
    "running_sums",
    "standard_error_of_mean",
]


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


# NumPy adds up contiguous numbers in this many partial sums.
PARTIAL_SUMS = 8


def contiguous_row_sums(matrix: FloatArray) -> FloatArray:
    """Return the sums of rows in the order in which NumPy adds up rows that are contiguous, for any layout.

    Narrow matrices that are stored by columns are added up column by column, in the same order.

    >>> contiguous_row_sums(np.array([[1.0, 2.0], [3.0, 4.0]], order="F"))
    array([3., 7.])
    """
    n_columns = matrix.shape[1]
    if n_columns > NARROW or matrix.flags.c_contiguous:
        totals: FloatArray = np.ascontiguousarray(matrix).sum(axis=1)
        return totals
    columns = list(matrix.T)
    n_whole = n_columns - n_columns % PARTIAL_SUMS
    if n_whole == 0:
        return _added(columns)
    sums = [_added(columns[place:n_whole:PARTIAL_SUMS]) for place in range(PARTIAL_SUMS)]
    while len(sums) > 1:
        sums = [first + second for first, second in zip(sums[::2], sums[1::2], strict=True)]
    return _added([sums[0], *columns[n_whole:]])


def _added(columns: list[FloatArray]) -> FloatArray:
    total = columns[0].copy()
    for column in columns[1:]:
        total += column
    return total


def column_sums(matrix: FloatArray) -> FloatArray:
    """Return the sum of every column, as a product with ones.

    >>> column_sums(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([4., 6.])
    """
    totals: FloatArray = np.ones(len(matrix), matrix.dtype) @ matrix
    return totals


# Up to this width a product with a triangle of ones is quicker than one sum after another.
WIDEST_TRIANGLE = 48


def running_sums(matrix: FloatArray, out: FloatArray, *, from_end: bool = False) -> FloatArray:
    """Return the sums of the first 1, 2, ... entries of every row, or of the last ones, in ``out``, up to rounding.

    >>> rows, out = np.array([[1.0, 2.0, 4.0]]), np.empty((1, 3))
    >>> running_sums(rows, out).tolist(), running_sums(rows, out, from_end=True).tolist()
    ([[1.0, 3.0, 7.0]], [[7.0, 6.0, 4.0]])
    """
    if matrix.shape[1] <= WIDEST_TRIANGLE:
        ones = np.tri(matrix.shape[1], dtype=matrix.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            np.matmul(matrix, ones if from_end else ones.T, out=out)
        # Zero times infinity is no zero.
        if np.isfinite(out[:, 0 if from_end else -1]).all():
            return out
    step = -1 if from_end else 1
    np.cumsum(matrix[:, ::step], axis=1, out=out[:, ::step])
    return out


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
