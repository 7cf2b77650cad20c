"""Rounding: fewer digits, midpoints of floats, and arg-min with ties within rounding."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray

__all__ = ["SAME_COST", "argmin_within_rounding", "cell_width", "midpoint", "rounded_to", "with_bits"]


def with_bits(values: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Return numbers rounded to a number of significant binary digits.

    >>> third = np.array([1 / 3, (1 / 3) * (1 + 1e-15)])
    >>> third[0] == third[1], with_bits(third, 40)[0] == with_bits(third, 40)[1]
    (np.False_, np.True_)
    """
    fraction, exponent = np.frexp(values)
    rounded: NDArray[np.float64] = np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits)
    return rounded


def rounded_to(
    thresholds: NDArray[np.float64], bits: int, closed: Literal["left", "right"]
) -> NDArray[np.float64]:
    """Return thresholds for numbers as they are, equivalent to the given ones for numbers rounded by :func:`with_bits`.

    With ``closed="left"`` the smallest number that is rounded to at least the threshold; with ``"right"`` the largest one that
    is rounded to at most the threshold. Thresholds must be positive, or zero.

    >>> start = rounded_to(np.array([0.3]), 10, "left")
    >>> with_bits(start, 10) >= 0.3, with_bits(np.nextafter(start, 0), 10) >= 0.3
    (array([ True]), array([False]))
    """
    # Positive floats are in the order of their bits: a bisection among integers.
    low = np.maximum(thresholds * (1 - 2.0 ** (1 - bits)), 0.0).view(np.int64).copy()
    high = (thresholds * (1 + 2.0 ** (1 - bits)) + np.finfo(np.float64).tiny).view(np.int64).copy()
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        rounded = with_bits(middle.view(np.float64), bits)
        reached = rounded >= thresholds if closed == "left" else rounded > thresholds
        high, low = np.where(reached, middle, high), np.where(reached, low, middle)
    # No number is below zero, so that all are rounded to at least zero.
    return np.where(thresholds > 0, high.view(np.float64), 0.0) if closed == "left" else low.view(np.float64)


def midpoint(below: FloatArray, above: FloatArray) -> FloatArray:
    """Return midpoints of pairs of floats, or the upper one of adjacent floats.

    So whatever is not above ``below`` is less than the place, and ``above`` is not.

    >>> midpoint(np.array([0.2, 1.0]), np.array([0.4, np.nextafter(1.0, 2.0)])) > np.array([0.2, 1.0])
    array([ True,  True])
    """
    middle = below + (above - below) / 2
    return np.where(middle > below, middle, above)


SAME_COST = 1e-12
"""Expected costs that differ by less, relative to the largest cost, are equal: sums of rounded numbers."""


def argmin_within_rounding(expected: NDArray[np.float64], largest: float, axis: int) -> NDArray[np.intp]:
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
    >>> argmin_within_rounding(np.array([[0.3, 0.1 + 0.2], [0.1 + 0.2, 0.3], [0.4, 0.2]]), 1.0, axis=1)
    array([0, 0, 1])
    """
    least = expected.min(axis=axis, keepdims=True) + SAME_COST * largest
    first: NDArray[np.intp] = np.argmax(expected <= least, axis=axis)
    return first


# Cells per unit of log-odds up to a number of classes; fewer for more, so that the total size is bounded.
CELLS, CLASSES = 2**10, 16


def cell_width(n_classes: int) -> float:
    """Return the width of a cell of log-odds; scores move by at most half of it.

    >>> cell_width(10), cell_width(1000)
    (0.0009765625, 0.0625)
    """
    coarser = max(0, int(np.ceil(np.log2(n_classes / CLASSES))))
    return 2.0**coarser / CELLS
