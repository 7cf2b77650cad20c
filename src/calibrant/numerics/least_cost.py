"""The rule by which decisions are taken: least cost, and the first of equals."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["SAME_COST", "first_of_least"]

SAME_COST = 1e-12
"""Expected costs that differ by less, relative to the largest cost, are equal: sums of rounded numbers."""


def first_of_least(expected: NDArray[np.float64], largest: float, axis: int) -> NDArray[np.intp]:
    """Return the number of the least entry along an axis, the first of those within :data:`SAME_COST` of it.

    Parameters
    ----------
    expected : ndarray
        Expected costs of decisions, which are numbered along ``axis``.
    largest : float
        Size of the largest cost, in units of which entries are equal.
    axis : int
        Along which to look.

    Examples
    --------
    >>> first_of_least(np.array([[0.3, 0.1 + 0.2], [0.1 + 0.2, 0.3], [0.4, 0.2]]), 1.0, axis=1)
    array([0, 0, 1])
    """
    least = expected.min(axis=axis, keepdims=True) + SAME_COST * largest
    first: NDArray[np.intp] = np.argmax(expected <= least, axis=axis)
    return first
