"""Walks down binary trees: from the root of every tree to the leaf that a row falls into."""

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import IntArray

__all__ = ["check_trees", "places_below", "walk"]


def places_below(n_splits: NDArray[np.integer], children: NDArray[np.integer]) -> IntArray:
    """Return the places on the left and on the right of every split, (S, 2).

    Places number the splits of all trees, then the leaves of all trees.

    Parameters
    ----------
    n_splits : ndarray of shape (T,)
        Number of splits of every tree; a tree with J splits has J + 1 leaves.
    children : ndarray of shape (S, 2)
        Number of the next split within its tree, or ``~number`` of a leaf.

    Examples
    --------
    Two trees, of one split and of two:

    >>> places_below(np.array([1, 2]), np.array([[-1, -2], [-1, 1], [-2, -3]]))
    array([[3, 4], [5, 2], [6, 7]])
    """
    first_splits = np.cumsum(n_splits) - n_splits
    first_leaves = len(children) + first_splits + np.arange(len(n_splits))
    tree = np.repeat(np.arange(len(n_splits)), n_splits)[:, np.newaxis]
    below: IntArray = np.where(children >= 0, first_splits[tree] + children, first_leaves[tree] + ~children)
    return below


def walk(
    rows: NDArray[np.floating],
    places: IntArray,
    columns: NDArray[np.integer],
    thresholds: NDArray[np.floating],
    below: IntArray,
    goes_on: NDArray[np.bool_] | None = None,
) -> None:
    """Move rows (n, K) from their places (n, T) down to leaves, in place.

    Parameters
    ----------
    columns, thresholds : ndarray of shape (S,)
        A row goes left if its entry in the column is below the threshold, and right otherwise.
    below : ndarray of shape (S, 2)
        See :func:`places_below`.
    goes_on : ndarray of shape (S,), optional
        Splits at which rows go on; at all others they stop.
    """
    n_rows, n_columns = rows.shape
    entries, flat, children = np.ascontiguousarray(rows).ravel(), places.ravel(), below.ravel()
    first_entries = np.repeat(np.arange(n_rows) * n_columns, places.shape[1])
    walkers = np.flatnonzero(flat < len(columns))
    at = flat[walkers]
    while len(walkers):
        if goes_on is not None:
            moves = goes_on.take(at)
            # Several times as fast as an index by a mask.
            walkers, at = np.compress(moves, walkers), np.compress(moves, at)
        entry = first_entries.take(walkers)
        entry += columns.take(at)
        goes_right = entries.take(entry) >= thresholds.take(at)
        at *= 2
        at += goes_right
        at = children.take(at)
        flat[walkers] = at
        is_split = at < len(columns)
        walkers, at = np.compress(is_split, walkers), np.compress(is_split, at)
    if not np.shares_memory(flat, places):
        places[...] = flat.reshape(places.shape)


def check_trees(
    n_splits: NDArray[np.integer],
    columns: NDArray[np.integer],
    thresholds: NDArray[np.floating],
    children: NDArray[np.integer],
    n_columns: int,
) -> None:
    """Raise ``ValueError`` unless each split and leaf is reached from the root of its tree on exactly one path.

    A split leads only to splits with a larger number, so there is no cycle.
    """
    n_splits = np.asarray(n_splits)
    if n_splits.ndim != 1 or n_splits.dtype.kind not in "iu" or not len(n_splits) or (n_splits < 0).any():
        raise ValueError("must have a number of splits for each of one or more trees.")
    total = len(thresholds)
    # Each for itself, since their sum may be beyond the range of integers.
    if n_splits.max() > total or int(n_splits.sum(dtype=np.float64)) != total:
        raise ValueError("has another number of splits than its trees.")
    shapes = (thresholds.shape, columns.shape, children.shape)
    are_integers = columns.dtype.kind in "iu" and children.dtype.kind in "iu"
    if not are_integers or shapes != ((total,), (total,), (total, 2)):
        raise ValueError("must have a class, a threshold and two children for every split.")
    if ((columns < 0) | (columns >= n_columns)).any():
        raise ValueError("splits by a class that it does not have.")
    tree = np.repeat(np.arange(len(n_splits)), n_splits)
    numbers = np.arange(total) - (np.cumsum(n_splits) - n_splits)[tree]
    children = children.astype(np.int64)
    inner = children >= 0
    ahead = np.where(inner, children > numbers[:, np.newaxis], True)
    ends = n_splits[tree][:, np.newaxis] + ~inner
    if not ahead.all() or (np.where(inner, children, ~children) >= ends).any():
        raise ValueError("has splits that lead back, or out of their tree.")
    # With two children for every split, all different are all but the roots, and all leaves.
    if len(np.unique(places_below(n_splits, children))) < 2 * total:
        raise ValueError("has splits or bins that are reached by two ways.")
