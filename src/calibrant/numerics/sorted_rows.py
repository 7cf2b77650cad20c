"""Rows sorted downwards, the gaps between neighbours, and the way back."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray

__all__ = ["SortedRows"]


@dataclass(frozen=True, eq=False)
class SortedRows:
    """The entries of every row from the largest to the smallest.

    Attributes
    ----------
    order : ndarray of shape (n, K)
        Column that comes first, second and so on; of equal entries the one further to the left comes first.
    values : ndarray of shape (n, K)
        The entries in that order.

    Examples
    --------
    >>> rows = SortedRows.of(np.array([[1.0, 4.0, 2.0]]))
    >>> rows.order, rows.gaps
    (array([[1, 2, 0]]), array([[2., 1.]]))
    >>> rows.descending_by(rows.gaps)           # the same row, but for its largest entry
    array([[-3.,  0., -2.]])
    >>> rows.places_of(np.array([0]))
    array([2])
    """

    order: NDArray[np.intp]
    values: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> Self:
        """Sort every row of (n, K); one stable sort each."""
        order = np.argsort(-rows, axis=1, kind="stable")
        return cls(order, np.take_along_axis(rows, order, axis=1))

    @property
    def gaps(self) -> FloatArray:
        """How much each entry exceeds the next one, (n, K - 1); zero between equals."""
        gaps: FloatArray = self.values[:, :-1] - self.values[:, 1:]
        return gaps

    def places_of(self, columns: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return how many entries come before the one in the given column of each row, (n,)."""
        places: NDArray[np.intp] = (self.order == columns[:, np.newaxis]).argmax(axis=1)
        return places

    def descending_by(self, steps: FloatArray) -> FloatArray:
        """Return rows (n, K) whose largest entry is 0 and which go down by ``steps`` (n, K - 1) in this order."""
        fallen = np.zeros((len(steps), steps.shape[1] + 1), dtype=steps.dtype)
        np.cumsum(steps, axis=1, out=fallen[:, 1:])
        rows = np.empty_like(fallen)
        np.put_along_axis(rows, self.order, np.subtract(0, fallen, out=fallen), axis=1)
        return rows
