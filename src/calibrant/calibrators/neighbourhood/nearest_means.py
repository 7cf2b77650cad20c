"""NearestMeans: averages over the nearest calibration points, up to a total weight."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.neighbourhood.distances import Distances, rows_in_a_block
from calibrant.calibrators.neighbourhood.local_means import LocalMeans
from calibrant.calibrators.neighbourhood.nearest_edges import edges_of_sizes
from calibrant.calibrators.neighbourhood.nearest_summands import TIE, Summands

__all__ = ["NearestMeans"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# From this many points for every neighbour on, a list of neighbours is cheaper than a product with many zeros.
SPARSE = 16

LARGEST = float(np.finfo(np.float64).max)


class NearestMeans(LocalMeans):
    """Weighted means over the nearest points, found by a matrix product and partial sorts.

    The size of a neighbourhood is the total weight of its points. Points are taken in the order of their distance;
    those at the distance at which the size is reached share what is left of it in proportion to their weights. Points
    at an infinite distance are never taken.

    Parameters
    ----------
    distances : Distances
        Knows the points, (u, K).
    weights : ndarray of shape (u,)
        Weight of every point.
    targets : ndarray of shape (u, K)
        What to average.

    Notes
    -----
    For m rows and S sizes O(m u K) for the distances, O(m u) for finding the S distances at which sizes are reached
    (O(m u log u) unless all points weigh the same), and O(m u K) in matrix products for every size that is not
    small beside u. Memory O(m u).

    Examples
    --------
    >>> from calibrant.calibrators.neighbourhood.distances import SquaredEuclidean
    >>> points = SquaredEuclidean(np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]))
    >>> near = NearestMeans(points, np.array([1.0, 1.0, 2.0]), np.array([[10.0], [20.0], [30.0]]))
    >>> list(near.means(np.array([[1.0, 0.0]]), [2, 3]))    # the last point counts once of twice: (10 + 20 + 30) / 3
    [array([[15.]]), array([[20.]])]
    """

    def __init__(self, distances: Distances, weights: Vector, targets: Matrix) -> None:
        self._distances = distances
        self._summands = Summands(weights, targets)
        self.numbers_per_row = len(weights)
        self.block_rows = rows_in_a_block(len(weights))

    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        distances = self._distances.ordering(rows)
        found = edges_of_sizes(distances, self._summands.weights, sizes)
        for size, edges in zip(sizes, found, strict=True):
            # Were an infinite distance the edge, those infinitely far would be at it.
            edges = np.minimum(edges, LARGEST)
            if SPARSE * size <= self._summands.total:
                places = np.flatnonzero(distances <= edges[:, np.newaxis] + TIE)
                numbers, points = np.divmod(places, distances.shape[1])
                yield self._summands.mean(distances.ravel()[places], numbers, points, edges, size)
            else:
                yield self._summands.mean_of_many(distances, edges, size)
