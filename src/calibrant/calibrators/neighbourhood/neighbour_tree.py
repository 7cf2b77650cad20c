"""NeighbourTreeMeans: averages over the nearest of many calibration points, found by a tree."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from calibrant.calibrators.neighbourhood.distances import SquaredEuclidean, rows_in_a_block
from calibrant.calibrators.neighbourhood.local_means import LocalMeans
from calibrant.calibrators.neighbourhood.nearest_edges import places_reached, points_to_reach
from calibrant.calibrators.neighbourhood.nearest_means import NearestMeans
from calibrant.calibrators.neighbourhood.nearest_summands import TIE, Summands

__all__ = ["NeighbourTreeMeans", "tree_is_faster"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Measured: with more classes a query visits too many leaves, and with more neighbours it keeps them sorted for longer
# than a product with all points and a partition of it would take.
MOST_CLASSES = 6
POINTS_PER_NEIGHBOUR = 32


def tree_is_faster(weights: Vector, n_classes: int, largest: float) -> bool:
    """Tell whether a tree finds neighbours up to the largest size sooner than distances to all points do.

    >>> tree_is_faster(np.ones(100_000), 3, 512), tree_is_faster(np.ones(5_000), 3, 512)
    (True, False)
    """
    return n_classes <= MOST_CLASSES and POINTS_PER_NEIGHBOUR * _candidates(weights, largest) <= len(weights)


class NeighbourTreeMeans(LocalMeans):
    """The same means as :class:`NearestMeans` by Euclidean distance, in less than linear time a row.

    The tree gives so many of the nearest points that the size is surely reached, and one more. Where even the last of
    them is at the edge there may be others just as near; such rows are compared with all points.

    Parameters
    ----------
    points : ndarray of shape (u, K)
        Calibration points.
    weights : ndarray of shape (u,)
        Weight of every point.
    targets : ndarray of shape (u, K)
        What to average.
    largest : float
        The largest size that will be asked for.

    Notes
    -----
    About O(log u + k) a row for k neighbours and few classes. Memory O(u K), and that of one block.

    Examples
    --------
    >>> points = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    >>> near = NeighbourTreeMeans(points, np.ones(3), np.array([[10.0], [20.0], [30.0]]), largest=2)
    >>> list(near.means(np.array([[1.0, 0.0]]), [1, 2]))
    [array([[10.]]), array([[15.]])]
    """

    def __init__(self, points: Matrix, weights: Vector, targets: Matrix, largest: float) -> None:
        self._tree = KDTree(points)
        self._targets = targets
        self._summands = Summands(weights, targets)
        self._n_candidates = min(len(weights), _candidates(weights, largest))
        self.numbers_per_row = len(weights)
        self.block_rows = rows_in_a_block(self._n_candidates)

    @cached_property
    def _all(self) -> NearestMeans:
        """Means by distances to all points; most data never need them."""
        points = np.asarray(self._tree.data)
        return NearestMeans(SquaredEuclidean(points), self._summands.weights, self._targets)

    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        near, points = self._tree.query(rows, k=np.arange(1, self._n_candidates + 1))
        near **= 2
        totals = np.cumsum(self._summands.weights[points], axis=1)
        numbers = np.arange(len(rows))
        edges = [near[numbers, places_reached(totals, size)] for size in sizes]
        ends = near[:, -1] if self._n_candidates < len(self._summands.weights) else np.inf
        crowded = np.flatnonzero(np.max(edges, axis=0) + TIE >= ends)
        by_all = self._means_by_all(rows[crowded], sizes) if len(crowded) else None
        for number, (size, edge) in enumerate(zip(sizes, edges, strict=True)):
            places = np.flatnonzero(near <= edge[:, np.newaxis] + TIE)
            mean = self._summands.mean(
                near.ravel()[places], places // near.shape[1], points.ravel()[places], edge, size
            )
            if by_all is not None:
                mean[crowded] = by_all[number]
            yield mean

    def _means_by_all(self, rows: Matrix, sizes: Sequence[float]) -> Matrix:
        """Return the means of some rows by their distances to all points, (S, m, K), a few rows at a time."""
        means = np.empty((len(sizes), len(rows), self._summands.n_targets))
        for start in range(0, len(rows), self._all.block_rows):
            block = slice(start, start + self._all.block_rows)
            for number, mean in enumerate(self._all.means(rows[block], sizes)):
                means[number, block] = mean
        return means


def _candidates(weights: Vector, largest: float) -> int:
    """Return how many points surely weigh the largest size, and one more."""
    return points_to_reach(weights, largest) + 1
