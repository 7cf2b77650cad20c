"""Summands: what calibration points contribute to the mean of a neighbourhood."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from calibrant.calibrators.neighbourhood.nearest_edges import ROUNDING

__all__ = ["TIE", "Summands"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Distances closer than this are equal: the rounding of a matrix product must not decide who is a neighbour.
TIE = 1e-12


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
    with np.errstate(over="ignore"):  # by a weight that is next to nothing
        shares = np.divide(size - inside, outermost, out=np.ones_like(inside), where=outermost > 0)
    return np.clip(shares, 0.0, 1.0)


def _quotients(sums: Matrix) -> Matrix:
    """Return sums of targets over sums of weights; NaN without any neighbour."""
    with np.errstate(invalid="ignore"):
        quotients: Matrix = sums[:, :-1] / sums[:, -1:]
    return quotients
