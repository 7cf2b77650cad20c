"""Sums of what is known at points, in the leaves and at the splits of trees."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from calibrant.calibrators.neighbourhood.random_trees import Trees

__all__ = ["LeafSums", "place_sums"]

Integers = NDArray[np.intp]
Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LeafSums:
    """Weighted sums of targets in the leaves of trees, and of the weights, in whichever form takes less memory.

    Attributes
    ----------
    n_leaves : ndarray of shape (T,)
        Number of leaves of every tree.
    targets : ndarray of shape (u, K)
        What is known at every point.
    weights : ndarray of shape (u,)
        How much each point weighs.
    leaves : ndarray of shape (T, u) or None
        In which leaf of every tree each point is.
    sums : ndarray of shape (L, K + 1) or None
        The sums themselves, leaf by leaf and tree by tree, with the weight in the last column.
    """

    n_leaves: Integers
    targets: Matrix
    weights: Vector
    leaves: NDArray[np.integer] | None
    sums: Matrix | None

    @classmethod
    def of(
        cls, trees: Trees, leaves: NDArray[np.integer], targets: Matrix, weights: Vector, room: int
    ) -> "LeafSums":
        """Return sums for grown trees; as such, if even with ``room`` leaves a tree they are smaller than a point's leaves.

        The form must not depend on how many leaves a tree did get: those of several blocks of trees are put together.
        """
        n_leaves = trees.n_splits + 1
        members = cls(n_leaves, targets, weights, leaves, None)
        if room * (targets.shape[1] + 1) * targets.itemsize > len(weights) * leaves.itemsize:
            return members
        return cls(n_leaves, targets, weights, None, members.between(0, len(n_leaves)))

    @classmethod
    def joined(cls, parts: "list[LeafSums]") -> "LeafSums":
        """Return the sums of several blocks of trees, one after the other."""
        n_leaves = np.concatenate([part.n_leaves for part in parts])
        leaves = [part.leaves for part in parts if part.leaves is not None]
        sums = [part.sums for part in parts if part.sums is not None]
        return cls(
            n_leaves,
            parts[0].targets,
            parts[0].weights,
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
        places = self.leaves[first:last] + (np.cumsum(n_leaves) - n_leaves)[:, np.newaxis]  # (trees, u)
        n_points = places.shape[1]
        # A column for each point, with a one for its leaf in every tree: the product adds rows of the targets to leaves.
        membership = csc_array(
            (
                np.ones(places.size),
                np.ascontiguousarray(places.T).ravel(),
                np.arange(0, places.size + 1, last - first),
            ),
            shape=(int(n_leaves.sum()), n_points),
        )
        weighted = np.column_stack([self.targets * self.weights[:, np.newaxis], self.weights])
        sums: Matrix = membership @ weighted
        return sums

    def mean_around(self, own: Integers) -> Vector:
        """Return the mean over trees of the targets' mean in one leaf of each, (K,), without sums in other leaves."""
        assert self.leaves is not None
        # Places in the table as one row are several times as fast to find as rows and columns.
        tree, point = np.divmod(np.flatnonzero(self.leaves == own[:, np.newaxis]), len(self.weights))
        weights = self.weights[point]
        totals = np.bincount(tree, weights, len(own))
        shares = np.bincount(point, weights / totals[tree], len(self.weights))
        mean: Vector = shares @ self.targets / len(own)
        return mean


def place_sums(trees: Trees, leaf_sums: Matrix) -> Matrix:
    """Return sums at all places, first at the splits of all trees, then in all leaves, (S + L, K + 1).

    >>> from calibrant.calibrators.neighbourhood.random_trees import Stages
    >>> trees = Trees(
    ...     n_splits=np.array([2]),
    ...     classes=np.array([0, 0]),
    ...     thresholds=np.array([0.4, 0.7]),
    ...     children=np.array([[-1, 1], [-2, -3]]),
    ...     stages=Stages(n_bins=np.array([2, 3]), levels=np.array([0, 1])),
    ... )
    >>> place_sums(trees, np.array([[1.0, 1.0], [2.0, 1.0], [4.0, 1.0]]))
    array([[7., 3.], [6., 2.], [1., 1.], [2., 1.], [4., 1.]])
    """
    assert trees.stages is not None
    n_all, levels = len(trees.classes), trees.stages.levels
    tree = np.repeat(np.arange(trees.n_trees), trees.n_splits)[:, np.newaxis]
    below = np.where(
        trees.children >= 0,
        trees.first_splits[tree] + trees.children,
        n_all + trees.first_leaves[tree] + ~trees.children,
    )
    sums = np.empty((n_all + len(leaf_sums), leaf_sums.shape[1]))
    sums[n_all:] = leaf_sums
    # From the deepest splits up: what is below a split is at least one level deeper, and complete.
    order = np.argsort(levels, kind="stable")
    edges = np.searchsorted(levels[order], np.arange(int(levels.max(initial=-1)) + 2))
    for level in range(len(edges) - 2, -1, -1):
        splits = order[edges[level] : edges[level + 1]]
        sums[splits] = sums[below[splits, 0]] + sums[below[splits, 1]]
    return sums
