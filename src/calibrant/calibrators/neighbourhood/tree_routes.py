"""Routes: where rows end up in many trees."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.neighbourhood.random_trees import Trees

__all__ = ["Routes"]

Integers = NDArray[np.intp]
Matrix = NDArray[np.float64]


@dataclass(eq=False)
class Routes:
    """Rows on their way down some trees, which they go as far as a number of bins allows, and then further.

    The places of all trees are numbered through: first the splits of all trees, then the leaves of all trees.

    Attributes
    ----------
    trees : Trees
        T trees.
    rows : ndarray of shape (m, K)
        Predictions.
    places : ndarray of shape (m, T)
        Where every row is in each tree.

    Examples
    --------
    One tree: on the left of 0.4 a leaf, on the right a second split at 0.7.

    >>> from calibrant.calibrators.neighbourhood.random_trees import Stages
    >>> trees = Trees(
    ...     n_splits=np.array([2]),
    ...     classes=np.array([0, 0]),
    ...     thresholds=np.array([0.4, 0.7]),
    ...     children=np.array([[-1, 1], [-2, -3]]),
    ...     stages=Stages(n_bins=np.array([2, 3]), levels=np.array([0, 1])),
    ... )
    >>> routes = Routes(trees, np.array([[0.1, 0.9], [0.5, 0.5], [0.8, 0.2]]))
    >>> routes.advance(2)                                       # two leaves: one that is final, and the second split
    array([[2], [1], [1]])
    >>> routes.advance()
    array([[2], [3], [4]])
    """

    trees: Trees
    rows: Matrix
    places: Integers = field(init=False)

    def __post_init__(self) -> None:
        trees = self.trees
        self._first_splits = trees.first_splits
        self._first_leaves = len(trees.classes) + trees.first_leaves
        roots = np.where(trees.n_splits > 0, self._first_splits, self._first_leaves)
        n_rows, n_classes = self.rows.shape
        self.places = np.tile(roots, (n_rows, 1))
        self._entries = np.ascontiguousarray(self.rows).ravel()
        self._first_entries = np.repeat(np.arange(n_rows) * n_classes, trees.n_trees)
        self._trees = np.tile(np.arange(trees.n_trees), n_rows)

    def advance(self, n_bins: int | None = None) -> Integers:
        """Go down all splits of trees with so many bins, or to the end, and return the places."""
        trees, places = self.trees, self.places.ravel()
        children = trees.children.ravel()
        walkers = np.flatnonzero(places < len(trees.classes))
        at = places[walkers]
        while len(walkers):
            if n_bins is not None and trees.stages is not None:
                goes_on = trees.stages.n_bins.take(at) <= n_bins
                places[walkers] = at
                walkers, at = np.compress(goes_on, walkers), np.compress(goes_on, at)
            entry = self._first_entries.take(walkers)
            entry += trees.classes.take(at)
            goes_right = self._entries.take(entry) >= trees.thresholds.take(at)
            at *= 2
            at += goes_right
            child = children.take(at)
            tree = self._trees.take(walkers)
            inner = child >= 0
            ended = ~inner
            leaves = self._first_leaves.take(np.compress(ended, tree)) + ~np.compress(ended, child)
            places[np.compress(ended, walkers)] = leaves
            # Several times as fast as an index by a mask.
            at = self._first_splits.take(np.compress(inner, tree)) + np.compress(inner, child)
            walkers = np.compress(inner, walkers)
        return self.places
