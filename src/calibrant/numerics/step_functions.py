"""Step functions: sums of many on the steps of all, and no step between equal values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrant.arrays import Vector

__all__ = ["StepFunctions"]


@dataclass(frozen=True, eq=False)
class StepFunctions:
    """Several functions of one variable that are constant between the same places.

    Attributes
    ----------
    places : ndarray of shape (m,)
        Where the steps are, increasing. To which side of it a place itself belongs is for the user to say.
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
        """Return the sums of what some parts have in the same row, with steps wherever one of them has one.

        Sums are added up, never taken away from again, so that small values keep their digits and minus infinity
        does no harm. Costs a sort, and O(m log m) for each part; O(m) memory besides the parts.
        """
        places = np.unique(np.concatenate([part.places for part in parts]))
        total = parts[0]._beyond(places)
        for part in parts[1:]:
            total += part._beyond(places)
        return cls(places, total)

    def distinct(self) -> Self:
        """Leave out the steps at which no function changes, by any bit."""
        changes = (self.values[:, 1:] != self.values[:, :-1]).any(axis=0)
        return type(self)(self.places[changes], np.compress(np.append(True, changes), self.values, axis=1))

    def _beyond(self, places: Vector) -> Vector:
        """Return the values below some increasing places that include our own, and from each to the next."""
        return self.values.take(np.append(0, np.searchsorted(self.places, places, side="right")), axis=1)
