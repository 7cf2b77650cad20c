"""Equal-mass partitions into many numbers of bins, all from one sort."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import IntArray, Vector
from calibrant.binning.equal_mass import nearest_masses
from calibrant.numerics.midway import midway

__all__ = ["Partitions", "bin_boundaries", "distinct_partitions", "equal_mass_partitions"]


# So many bins are handled at a time: a dozen arrays of them stay within some megabytes.
BINS_AT_A_TIME = 2**16


@dataclass(frozen=True, eq=False)
class Partitions:
    """Several ways to cut levels 0..m-1 into bins, one after the other.

    Attributes
    ----------
    low, high : ndarray of shape (bins of all partitions,)
        First level of each bin, and the first level beyond it.
    starts : ndarray of shape (T,)
        Where the bins of each partition begin.
    """

    low: IntArray
    high: IntArray
    starts: IntArray

    @classmethod
    def joined(cls, parts: Sequence["Partitions"]) -> Self:
        """Return the partitions of all parts, one after the other."""
        sizes = np.concatenate([part.n_bins for part in parts])
        return cls(
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]),
            np.cumsum(sizes) - sizes,
        )

    @property
    def n_bins(self) -> IntArray:
        """Number of bins of each partition, (T,); none is empty."""
        return np.diff(np.append(self.starts, len(self.low)))

    def take(self, chosen: NDArray[np.bool_]) -> "Partitions":
        """Return some of the partitions, at least one."""
        bins, sizes = np.repeat(chosen, self.n_bins), self.n_bins[chosen]
        return Partitions(self.low[bins], self.high[bins], np.cumsum(sizes) - sizes)

    def __iter__(self) -> Iterator[slice]:
        """Yield the bins of one partition after the other."""
        for start, size in zip(self.starts.tolist(), self.n_bins.tolist(), strict=True):
            yield slice(start, start + size)


def equal_mass_partitions(mass: Vector, n_bins: IntArray) -> Partitions:
    """Cut levels so that all bins of a partition hold the same mass, as nearly as they can.

    ``mass`` is the total weight below each level and, last, that of all, (m + 1,); partition t has at most
    ``n_bins[t]`` bins, and fewer where heavy levels leave some without any. The cuts are those of
    :class:`~calibrant.binning.EqualMass`. Costs O(log m) for each bin.

    >>> partitions = equal_mass_partitions(np.arange(7.0), np.array([1, 2, 3]))
    >>> partitions.low, partitions.high, partitions.starts
    (array([0, 0, 3, 0, 2, 4]), array([6, 3, 6, 2, 4, 6]), array([0, 1, 3]))
    """
    sizes = n_bins + 1
    first = np.cumsum(sizes) - sizes
    number = np.arange(sizes.sum()) - np.repeat(first, sizes)
    cuts = nearest_masses(mass, mass[-1] * number / np.repeat(n_bins, sizes))
    cuts[first], cuts[first + n_bins] = 0, len(mass) - 1
    # Where neighbours are equal there is no bin, and from one partition to the next the cuts fall back to 0.
    real = np.flatnonzero(cuts[1:] > cuts[:-1])
    return Partitions(cuts[real], cuts[real + 1], np.searchsorted(real, first))


def distinct_partitions(mass: Vector, n_bins: IntArray) -> Iterator[Partitions]:
    """Yield the partitions of :func:`equal_mass_partitions` that differ from all before, some at a time.

    >>> [partitions.n_bins for partitions in distinct_partitions(np.array([0.0, 9.0, 10.0]), np.arange(1, 5))]
    [array([1, 2])]
    """
    seen: set[bytes] = set()
    chunks = np.cumsum(n_bins + 1) // BINS_AT_A_TIME
    for chunk in np.split(n_bins, np.flatnonzero(np.diff(chunks)) + 1):
        partitions = equal_mass_partitions(mass, chunk)
        is_new = np.zeros(len(chunk), dtype=np.bool_)
        for index, bins in enumerate(partitions):
            key = partitions.low[bins].tobytes()
            is_new[index] = key not in seen
            seen.add(key)
        if is_new.all():
            yield partitions
        elif is_new.any():
            yield partitions.take(is_new)


def bin_boundaries(scores: Vector) -> Vector:
    """Return what separates increasing scores (m,) of the range 0 to 1, from 0 to 1, (m + 1,).

    Midway between neighbours, or the upper one where no float lies between them; bins are [a, b).

    >>> bin_boundaries(np.array([0.2, 0.4]))
    array([0. , 0.3, 1. ])
    """
    return np.concatenate([[0.0], midway(scores[:-1], scores[1:]), [1.0]])
