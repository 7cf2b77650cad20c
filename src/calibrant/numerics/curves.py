"""Functions of one variable given by a table of knots: piecewise linear, or step functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector

__all__ = ["KnottedCurve", "StepFunctions"]


@dataclass(frozen=True, eq=False)
class KnottedCurve:
    """A function as a table of knots, accurate for adjacent floats as knots.

    Attributes
    ----------
    knots : ndarray of shape (m,)
        Knots, strictly increasing.
    values : ndarray of shape (m,)
        Values at the knots; linear in between and constant beyond the first and the last.
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
        """Start of each segment, value there, slope, least and largest value; two level ones outside."""
        left = np.append(self.knots[0], self.knots).astype(np.float64)
        base = np.append(self.values[0], self.values)
        end = np.append(self.values, self.values[-1])
        # Between neighbours among the smallest floats the quotient may overflow, and infinity times 0 is no number.
        steepest = np.finfo(np.float64).max
        with np.errstate(over="ignore"):
            rate = np.clip((end - base)[1:-1] / np.diff(left[1:]), -steepest, steepest)
        rate = np.concatenate([[0.0], rate, [0.0]])
        return left, base, rate, np.minimum(base, end), np.maximum(base, end)


@dataclass(frozen=True, eq=False)
class StepFunctions:
    """Several step functions with the same steps.

    Attributes
    ----------
    places : ndarray of shape (m,)
        Places of the steps, increasing. The user decides on which side a place itself is.
    values : ndarray of shape (q, m + 1)
        Values of each function below, between and above them.

    Examples
    --------
    >>> first = StepFunctions(np.array([1.0, 3.0]), np.array([[0.0, 1.0, 5.0]]))
    >>> second = StepFunctions(np.array([2.0, 3.0]), np.array([[0.0, 10.0, 6.0]]))
    >>> total = StepFunctions.total([first, second])
    >>> total.places, total.values
    (array([1., 2., 3.]), array([[ 0.,  1., 11., 11.]]))
    >>> total.distinct().places
    array([1., 2.])
    """

    places: Vector
    values: Vector

    @classmethod
    def total(cls, parts: Sequence[Self]) -> Self:
        """Return the sum of several sets of functions, with the union of their steps.

        Values are only added, never subtracted again, so that small values keep their digits and minus infinity is
        allowed. Costs a sort, and O(m log m) for each part; O(m) memory besides the parts.
        """
        places = np.unique(np.concatenate([part.places for part in parts]))
        total = parts[0]._beyond(places)
        for part in parts[1:]:
            total += part._beyond(places)
        return cls(places, total)

    def distinct(self) -> Self:
        """Drop the steps at which no function changes."""
        changes = (self.values[:, 1:] != self.values[:, :-1]).any(axis=0)
        return type(self)(self.places[changes], np.compress(np.append(True, changes), self.values, axis=1))

    def _beyond(self, places: Vector) -> Vector:
        """Return the values below some increasing places that include our own, and from each to the next."""
        return self.values.take(np.append(0, np.searchsorted(self.places, places, side="right")), axis=1)
