"""One step function that is the weighted mean of many."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.binned.equal_mass_models import Partitions

__all__ = ["StepAverage"]


@dataclass(frozen=True, eq=False)
class StepAverage:
    """The steps of all functions that are constant on the bins of some partitions.

    Attributes
    ----------
    partitions : Partitions
    steps : ndarray of shape (M,)
        Levels at which a bin of any partition begins, increasing.
    lengths : ndarray of shape (bins of all partitions,)
        How many of these steps each bin covers.

    Examples
    --------
    >>> average = StepAverage.over(Partitions(np.array([0, 0, 3]), np.array([5, 3, 5]), np.array([0, 1])))
    >>> average.steps, average.lengths
    (array([0, 3]), array([2, 1, 1]))
    >>> average.sums(np.array([0.5, 1e-30, 0.25]))
    array([0.5 , 0.75])
    """

    partitions: Partitions
    steps: NDArray[np.intp]
    lengths: NDArray[np.intp]

    @classmethod
    def over(cls, partitions: Partitions) -> Self:
        """Find the steps; O(m) for m levels, and O(1) for each bin."""
        begins = np.zeros(partitions.high.max() + 1, dtype=np.bool_)
        begins[partitions.low] = True
        steps_before = np.cumsum(begins) - begins
        return cls(
            partitions, np.flatnonzero(begins), steps_before[partitions.high] - steps_before[partitions.low]
        )

    def sums(self, terms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum over partitions of the term of the bin that holds each step, (M,).

        Terms, one per bin, are the values times the weight of their partition. They are added, never taken
        away again as a running sum would, so that a mean of tiny values has all its digits. Costs O(M) for
        each partition.
        """
        total = np.zeros(len(self.steps))
        for bins in self.partitions:
            total += terms[bins].repeat(self.lengths[bins])
        return total
