"""Repairs of rounding errors in the order, or in the arg-max, of a row."""

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import BlockSums, row_blocks

__all__ = ["argmax_restored", "restore_argmax", "restore_order"]


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


def argmax_restored(values: NDArray[np.floating], reference: NDArray[np.floating]) -> None:
    """Give every row of a block the arg-max of the same row of ``reference``; in place, see :func:`restore_argmax`.

    >>> tied = np.array([[0.5, 0.5]], dtype=np.float32)
    >>> argmax_restored(tied, np.array([[0.4, 0.6]]))
    >>> int(tied.argmax())
    1
    """
    if len(values) == 1 and values.argmax() == reference.argmax():
        return
    # Rows whose largest entries are in the same columns have the same arg-max; that is seen without looking for it.
    largest = values == row_maxima(values)[:, np.newaxis]
    wanted = reference == row_maxima(reference)[:, np.newaxis]
    if np.array_equal(largest, wanted):
        return
    rows = np.flatnonzero((largest != wanted).any(axis=1))
    repaired = values[rows]
    restore_argmax(repaired, reference[rows].argmax(axis=1))
    values[rows] = repaired


def restore_order(values: NDArray[np.floating], reference: NDArray[np.floating]) -> None:
    """Give every row of ``values`` exactly the order of the same row of ``reference``, ties included; in place.

    For rows that have this order but for rounding. From the smallest entry upwards, an entry that must be larger
    than the one before and is not becomes the next number above that, and one that must be equal becomes equal.
    Rows in order are not touched; the others change by as many rounding steps as there are entries in a
    tie. Costs one sort of the rows.

    >>> values = np.array([[0.5, 0.5, 0.0]], dtype=np.float32)
    >>> restore_order(values, np.array([[0.4, 0.3, 0.3]]))
    >>> values[0, 0] > values[0, 1], values[0, 1] == values[0, 2]
    (np.True_, np.True_)
    """

    def restore(rows: slice) -> int:
        block = values[rows]
        order = np.argsort(reference[rows], axis=1, kind="stable")
        above = np.diff(np.take_along_axis(reference[rows], order, axis=1), axis=1) > 0
        sorted_values = np.take_along_axis(block, order, axis=1)
        steps = np.diff(sorted_values, axis=1)
        wrong = np.flatnonzero((np.where(above, steps <= 0, steps != 0)).any(axis=1))
        if len(wrong) == 0:
            return 0
        ladder, must_rise = sorted_values[wrong].T.copy(), above[wrong].T
        for place in range(1, len(ladder)):
            below = ladder[place - 1]
            next_above = np.nextafter(below, np.inf, dtype=values.dtype)
            ladder[place] = np.where(must_rise[place - 1], np.maximum(ladder[place], next_above), below)
        repaired = block[wrong]
        np.put_along_axis(repaired, order[wrong], ladder.T, axis=1)
        block[wrong] = repaired
        return len(wrong)

    with BlockSums.over(len(values), values.shape[1]) as in_all_blocks:
        in_all_blocks(restore)
