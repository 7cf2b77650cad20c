"""Sums of what is known at points, in the leaves and at the splits of trees."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from calibrant.arrays import IntArray, Matrix, Vector
from calibrant.calibrators.neighbourhood.random_trees import Trees

__all__ = ["LeafSums", "place_sums", "weighted_targets"]


@dataclass(frozen=True, eq=False)
class LeafSums:
    """Weighted sums of targets in the leaves of trees, and of the weights, in whichever form takes less memory.

    Attributes
    ----------
    n_leaves : ndarray of shape (T,)
        Number of leaves of every tree.
    weighted : ndarray of shape (u, K + 1) or None
        Targets times weight of every point, with the weight in the last column, see :func:`weighted_targets`.
    leaves : ndarray of shape (T, u) or None
        In which leaf of every tree each point is.
    sums : ndarray of shape (L, K + 1) or None
        The sums themselves, leaf by leaf and tree by tree, which make the other two superfluous.
    """

    n_leaves: IntArray
    weighted: Matrix | None
    leaves: NDArray[np.integer] | None
    sums: Matrix | None = None

    @classmethod
    def of(cls, trees: Trees, leaves: NDArray[np.integer], weighted: Matrix, room: int) -> "LeafSums":
        """Return sums for grown trees; as such, if even with ``room`` leaves a tree they are smaller than a point's leaves.

        The form must not depend on how many leaves a tree did get: those of several blocks of trees are put together.
        """
        n_leaves = trees.n_splits + 1
        members = cls(n_leaves, weighted, leaves)
        n_points, n_columns = weighted.shape
        if room * n_columns * weighted.itemsize > n_points * leaves.itemsize:
            return members
        return cls(n_leaves, None, None, members.between(0, len(n_leaves)))

    @classmethod
    def joined(cls, parts: "list[LeafSums]") -> "LeafSums":
        """Return the sums of several blocks of trees, one after the other."""
        n_leaves = np.concatenate([part.n_leaves for part in parts])
        leaves = [part.leaves for part in parts if part.leaves is not None]
        sums = [part.sums for part in parts if part.sums is not None]
        return cls(
            n_leaves,
            parts[0].weighted,
            np.concatenate(leaves) if leaves else None,
            np.concatenate(sums) if sums else None,
        )

    def between(self, first: int, last: int) -> Matrix:
        """Return the sums in all leaves of the trees from one number to before another, (leaves, K + 1)."""
        n_leaves = self.n_leaves[first:last]
        if self.sums is not None:
            start = int(self.n_leaves[:first].sum())
            return self.sums[start : start + int(n_leaves.sum())]
        assert self.leaves is not None
        assert self.weighted is not None
        # Type of the sparse matrix's own index, into which it would be copied otherwise.
        firsts = (np.cumsum(n_leaves) - n_leaves).astype(np.int32)
        places = self.leaves[first:last] + firsts[:, np.newaxis]  # (trees, u)
        n_points = places.shape[1]
        # A column for each point, with a one for its leaf in every tree: the product adds rows of the targets to leaves.
        membership = csc_array(
            (
                np.ones(places.size),
                np.ascontiguousarray(places.T).ravel(),
                np.arange(0, places.size + 1, last - first, dtype=np.int32),
            ),
            shape=(int(n_leaves.sum()), n_points),
        )
        sums: Matrix = membership @ self.weighted
        return sums

    def mean_around(self, own: IntArray) -> Vector:
        """Return the mean over trees of the targets' mean in one leaf of each, (K,), without sums in other leaves."""
        assert self.leaves is not None
        assert self.weighted is not None
        # Places in the table as one row are several times as fast to find as rows and columns.
        n_points = len(self.weighted)
        tree, point = np.divmod(np.flatnonzero(self.leaves == own[:, np.newaxis]), n_points)
        totals = np.bincount(tree, self.weighted[:, -1].take(point), len(own))
        shares = np.bincount(point, 1 / totals[tree], n_points)
        mean: Vector = shares @ self.weighted[:, :-1] / len(own)
        return mean


def weighted_targets(targets: Matrix, weights: Vector) -> Matrix:
    """Return the summands of all sums, (u, K + 1): targets (u, K) times weights (u,), and the weights.

    >>> weighted_targets(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0]))
    array([[ 1.,  2.,  1.], [30., 40., 10.]])
    """
    return np.column_stack([targets * weights[:, np.newaxis], weights])


def place_sums(trees: Trees, leaf_sums: Matrix) -> Matrix:
    """Return sums at all places, first at the splits of all trees, then in all leaves, (S + L, K + 1).

    One tree of two points, which its only split parts; its leaves have a total of 1 and of 2 at a weight of 1 each.

    >>> from calibrant.calibrators.neighbourhood.random_trees import grown_trees
    >>> trees, _ = grown_trees(np.array([[0.2, 0.8], [0.8, 0.2]]), np.full((1, 1, 2), 0.5), 2, "bins")
    >>> place_sums(trees, np.array([[1.0, 1.0], [2.0, 1.0]]))
    array([[3., 2.], [1., 1.], [2., 1.]])
    """
    assert trees.stages is not None
    n_all, levels = len(trees.classes), trees.stages.levels
    below = trees.below
    sums = np.empty((n_all + len(leaf_sums), leaf_sums.shape[1]))
    sums[n_all:] = leaf_sums
    # From the deepest splits up: what is below a split is at least one level deeper, and complete.
    order = np.argsort(levels, kind="stable")
    edges = np.searchsorted(levels[order], np.arange(int(levels.max(initial=-1)) + 2))
    for level in range(len(edges) - 2, -1, -1):
        splits = order[edges[level] : edges[level + 1]]
        left, right = below[splits].T
        sums[splits] = sums.take(left, axis=0) + sums.take(right, axis=0)
    return sums
