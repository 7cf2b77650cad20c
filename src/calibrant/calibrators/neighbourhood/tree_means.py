"""Means over the bins of random trees, and their mean over the trees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from calibrant.calibrators.neighbourhood.local_means import LocalMeans
from calibrant.calibrators.neighbourhood.random_trees import Growth, Trees, grown_trees, n_draws
from calibrant.calibrators.neighbourhood.tree_routes import Routes
from calibrant.calibrators.neighbourhood.tree_sums import LeafSums, place_sums, weighted_targets
from calibrant.numerics.row_blocks import even_blocks, n_threads_available
from calibrant.numerics.threads import in_threads

__all__ = ["ForestMeans", "grown_means"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Pairs of a tree and a point that grow at once: few enough for memory, many enough for long vectors.
PAIRS_GROWN = 2**19

# The same for pairs of a tree and a row on their way down, and entries of the sums in a block of trees.
PAIRS_ROUTED = 2**17
SUMS = 2**21

# Blocks of trees for threads to share, if there are as many trees.
LEAST_BLOCKS = 8

# A row on its own takes about as long as so many classes of the sums in all leaves.
FEW = 8

# Entries of a block of means: for one number of bins, for each of several, and of all that threads have at once.
BLOCK_ENTRIES = 2**22
BLOCK_ENTRIES_OF_SEVERAL = 2**20
ENTRIES_AT_ONCE = 2**25


@dataclass(eq=False)
class ForestMeans(LocalMeans):
    """Means of targets over the bin of each tree in which a row falls, averaged over the trees.

    All numbers of bins share the trees, since those with fewer bins are the beginnings of those with more.

    Attributes
    ----------
    trees : Trees
        T trees; without stages, they can be asked about ``n_bins`` alone.
    leaf_sums : LeafSums
        What is in their leaves.
    n_classes : int
        Number of targets, K.
    n_bins : int
        Number of bins to which the trees were grown.
    """

    trees: Trees
    leaf_sums: LeafSums
    n_classes: int
    n_bins: int

    # The sums of a tree serve all rows, so threads share out the trees.
    splits_rows = False

    def __post_init__(self) -> None:
        entries = BLOCK_ENTRIES if self.trees.stages is None else BLOCK_ENTRIES_OF_SEVERAL
        self.block_rows = max(1, entries // self.n_classes)
        self.numbers_per_row = self.trees.n_trees * self.n_classes

    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        """Yield the means for every number of bins, in the order given.

        They do not depend on the number of threads: trees are put into blocks without a look at it, and the totals of
        blocks are added one after the other.
        """
        least = self.n_bins if self.trees.stages is None else 1
        for size in sizes:
            if not least <= size <= self.n_bins:
                raise ValueError(f"sizes must be from {least} to {self.n_bins} for these trees, not {size}.")
        only_whole_trees = all(size == self.n_bins for size in sizes)
        if only_whole_trees and self.leaf_sums.leaves is not None and FEW * len(rows) <= FEW + self.n_classes:
            around = self._around_few(rows)
            yield from (around for _ in sizes)
            return
        increasing = sorted({int(size) for size in sizes})
        blocks = even_blocks(self.trees.n_trees, self._trees_routed(len(rows)))

        def part(block: slice) -> Matrix:
            return self._totals(block, rows, increasing)

        totals = np.zeros((len(increasing), len(rows), self.n_classes))
        at_once = max(1, min(n_threads_available(), ENTRIES_AT_ONCE // max(1, totals.size)))
        numbers = self.trees.n_trees // len(blocks) * (len(rows) + self.n_bins) * self.n_classes
        for first in range(0, len(blocks), at_once):
            for several in in_threads(part, blocks[first : first + at_once], numbers):
                totals += several
        totals /= self.trees.n_trees
        yield from (totals[increasing.index(int(size))] for size in sizes)

    def _totals(self, block: slice, rows: Matrix, sizes: list[int]) -> Matrix:
        """Return the sums over some trees of the means for every number of bins, in increasing order, (S, m, K)."""
        trees = self.trees.between(block.start, block.stop)
        routes = Routes(trees, rows)
        places = [routes.advance(size).copy() for size in sizes]
        only_leaves = sizes == [self.n_bins]
        totals = np.zeros((len(sizes), len(rows), self.n_classes))
        # Rows find their way in many trees at once, but sums of so many would take too much memory.
        for part in even_blocks(trees.n_trees, self._trees_summed(only_leaves)):
            several = trees.between(part.start, part.stop)
            sums = self.leaf_sums.between(block.start + part.start, block.start + part.stop)
            if not only_leaves:
                sums = place_sums(several, sums)
            # From numbers among all trees of the block to numbers among these, of which the leaves may be all there is.
            to_splits = int(trees.first_splits[part.start])
            to_leaves = len(trees.classes) + to_splits + part.start
            if not only_leaves:
                to_leaves -= len(several.classes)
            for total, of_size in zip(totals, places, strict=True):
                own = of_size[:, part]
                total += _added_means(own - np.where(own < len(trees.classes), to_splits, to_leaves), sums)
        return totals

    def _around_few(self, rows: Matrix) -> Matrix:
        """Return means for a few rows by looking into the leaves they fall in, and into no others."""
        places = Routes(self.trees, rows).advance() - len(self.trees.classes)
        return np.array([self.leaf_sums.mean_around(leaves) for leaves in places - self.trees.first_leaves])

    def _trees_routed(self, n_rows: int) -> int:
        """Return in how many trees to find rows at once."""
        return max(1, min(-(-self.trees.n_trees // LEAST_BLOCKS), PAIRS_ROUTED // max(1, n_rows)))

    def _trees_summed(self, only_leaves: bool) -> int:
        """Return for how many trees to hold sums at once."""
        n_splits = int(self.trees.n_splits.max(initial=0))
        n_places = n_splits + 1 if only_leaves else 2 * n_splits + 1
        n_trees = SUMS // (n_places * (self.n_classes + 1))
        if self.leaf_sums.leaves is not None:
            n_trees = min(n_trees, PAIRS_GROWN // self.leaf_sums.leaves.shape[1])
        return max(1, n_trees)


def _added_means(places: NDArray[np.intp], sums: Matrix) -> Matrix:
    """Return for every row (m, T) of places the sum of the means there, (m, K); weights are the sums' last column."""
    n_rows, n_trees = places.shape
    ends = np.arange(0, places.size + 1, n_trees)
    # Fewer places are asked about than there are, so weights are divided by here and not in all the sums.
    shares = 1 / sums[:, -1].take(places.ravel())
    added: Matrix = csr_array((shares, places.ravel(), ends), shape=(n_rows, len(sums))) @ sums
    return added[:, :-1]


def grown_means(
    points: NDArray[np.floating],
    targets: Matrix,
    weights: Vector,
    seeds: Sequence[int],
    n_bins: int,
    growth: Growth,
) -> ForestMeans:
    """Grow trees among points, with several threads, and return the means in their bins.

    Parameters
    ----------
    points : ndarray of shape (u, K)
        Different predictions.
    targets : ndarray of shape (u, K)
        What is averaged.
    weights : ndarray of shape (u,)
        How much each point weighs.
    seeds : sequence of T ints
        Where the random numbers of each tree come from; they depend neither on points nor on other trees.
    n_bins : int
        Largest number of bins.
    growth : {"bins", "depth"}
        When trees stop to grow.
    """
    n_points, n_classes = points.shape
    n_tries = max(0, n_draws(n_bins, n_points, growth))
    columns = np.ascontiguousarray(points.T, dtype=np.float64)
    weighted = weighted_targets(targets, weights)

    def part(block: slice) -> tuple[Trees, LeafSums]:
        draws = np.array([np.random.default_rng(seed).random((n_tries, 2)) for seed in seeds[block]])
        trees, leaves = grown_trees(columns, draws, n_bins, growth)
        room = min(n_tries, n_points - 1) + 1
        return trees.compact(n_classes), LeafSums.of(trees, leaves, weighted, room)

    blocks = even_blocks(len(seeds), max(1, PAIRS_GROWN // n_points), n_threads_available())
    parts = in_threads(part, blocks, len(seeds) * n_points // len(blocks))
    trees = Trees.joined([trees for trees, _ in parts])
    return ForestMeans(trees, LeafSums.joined([sums for _, sums in parts]), n_classes, n_bins)
