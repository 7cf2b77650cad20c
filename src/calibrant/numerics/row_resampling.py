"""Rows drawn with replacement, as counts of how often each was drawn; also by groups and by strata."""

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import IntArray

__all__ = ["Blocks", "RowResampling"]


# Draws are counted in blocks whose counts stay in the cache; numbers of sixteen bits are the cheapest to draw.
UNITS_PER_BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class Blocks:
    """Disjoint sets of rows, to be left out one after another.

    Attributes
    ----------
    block_of_row : ndarray of shape (n,)
        Number of the block of every row, or -1 if it is in none.
    stratum : ndarray of shape (m,)
        Stratum of every block; all zero without strata.
    """

    block_of_row: IntArray
    stratum: IntArray


class RowResampling:
    """A way to draw n rows with replacement.

    The sampling unit is a single row, or all rows of a group. The number of draws is the number of units. With strata,
    this holds within each stratum, so their sizes are fixed.

    Parameters
    ----------
    n_rows : int
        Number of rows, n.
    groups : ndarray of shape (n,), optional
        Group number of every row, 0 to G - 1, all of which occur.
    strata : ndarray of shape (n,), optional
        Stratum number of every row; not together with ``groups``.

    Notes
    -----
    A resample costs O(n) time and memory and copies no data: its counts serve as weights.

    Examples
    --------
    >>> int(RowResampling(6).counts(np.random.default_rng(1)).sum())
    6
    >>> RowResampling(6, groups=np.array([0, 0, 0, 1, 1, 2])).counts(np.random.default_rng(5))
    array([1, 1, 1, 0, 0, 2])
    """

    def __init__(self, n_rows: int, groups: IntArray | None = None, strata: IntArray | None = None) -> None:
        self._unit_of_row = groups
        self.n_units = n_rows if groups is None else int(groups.max()) + 1
        self._strata = strata
        if strata is not None:
            sizes = np.bincount(strata)
            self._unit_at_place = np.argsort(strata, kind="stable")  # the places of a stratum are neighbours
            self._size_at_place = np.repeat(sizes, sizes).astype(np.float64)
            self._first_at_place = np.repeat(np.cumsum(sizes) - sizes, sizes)

    def counts(self, generator: np.random.Generator) -> IntArray:
        """Return how often every row was drawn, (n,)."""
        if self._strata is not None:
            return self._stratified_counts(generator)
        of_units = _uniform_counts(self.n_units, generator)
        return of_units if self._unit_of_row is None else of_units[self._unit_of_row]

    def blocks(self, generator: np.random.Generator, max_blocks: int) -> Blocks:
        """Deal the units out into blocks, at random, whatever the order of the rows.

        Single units if there are at most ``max_blocks``; else that many blocks, whose sizes differ by at most
        one. Each stratum gets blocks in proportion to its size but at least two, and none if it has only one
        unit, which cannot be drawn otherwise.
        """
        sizes = np.array([self.n_units]) if self._strata is None else np.bincount(self._strata)
        wanted = sizes
        if self.n_units > max_blocks:
            wanted = np.minimum(
                sizes, np.maximum(2, np.rint(max_blocks * sizes / self.n_units).astype(np.intp))
            )
        wanted = np.where(sizes > 1, wanted, 0)
        first = np.cumsum(wanted) - wanted
        dealt = [
            start + generator.permutation(np.arange(size) % n_blocks) if n_blocks else np.full(size, -1)
            for start, size, n_blocks in zip(first.tolist(), sizes.tolist(), wanted.tolist(), strict=True)
        ]
        block_of_unit = np.concatenate(dealt)
        if self._strata is not None:
            block_of_unit[self._unit_at_place] = block_of_unit.copy()
        block_of_row = block_of_unit if self._unit_of_row is None else block_of_unit[self._unit_of_row]
        return Blocks(block_of_row, np.repeat(np.arange(len(sizes)), wanted))

    def _stratified_counts(self, generator: np.random.Generator) -> IntArray:
        places = (generator.random(self.n_units) * self._size_at_place).astype(np.intp)
        places += self._first_at_place
        counts = np.empty(self.n_units, dtype=np.intp)
        counts[self._unit_at_place] = np.bincount(places, minlength=self.n_units)
        return counts


def _uniform_counts(n_units: int, generator: np.random.Generator) -> IntArray:
    """Return multinomial counts of n draws from n equally likely units."""
    if n_units <= UNITS_PER_BLOCK:
        return np.bincount(generator.integers(0, n_units, n_units), minlength=n_units)
    starts = np.arange(0, n_units, UNITS_PER_BLOCK)
    sizes = np.minimum(UNITS_PER_BLOCK, n_units - starts)
    # How many draws fall into a block, then which of its units they hit: the same law, fewer cache misses.
    draws = generator.multinomial(n_units, sizes / n_units)
    counts = np.empty(n_units, dtype=np.intp)
    for start, size, n_draws in zip(starts.tolist(), sizes.tolist(), draws.tolist(), strict=True):
        hits = generator.integers(0, size, n_draws, dtype=np.uint16)
        counts[start : start + size] = np.bincount(hits, minlength=size)
    return counts
