"""The column of the largest entry, kept where rounding would have given it to another."""

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.row_blocks import row_blocks

__all__ = ["restore_argmax"]


def restore_argmax(values: NDArray[np.floating], columns: NDArray[np.intp]) -> None:
    """Make the chosen column of every row hold its largest entry, the first of equals; in place.

    For rows in which that is true but for rounding: an increasing map followed by a cast to a narrower type may
    turn a narrow lead into a tie, and ``argmax`` then names the first of the two. Where this happened the
    chosen entry becomes the largest of the row, or the next number above it if an earlier column has the
    largest as well. Other rows are not touched, so the sum of a row changes by a rounding error only, and no
    entry of a row that sums to one gets above one. Costs O(nK) time, memory for one block of rows.

    >>> tied = np.array([[0.5, 0.5], [0.25, 0.75]], dtype=np.float32)
    >>> restore_argmax(tied, np.array([1, 1]))
    >>> tied.argmax(axis=1), tied[:, 1] - np.float32([0.5, 0.75])
    (array([1, 1]), array([5.9604645e-08, 0.0000000e+00], dtype=float32))
    """
    for rows in row_blocks(len(values), values.shape[1], values.itemsize):
        block, wanted = values[rows], columns[rows]
        first = block.argmax(axis=1)
        lost = np.flatnonzero(first != wanted)
        if len(lost) == 0:
            continue
        largest = block[lost, first[lost]]
        # A later column may hold the same number without being named by argmax.
        block[lost, wanted[lost]] = np.where(
            first[lost] < wanted[lost], np.nextafter(largest, np.inf, dtype=values.dtype), largest
        )
