"""Folds that depend on what the rows contain, not on how they are ordered."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fold", "folds_by_content"]

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to learn from and rows to judge by, each with weights (None: all count once)."""

    train_rows: NDArray[np.intp]
    train_weights: Vector | None
    test_rows: NDArray[np.intp]
    test_weights: Vector | None


def folds_by_content(keys: tuple[Vector, ...], weights: Vector | None, n_folds: int) -> list[Fold]:
    """Sort the rows by ``keys`` and deal them out at random, always by the same random numbers.

    The folds are the same for any order of the rows. Places are dealt out, not rows: a row of weight two
    takes two places like two equal rows would, and half of it may fall into one fold and half into another,
    so weights and repeated rows give the same answer. Costs one sort.

    >>> folds = folds_by_content((np.array([0.3, 0.1, 0.2, 0.4]),), None, 2)
    >>> sorted(np.concatenate([fold.test_rows for fold in folds]).tolist())
    [0, 1, 2, 3]
    """
    order = np.lexsort(keys[::-1])
    if weights is None:
        fold_of = np.empty(len(order), dtype=np.intp)
        fold_of[order] = _shuffled(len(order), n_folds)
        return [
            Fold(np.flatnonzero(fold_of != fold), None, np.flatnonzero(fold_of == fold), None)
            for fold in range(n_folds)
        ]
    # Weights below one on average are shares of a row, so places shrink with them.
    place = min(1.0, float(weights.mean()))
    ends = np.cumsum(weights[order]) / place
    starts = np.concatenate([[0.0], ends[:-1]])
    fold_of_place = _shuffled(int(np.ceil(ends[-1] - 1e-9)), n_folds)
    folds = []
    for fold in range(n_folds):
        in_fold = fold_of_place == fold
        before = np.concatenate([[0.0], np.cumsum(in_fold)])
        held_out = np.empty(len(order))
        held_out[order] = place * (
            np.interp(ends, np.arange(len(before)), before)
            - np.interp(starts, np.arange(len(before)), before)
        )
        kept = weights - held_out
        # What rounding leaves of a whole place is nothing.
        train, test = np.flatnonzero(kept > 1e-9 * place), np.flatnonzero(held_out > 1e-9 * place)
        folds.append(Fold(train, kept[train], test, held_out[test]))
    return folds


def _shuffled(n_places: int, n_folds: int) -> NDArray[np.intp]:
    """Return a fold for every place, all folds equally often, in an order that is always the same."""
    return np.random.default_rng(0).permutation(np.arange(n_places) % n_folds)
