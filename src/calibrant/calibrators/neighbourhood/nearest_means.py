"""NearestMeans: averages over the nearest calibration points, up to a total weight."""

from collections.abc import Iterator, Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from calibrant.calibrators.neighbourhood.distances import Distances, rows_in_a_block
from calibrant.calibrators.neighbourhood.local_means import LocalMeans

__all__ = ["TIE", "NearestMeans", "Summands", "places_reached"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Distances closer than this are equal: the rounding of a matrix product must not decide who is a neighbour.
TIE = 1e-12

# Relative rounding of a sum of weights.
ROUNDING = 1e-12

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
        self._are_alike = bool(weights.min() == weights.max())
        self.block_rows = rows_in_a_block(len(weights))

    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        distances = self._distances.ordering(rows)
        find = self._edges_of_equals if self._are_alike else self._edges
        for size, edges in zip(sizes, find(distances, sizes), strict=True):
            # Were an infinite distance the edge, those infinitely far would be at it.
            edges = np.minimum(edges, LARGEST)
            if SPARSE * size <= self._summands.total:
                places = np.flatnonzero(distances <= edges[:, np.newaxis] + TIE)
                numbers, points = np.divmod(places, distances.shape[1])
                yield self._summands.mean(distances.ravel()[places], numbers, points, edges, size)
            else:
                yield self._summands.mean_of_many(distances, edges, size)

    def _edges_of_equals(self, distances: Matrix, sizes: Sequence[float]) -> list[Vector]:
        """Return for every size the distance at which each row has reached it, if all points weigh the same."""
        n_points, weight = len(self._summands.weights), float(self._summands.weights[0])
        ranks = [min(n_points, ceil(size / weight * (1 - ROUNDING))) for size in sizes]
        edges = {}
        # The largest first: every further partition works on the part that the one before has put in front.
        for rank in sorted(set(ranks), reverse=True):
            distances = np.partition(distances, rank - 1, axis=1)[:, :rank]
            edges[rank] = distances[:, -1].copy()
        return [edges[rank] for rank in ranks]

    def _edges(self, distances: Matrix, sizes: Sequence[float]) -> list[Vector]:
        """Return for every size the distance at which each row has reached it."""
        weights = self._summands.weights
        enough = ceil(max(sizes) / float(weights.min()))
        # Points that surely weigh the largest size, if they are few, need not be sorted among all others.
        if 2 * enough <= len(weights):
            some = np.argpartition(distances, enough - 1, axis=1)[:, :enough]
            near = np.take_along_axis(distances, some, axis=1)
            order = np.argsort(near, axis=1)
            totals = np.cumsum(weights[np.take_along_axis(some, order, axis=1)], axis=1)
        else:
            near, order = distances, np.argsort(distances, axis=1)
            totals = np.cumsum(weights[order], axis=1)
        rows = np.arange(len(distances))
        return [near[rows, order[rows, places_reached(totals, size)]] for size in sizes]


def places_reached(totals: Matrix, size: float) -> NDArray[np.intp]:
    """Return the first place of every row at which running totals of weights reach a size, or the last place.

    >>> places_reached(np.array([[1.0, 2.0, 4.0], [3.0, 4.0, 5.0], [1.0, 1.5, 2.0]]), 3)
    array([2, 0, 2])
    """
    before = np.count_nonzero(totals < size * (1 - ROUNDING), axis=1)
    places: NDArray[np.intp] = np.minimum(before, totals.shape[1] - 1)
    return places


class Summands:
    """What points contribute to a mean: their weights, and their targets times these.

    Parameters
    ----------
    weights : ndarray of shape (u,)
        Weight of every point.
    targets : ndarray of shape (u, K)
        What to average.

    Attributes
    ----------
    weights : ndarray of shape (u,)
        As given.
    total : float
        Their sum.
    n_targets : int
        Number of columns to average.
    """

    def __init__(self, weights: Vector, targets: Matrix) -> None:
        self.weights = weights
        self.total = float(weights.sum())
        self.n_targets = targets.shape[1]
        # The sums of weights come from the same product as those of the targets.
        self._columns = np.column_stack([targets, np.ones(len(targets))]) * weights[:, np.newaxis]

    def mean(
        self, near: Vector, rows: NDArray[np.intp], points: NDArray[np.intp], edges: Vector, size: float
    ) -> Matrix:
        """Return the means (m, K) over neighbours that are listed, row after row, with all that are at the edge.

        Parameters
        ----------
        near : ndarray of shape (e,)
            Distance of every neighbour; at most that of the edge of its row, up to :data:`TIE`.
        rows, points : ndarray of shape (e,)
            To which row it belongs, in increasing order, and which point it is.
        edges : ndarray of shape (m,)
            Distance at which the size is reached.
        size : float
            Total weight of a neighbourhood.
        """
        at_edge = near >= edges[rows] - TIE
        weights = self.weights[points]
        inside = np.bincount(rows, np.where(at_edge, 0.0, weights), len(edges)).astype(np.float64)
        outermost = np.bincount(rows, np.where(at_edge, weights, 0.0), len(edges)).astype(np.float64)
        shares = np.where(at_edge, _shares(inside, outermost, size)[rows], 1.0)
        starts = np.searchsorted(rows, np.arange(len(edges) + 1))
        sums = csr_matrix((shares, points, starts), shape=(len(edges), len(self.weights))) @ self._columns
        return _quotients(sums)

    def mean_of_many(self, distances: Matrix, edges: Vector, size: float) -> Matrix:
        """Return the means (m, K) over all points that are not beyond the edge, by distances to all (m, u)."""
        taken = (distances <= edges[:, np.newaxis] + TIE).astype(np.float64)
        sums = taken @ self._columns
        # Mostly the edge is the distance of one point that fits in as a whole, and there is nothing to share.
        crowded = np.flatnonzero(sums[:, -1] > size * (1 + ROUNDING))
        if len(crowded):
            near = taken[crowded]
            at_edge = distances[crowded] >= edges[crowded, np.newaxis] - TIE
            outermost = (near * at_edge) @ self.weights
            inside = (near * ~at_edge) @ self.weights
            near *= np.where(at_edge, _shares(inside, outermost, size)[:, np.newaxis], 1.0)
            sums[crowded] = near @ self._columns
        return _quotients(sums)


def _shares(inside: Vector, outermost: Vector, size: float) -> Vector:
    """Return the share of the weight at the edge that still fits in, at most one."""
    shares = np.divide(size - inside, outermost, out=np.ones_like(inside), where=outermost > 0)
    return np.clip(shares, 0.0, 1.0)


def _quotients(sums: Matrix) -> Matrix:
    """Return sums of targets over sums of weights; NaN without any neighbour."""
    with np.errstate(invalid="ignore"):
        quotients: Matrix = sums[:, :-1] / sums[:, -1:]
    return quotients
