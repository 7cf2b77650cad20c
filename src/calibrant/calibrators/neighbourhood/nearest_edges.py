"""Edges of neighbourhoods: the distance at which the nearest points weigh what a neighbourhood shall weigh."""

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

__all__ = ["ROUNDING", "edges_of_sizes", "places_reached", "points_to_reach"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Relative rounding of a sum of weights.
ROUNDING = 1e-12


def edges_of_sizes(distances: Matrix, weights: Vector, sizes: Sequence[float]) -> list[Vector]:
    """Return for every size the distance at which each row has reached it, or that of its farthest point.

    Parameters
    ----------
    distances : ndarray of shape (m, u)
        From every row to every point; may be infinite.
    weights : ndarray of shape (u,)
        Weight of every point.
    sizes : sequence of float
        Total weights of neighbourhoods.

    Notes
    -----
    O(m u) for all sizes if all points weigh the same, otherwise O(m u log u), or less where few points surely weigh the
    largest size.

    Examples
    --------
    >>> edges_of_sizes(np.array([[0.3, 0.1, 0.2]]), np.array([1.0, 1.0, 2.0]), [1, 2, 4])
    [array([0.1]), array([0.2]), array([0.3])]
    """
    if weights.min() == weights.max():
        return _edges_among_equals(distances, weights, sizes)
    enough = points_to_reach(weights, max(sizes))
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


def _edges_among_equals(distances: Matrix, weights: Vector, sizes: Sequence[float]) -> list[Vector]:
    """Return the same if all points weigh the same, so that nothing need be sorted."""
    ranks = [points_to_reach(weights, size * (1 - ROUNDING)) for size in sizes]
    edges = {}
    # The largest first: every further partition works on the part that the one before has put in front.
    for rank in sorted(set(ranks), reverse=True):
        distances = np.partition(distances, rank - 1, axis=1)[:, :rank]
        edges[rank] = distances[:, -1].copy()
    return [edges[rank] for rank in ranks]


def points_to_reach(weights: Vector, size: float) -> int:
    """Return how many points surely weigh a size, whichever they are; at most all of them.

    >>> points_to_reach(np.array([0.5, 1.0, 1.0, 1.0]), 1.5), points_to_reach(np.array([1e-310, 1.0]), 2)
    (3, 2)
    """
    lightest = float(weights.min())
    # The quotient by a weight that is next to nothing may be infinite, and is not taken then.
    return len(weights) if size >= len(weights) * lightest else ceil(size / lightest)


def places_reached(totals: Matrix, size: float) -> NDArray[np.intp]:
    """Return the first place of every row at which running totals of weights reach a size, or the last place.

    >>> places_reached(np.array([[1.0, 2.0, 4.0], [3.0, 4.0, 5.0], [1.0, 1.5, 2.0]]), 3)
    array([2, 0, 2])
    """
    before = np.count_nonzero(totals < size * (1 - ROUNDING), axis=1)
    places: NDArray[np.intp] = np.minimum(before, totals.shape[1] - 1)
    return places
