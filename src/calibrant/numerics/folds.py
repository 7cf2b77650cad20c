"""Folds that depend on what the rows contain, not on how they are ordered."""

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fold", "folds_by_content"]

Vector = NDArray[np.float64]

COMMON = -1  # the fold of a group that all folds share
MANY_GROUPS = 10  # per fold; with fewer, a heavy group may be a single row


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to learn from and rows to judge by, each with weights (None: all count once)."""

    train_rows: NDArray[np.intp]
    train_weights: Vector | None
    test_rows: NDArray[np.intp]
    test_weights: Vector | None


def folds_by_content(keys: tuple[Vector, ...], weights: Vector | None, n_folds: int) -> list[Fold]:
    """Deal the rows out to folds at random, always by the same random numbers.

    Rows with equal keys stay together, so that no row is judged by a copy of itself, and the folds depend
    neither on the order of the rows nor on whether a row is given twice or has the weight two: groups of equal
    rows are dealt out in a shuffled order, heavy ones first, each to the lightest fold. A group heavier than
    half a fold, such as the rows of which a forest is quite sure, would leave a fold with little else; it is
    shared out among all folds in equal parts, if there are groups enough to tell it apart from chance. Costs
    one sort.

    >>> folds = folds_by_content((np.array([0.3, 0.1, 0.1, 0.4]),), None, 2)
    >>> sorted(fold.test_rows.tolist() for fold in folds)
    [[0, 3], [1, 2]]
    """
    order = np.lexsort(keys[::-1])
    differs = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    group_of = np.empty(len(order), dtype=np.intp)
    group_of[order] = np.concatenate([[0], np.cumsum(differs)])
    # Rounded, so that groups of equal weight stay equal however it was added up.
    masses = np.bincount(group_of, weights).astype(np.float64)
    shares: Vector = np.round(masses / masses.sum(), 12)
    common = (shares > 1 / (2 * n_folds)) & (len(shares) >= MANY_GROUPS * n_folds)
    fold_of = _dealt(shares, common, n_folds)[group_of]
    return [_fold(fold_of == fold, fold_of == COMMON, weights, n_folds) for fold in range(n_folds)]


def _dealt(shares: Vector, common: NDArray[np.bool_], n_folds: int) -> NDArray[np.intp]:
    """Return the fold of every group, :data:`COMMON` for those that belong to all."""
    fold_of = np.full(len(shares), COMMON, dtype=np.intp)
    groups = np.random.default_rng(0).permutation(len(shares))
    groups = groups[~common[groups]]
    groups = groups[np.argsort(-shares[groups], kind="stable")]
    if len(groups) and shares[groups[0]] == shares[groups[-1]]:
        fold_of[groups] = np.arange(len(groups)) % n_folds
        return fold_of
    loads = [(0.0, fold) for fold in range(n_folds)]
    for group in groups.tolist():
        load, fold = heappop(loads)
        fold_of[group] = fold
        heappush(loads, (round(load + shares[group], 12), fold))
    return fold_of


def _fold(
    held_out: NDArray[np.bool_], common: NDArray[np.bool_], weights: Vector | None, n_folds: int
) -> Fold:
    train, test = np.flatnonzero(~held_out), np.flatnonzero(held_out | common)
    if weights is None and not common.any():
        return Fold(train, None, test, None)
    whole = np.ones(len(held_out)) if weights is None else weights
    test_part = np.where(common, whole / n_folds, whole)
    train_part = np.where(common, whole - whole / n_folds, whole)
    return Fold(train, train_part[train], test, test_part[test])
