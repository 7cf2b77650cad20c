"""Folds that depend on what the rows contain, not on how they are ordered."""

import zlib
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fold", "content_seed", "dealt_whole", "folds_by_content"]

Vector = NDArray[np.float64]

LARGEST_COUNT = 1000  # whole numbers from here on are amounts, not counts of rows


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to learn from and rows to judge by, each with weights (None: all count once)."""

    train_rows: NDArray[np.intp]
    train_weights: Vector | None
    test_rows: NDArray[np.intp]
    test_weights: Vector | None


def content_seed(values: NDArray[np.generic]) -> int:
    """Return a seed that depends on every one of some values in their order, and on nothing else.

    Where rows with equal keys differ in an outcome, a fixed seed would make the share of outcomes in each fold a
    fixed function of their number, and no longer random from one data set to the next; a seed made of the
    outcomes keeps it random.

    >>> content_seed(np.array([True, False])) == content_seed(np.array([False, True]))
    False
    """
    return zlib.crc32(np.ascontiguousarray(values).tobytes())


def folds_by_content(
    keys: tuple[Vector, ...], weights: Vector | None, n_folds: int, seed: int = 0
) -> list[Fold]:
    """Sort the rows by ``keys`` and deal them out at random, always by the same random numbers for one seed.

    The folds are the same for any order of the rows, if rows with equal keys are alike. Weights that are whole
    numbers count rows: a row of weight two takes two places, as two equal rows would, and its halves may fall
    into two folds, so that the answer is that of the repeated rows; what all weights have in common is divided
    out first. Other weights say how much a row matters: it goes whole into one fold, the lightest so far, heavy
    rows first, so that no row is judged by a part of itself. Costs one sort.

    >>> folds = folds_by_content((np.array([0.3, 0.1, 0.2, 0.4]),), None, 2)
    >>> sorted(np.concatenate([fold.test_rows for fold in folds]).tolist())
    [0, 1, 2, 3]
    """
    if weights is None or weights.min() == weights.max():
        fold_of = _shuffled(len(keys[0]), n_folds, seed)[_ranks(np.lexsort(keys[::-1]))]
        return _whole_rows(fold_of, weights, n_folds)
    order = np.lexsort((weights, *keys[::-1]))
    if np.array_equal(weights, np.round(weights)) and weights.max() < LARGEST_COUNT:
        return _counted_rows(order, weights, n_folds, seed)
    return _whole_rows(dealt_whole(keys, weights, n_folds, seed), weights, n_folds)


def dealt_whole(keys: tuple[Vector, ...], weights: Vector, n_folds: int, seed: int = 0) -> NDArray[np.intp]:
    """Return a fold for every row, (n,), none of them in two folds, in folds of nearly the same weight.

    As :func:`folds_by_content` but for weights that are whole numbers: these are not taken for copies here.

    >>> sorted(dealt_whole((np.array([0.3, 0.1, 0.2, 0.4]),), np.array([3.0, 1.0, 1.0, 1.0]), 2).tolist())
    [0, 1, 1, 1]
    """
    if weights.min() == weights.max():
        return _shuffled(len(weights), n_folds, seed)[_ranks(np.lexsort(keys[::-1]))]
    order = np.lexsort((weights, *keys[::-1]))
    fold_of = np.empty(len(order), dtype=np.intp)
    fold_of[order] = _balanced(weights[order], n_folds, seed)
    return fold_of


def _whole_rows(fold_of: NDArray[np.intp], weights: Vector | None, n_folds: int) -> list[Fold]:
    folds = []
    for fold in range(n_folds):
        train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        if weights is None:
            folds.append(Fold(train, None, test, None))
        else:
            folds.append(Fold(train, weights[train], test, weights[test]))
    return folds


def _counted_rows(order: NDArray[np.intp], weights: Vector, n_folds: int, seed: int) -> list[Fold]:
    """Deal out places; each row takes as many as its weight counts."""
    unit = int(np.gcd.reduce(weights.astype(np.int64)))
    counts = (weights[order] / unit).astype(np.intp)
    row_of_place = np.repeat(order, counts)
    fold_of_place = _shuffled(len(row_of_place), n_folds, seed)
    folds = []
    for fold in range(n_folds):
        held_out = unit * np.bincount(row_of_place[fold_of_place == fold], minlength=len(order)).astype(
            np.float64
        )
        kept = weights - held_out
        train, test = np.flatnonzero(kept), np.flatnonzero(held_out)
        folds.append(Fold(train, kept[train], test, held_out[test]))
    return folds


def _balanced(weights: Vector, n_folds: int, seed: int) -> NDArray[np.intp]:
    """Return a fold for every weight, such that all folds weigh nearly the same."""
    rows = np.random.default_rng(seed).permutation(len(weights))
    rows = rows[np.argsort(-weights[rows], kind="stable")]
    fold_of = np.empty(len(weights), dtype=np.intp)
    loads = [(0.0, fold) for fold in range(n_folds)]
    for row in rows.tolist():
        load, fold = heappop(loads)
        fold_of[row] = fold
        heappush(loads, (load + float(weights[row]), fold))
    return fold_of


def _shuffled(n_places: int, n_folds: int, seed: int) -> NDArray[np.intp]:
    """Return a fold for every place, all folds equally often, in an order that only the seed decides."""
    return np.random.default_rng(seed).permutation(np.arange(n_places) % n_folds)


def _ranks(order: NDArray[np.intp]) -> NDArray[np.intp]:
    ranks = np.empty(len(order), dtype=np.intp)
    ranks[order] = np.arange(len(order))
    return ranks
