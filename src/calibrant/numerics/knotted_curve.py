"""Functions of one variable given by a table of knots: straight lines or steps in between."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector

__all__ = ["KnottedCurve"]


@dataclass(frozen=True, eq=False)
class KnottedCurve:
    """A function as a table of knots, safe for knots as close together as floats can be.

    Attributes
    ----------
    knots : ndarray of shape (m,)
        Where the knots are, strictly increasing.
    values : ndarray of shape (m,)
        Values there; linear in between and constant beyond the first and the last.
    steps : bool, default=False
        Whether a value holds from its knot up to the next one instead.

    Examples
    --------
    >>> curve = KnottedCurve(np.array([0.2, 0.4]), np.array([0.1, 0.5]))
    >>> curve(np.array([0.0, 0.3, 1.0]))
    array([0.1, 0.3, 0.5])
    >>> KnottedCurve(curve.knots, curve.values, steps=True)(np.array([0.0, 0.3, 1.0]))
    array([0.1, 0.1, 0.5])
    """

    knots: Vector
    values: Vector
    steps: bool = False

    def __call__(self, x: NDArray[np.floating]) -> Vector:
        """Return the value at every x, in its shape; O(log m) each.

        At a knot it is the value there to the last bit. Rounding never reverses an order: between two knots every
        operation is non-decreasing in ``x`` as it is rounded, or non-increasing where the values fall.
        """
        place = np.searchsorted(self.knots, x, side="right")
        if self.steps:
            return self.values[np.maximum(place - 1, 0)]
        left, base, rate, least, largest = self._segments
        curve: Vector = x - left[place]
        curve *= rate[place]
        curve += base[place]
        return np.clip(curve, least[place], largest[place], out=curve)

    @cached_property
    def _segments(self) -> tuple[Vector, Vector, Vector, Vector, Vector]:
        """Where each segment begins, value there, slope, least and largest value; two level ones outside."""
        left = np.append(self.knots[0], self.knots).astype(np.float64)
        base = np.append(self.values[0], self.values)
        end = np.append(self.values, self.values[-1])
        # Between neighbours among the smallest floats the quotient may overflow, and infinity times 0 is no number.
        steepest = np.finfo(np.float64).max
        with np.errstate(over="ignore"):
            rate = np.clip((end - base)[1:-1] / np.diff(left[1:]), -steepest, steepest)
        rate = np.concatenate([[0.0], rate, [0.0]])
        return left, base, rate, np.minimum(base, end), np.maximum(base, end)
