"""Means over the bins of random trees, and their mean over the trees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from calibrant.calibrators.neighbourhood.local_means import LocalMeans
from calibrant.calibrators.neighbourhood.random_trees import Growth, Trees, grown_trees, n_draws
from calibrant.calibrators.neighbourhood.tree_routes import Routes
from calibrant.calibrators.neighbourhood.tree_sums import LeafSums, place_sums
from calibrant.numerics.row_blocks import n_threads_available
from calibrant.numerics.threads import in_threads

__all__ = ["TreeMeans", "grown_means"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Pairs of a tree and a point that grow at once: few enough for memory, many enough for long vectors.
PAIRS_GROWN = 2**19

# Pairs of a row and a tree on their way down at once, and entries of the sums in a block of trees.
PAIRS_ROUTED = 2**16
SUMS = 2**22

# A row on its own takes about as long as so many classes of the sums in all leaves.
FEW = 8

# Entries of a block of means.
BLOCK_ENTRIES = 2**22


@dataclass(eq=False)
class TreeMeans(LocalMeans):
    """Means of targets over the bin of each tree in which a row falls, averaged over the trees.

    All numbers of bins share the trees, since those with fewer bins are the beginnings of those with more.

    Attributes
    ----------
    trees : Trees
        T trees with as many bins as any size.
    leaf_sums : LeafSums
        What is in their leaves.
    n_classes : int
        Number of targets, K.
    """

    trees: Trees
    leaf_sums: LeafSums
    n_classes: int

    def __post_init__(self) -> None:
        self.block_rows = max(1, BLOCK_ENTRIES // self.n_classes)

    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        """Yield the means for every number of bins, in increasing order; a single one means the trees as they are."""
        if len(sizes) == 1 and self.leaf_sums.leaves is not None and FEW * len(rows) <= FEW + self.n_classes:
            yield self._around_few(rows)
            return
        totals = np.zeros((len(sizes), len(rows), self.n_classes))
        n_trees = self.trees.n_trees
        for first, last in pairwise(_edges(0, n_trees, PAIRS_ROUTED // len(rows))):
            several = self.trees.between(first, last)
            routes = Routes(several, rows)
            places = [routes.advance(None if len(sizes) == 1 else int(size)).copy() for size in sizes]
            for start, stop in pairwise(_edges(first, last, self._trees_in_a_block())):
                trees = self.trees.between(start, stop)
                sums = self.leaf_sums.between(start, stop)
                if len(sizes) > 1:
                    sums = place_sums(trees, sums)
                n_before = len(several.between(0, start - first).classes)
                for total, of_size in zip(totals, places, strict=True):
                    own = of_size[:, start - first : stop - first]
                    # From numbers among several trees to numbers among these.
                    leaf = own - len(several.classes) - n_before - (start - first)
                    if len(sizes) > 1:
                        leaf = np.where(own < len(several.classes), own - n_before, leaf + len(trees.classes))
                    total += _added_means(leaf, sums)
        totals /= n_trees
        yield from totals

    def _around_few(self, rows: Matrix) -> Matrix:
        """Return means for a few rows by looking into the leaves they fall in, and into no others."""
        places = Routes(self.trees, rows).advance() - len(self.trees.classes)
        return np.array([self.leaf_sums.mean_around(leaves) for leaves in places - self.trees.first_leaves])

    def _trees_in_a_block(self) -> int:
        """Return for how many trees to hold all sums at once."""
        places = 2 * int(self.trees.n_splits.max(initial=0)) + 1
        return SUMS // (places * (self.n_classes + 1))


def _edges(first: int, last: int, step: int) -> list[int]:
    """Return where blocks of at least one and at most so many trees begin and end."""
    return [*range(first, last, max(1, step)), last]


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
) -> TreeMeans:
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

    def part(block: slice) -> tuple[Trees, LeafSums]:
        draws = np.array([np.random.default_rng(seed).random((n_tries, 2)) for seed in seeds[block]])
        trees, leaves = grown_trees(columns, draws, n_bins, growth)
        room = min(n_tries, n_points - 1) + 1
        return trees.compact(n_classes), LeafSums.of(trees, leaves, targets, weights, room)

    n_blocks = -(-len(seeds) * n_points // PAIRS_GROWN)
    n_threads = n_threads_available()
    n_blocks = min(len(seeds), -(-n_blocks // n_threads) * n_threads)
    edges = [len(seeds) * block // n_blocks for block in range(n_blocks + 1)]
    blocks = [slice(first, last) for first, last in pairwise(edges)]
    parts = in_threads(part, blocks, len(seeds) * n_points // n_blocks)
    return TreeMeans(
        Trees.joined([trees for trees, _ in parts]), LeafSums.joined([sums for _, sums in parts]), n_classes
    )
