"""Tree means: the average of the leaf values of several binary trees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from calibrant.arrays import FloatArray, IntArray, Vector
from calibrant.graph.operation import GraphError, Kernel, Operation
from calibrant.numerics.tree_walk import check_trees, places_below, walk

__all__ = ["TreeMeans"]


# Up to this number of splits, all are evaluated for a single row, which takes fewer NumPy calls than a walk.
MOST_SPLITS_AT_ONCE = 10_000


@dataclass(frozen=True, eq=False)
class TreeMeans(Operation):
    r"""Mean over T trees of the values in the leaf of each tree that a row falls into, as float64.

    .. math:: y = \frac{1}{T} \sum_{t=1}^{T} v_{t, \ell_t(x)}

    Attributes
    ----------
    n_splits : ndarray of shape (T,)
        Number of splits of every tree; a tree with J splits has the leaves 0 to J. All that follows is tree by tree.
    columns : ndarray of shape (S,)
        Column that each split compares. A walk begins at split 0.
    thresholds : ndarray of shape (S,)
        A row goes left if its entry is below the threshold, and right otherwise.
    children : ndarray of shape (S, 2)
        Left and right: the number of the next split within its tree, or -1 - number of a leaf.
    values : ndarray of shape (S + T, width)
        Values of all leaves.
    """

    n_splits: IntArray
    columns: IntArray
    thresholds: Vector
    children: IntArray
    values: Vector

    name: ClassVar[str] = "tree-means"
    widens: ClassVar[bool] = True
    axes: ClassVar[Mapping[str, tuple[int, ...]]] = {"children": (2,), "values": (2,)}

    def width(self, widths: Sequence[int]) -> int:
        if len(self.values) != len(self.thresholds) + len(self.n_splits):
            raise GraphError("tree-means has another number of values than of leaves")
        if len(self.columns) and int(self.columns.max()) >= widths[0]:
            raise GraphError(f"tree-means looks at columns that a value of width {widths[0]} does not have")
        return int(self.values.shape[1])

    @property
    def n_scratch(self) -> int:
        # Places, entries and comparisons of a walk.
        return 4 * len(self.n_splits)

    def check(self) -> None:
        n_columns = int(self.columns.max(initial=0)) + 1
        try:
            check_trees(self.n_splits, self.columns, self.thresholds, self.children, n_columns)
        except ValueError as error:
            raise GraphError(f"tree-means {error}") from None

    @property
    def roots(self) -> IntArray:
        """Places at which walks begin, (T,); see :func:`~calibrant.numerics.tree_walk.places_below`."""
        firsts = np.cumsum(self.n_splits) - self.n_splits
        first_leaves = len(self.thresholds) + firsts + np.arange(len(self.n_splits))
        roots: IntArray = np.where(self.n_splits > 0, firsts, first_leaves)
        return roots

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        below = places_below(self.n_splits, self.children)
        n_trees, n_all, roots = len(self.n_splits), len(self.thresholds), self.roots
        values = self.values / n_trees
        one_row = _one_row_kernel(self, below, values)

        def kernel(out: FloatArray | None, x: FloatArray) -> Any:  # noqa: ARG001
            if len(x) == 1 and n_all <= MOST_SPLITS_AT_ONCE:
                return one_row(x)
            places = np.tile(roots, (len(x), 1))
            walk(x, places, self.columns, self.thresholds, below)
            places -= n_all
            ends = np.arange(0, places.size + 1, n_trees)
            shape = (len(x), len(values))
            return csr_array((np.ones(places.size), places.ravel(), ends), shape=shape) @ values

        return kernel


def _one_row_kernel(trees: TreeMeans, below: IntArray, values: Vector) -> Kernel:
    """Return the kernel for one row: every split is evaluated, and paths are doubled until all end in leaves."""
    n_all, roots = len(trees.thresholds), trees.roots
    left, right = below.T.copy()
    leaves = np.arange(n_all, n_all + len(values))
    n_doublings = max(_depth(roots, below) - 1, 0).bit_length()  # to 2**n_doublings steps

    def kernel(x: FloatArray) -> Vector:
        goes_right = x[0].take(trees.columns) >= trees.thresholds
        places = np.concatenate([np.where(goes_right, right, left), leaves])
        for _ in range(n_doublings):
            places = places.take(places)
        in_leaves = values.take(places.take(roots) - n_all, 0)
        # From the first tree to the last, as the product with a sparse matrix adds them up.
        return np.add.accumulate(in_leaves, axis=0)[-1:]

    return kernel


def _depth(roots: IntArray, below: IntArray) -> int:
    """Return the largest number of splits on the way from a root to a leaf."""
    depth, at = 0, roots[roots < len(below)]
    while len(at):
        at = below[at].ravel()
        at = at[at < len(below)]
        depth += 1
    return depth
