"""Folds that depend on the content of the rows, not on their order."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector

__all__ = [
    "LARGEST_COUNT",
    "Fold",
    "FoldNumbers",
    "content_order",
    "content_seed",
    "dealt_whole",
    "fold_numbers",
    "folds_by_content",
]


LARGEST_COUNT = 1000  # integers from here on are importance weights, not frequencies
CHUNK = 2**16  # numbers of rows that are Python objects at a time


@dataclass(frozen=True, eq=False)
class Fold:
    """Training rows and test rows, each with weights (None: all 1)."""

    train_rows: NDArray[np.intp]
    train_weights: Vector | None
    test_rows: NDArray[np.intp]
    test_weights: Vector | None


def content_seed(values: NDArray[np.generic]) -> int:
    """Return a seed that is a hash of some values in their order.

    If rows with equal keys have different outcomes, a fixed seed would make the outcome frequency of each fold a fixed
    function of the number of rows; a seed that depends on the outcomes keeps it random over data sets.

    >>> content_seed(np.array([True, False])) == content_seed(np.array([False, True]))
    False
    """
    return zlib.crc32(np.ascontiguousarray(values).tobytes())


@dataclass(frozen=True, eq=False)
class FoldNumbers:
    """The fold of every row, one or two bytes each, from which the folds of any stretch of rows follow.

    Attributes
    ----------
    n_folds : int
    fold_of : ndarray of shape (n,) or None
        The fold that holds out the row; None if rows count several times.
    counts : ndarray of shape (F, n) or None
        Otherwise, how many of the copies that a row stands for are held out by every fold.
    unit : float
        Weight of one copy.
    """

    n_folds: int
    fold_of: NDArray[np.unsignedinteger] | None
    counts: NDArray[np.unsignedinteger] | None = None
    unit: float = 1.0

    def fold(self, number: int, weights: Vector | None, rows: slice = slice(None)) -> Fold:
        """Return one fold of the rows of a slice; they are counted from its start, and so are their weights."""
        if self.fold_of is not None:
            is_test = self.fold_of[rows] == number
            train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
            if weights is None:
                return Fold(train, None, test, None)
            return Fold(train, weights[train], test, weights[test])
        assert self.counts is not None
        assert weights is not None
        held_out = self.unit * self.counts[number, rows].astype(np.float64)
        kept = weights - held_out
        train, test = np.flatnonzero(kept), np.flatnonzero(held_out)
        return Fold(train, kept[train], test, held_out[test])


def folds_by_content(
    keys: Iterable[Vector], weights: Vector | None, n_folds: int, seed: int = 0
) -> list[Fold]:
    """Return the folds of :func:`fold_numbers`.

    >>> folds = folds_by_content((np.array([0.3, 0.1, 0.2, 0.4]),), None, 2)
    >>> sorted(np.concatenate([fold.test_rows for fold in folds]).tolist())
    [0, 1, 2, 3]
    """
    numbers = fold_numbers(keys, weights, n_folds, seed)
    return [numbers.fold(number, weights) for number in range(n_folds)]


def fold_numbers(keys: Iterable[Vector], weights: Vector | None, n_folds: int, seed: int = 0) -> FoldNumbers:
    """Sort the rows by ``keys`` and assign them to random folds, with fixed random numbers for a given seed.

    The folds do not depend on the order of the rows, if rows with equal keys are equal. Integer weights are frequencies,
    after division by their greatest common divisor: a row of weight 2 is assigned like two equal rows, possibly to two
    folds, so that the result is that of repeated rows. With other weights a row is assigned to one fold, the lightest so
    far, heavy rows first. Costs one sort. A key is evaluated only if the previous ones are tied.
    """
    small = np.min_scalar_type(n_folds)
    if (
        weights is None
        or weights.min() == weights.max()
        or not np.array_equal(weights, np.round(weights))
        or weights.max() >= LARGEST_COUNT
    ):
        return FoldNumbers(n_folds, dealt_whole(keys, weights, n_folds, seed).astype(small))
    order = content_order(chain(keys, [weights]))
    unit = int(np.gcd.reduce(weights.astype(np.int64)))
    row_of_place = np.repeat(order, (weights[order] / unit).astype(np.intp))
    fold_of_place = _shuffled(len(row_of_place), n_folds, seed)
    counts = np.empty((n_folds, len(weights)), dtype=np.uint16)
    for fold in range(n_folds):
        counts[fold] = np.bincount(row_of_place[fold_of_place == fold], minlength=len(weights))
    return FoldNumbers(n_folds, None, counts, float(unit))


def dealt_whole(
    keys: Iterable[Vector], weights: Vector | None, n_folds: int, seed: int = 0
) -> NDArray[np.intp]:
    """Return one fold for every row, (n,), with folds of nearly the same weight.

    Like :func:`fold_numbers`, but integer weights are not frequencies here.

    >>> sorted(dealt_whole((np.array([0.3, 0.1, 0.2, 0.4]),), np.array([3.0, 1.0, 1.0, 1.0]), 2).tolist())
    [0, 1, 1, 1]
    """
    if weights is None or weights.min() == weights.max():
        order = content_order(keys)
        dealt = _shuffled(len(order), n_folds, seed)
    else:
        order = content_order(chain(keys, [weights]))
        dealt = _balanced(weights[order], n_folds, seed)
    fold_of = np.empty(len(order), dtype=np.intp)
    fold_of[order] = dealt
    return fold_of


def content_order(keys: Iterable[Vector]) -> NDArray[np.intp]:
    """Return the rows in the order of the first key, ties by the second and so on, as ``numpy.lexsort`` does.

    Keys are asked for one by one, and not at all once no ties are left, so that they can be made when they are needed.

    >>> content_order([np.array([1.0, 0.0, 1.0]), np.array([5.0, 4.0, 3.0])])
    array([1, 2, 0])
    """
    each = iter(keys)
    first = next(each)
    order = np.argsort(first, kind="stable")
    begins = _begins(first[order])
    del first
    while not begins.all() and (key := next(each, None)) is not None:
        tied = ~begins
        tied[:-1] |= ~begins[1:]
        rows = order[tied]
        groups = np.cumsum(begins)[tied]
        order[tied] = rows[np.lexsort((key[rows], groups))]
        begins |= _begins(key[order])
    return order


def _begins(values: Vector) -> NDArray[np.bool_]:
    """Return which values differ from their predecessor."""
    return np.concatenate([[True], values[1:] != values[:-1]])[: len(values)]


def _balanced(weights: Vector, n_folds: int, seed: int) -> NDArray[np.intp]:
    """Return a fold for every weight, such that all folds weigh nearly the same."""
    rows = np.random.default_rng(seed).permutation(len(weights))
    rows = rows[np.argsort(-weights[rows], kind="stable")]
    fold_of = np.empty(len(weights), dtype=np.intp)
    loads = [(0.0, fold) for fold in range(n_folds)]
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        for row, weight in zip(some.tolist(), weights[some].tolist(), strict=True):
            load, fold = heappop(loads)
            fold_of[row] = fold
            heappush(loads, (load + weight, fold))
    return fold_of


def _shuffled(n_places: int, n_folds: int, seed: int) -> NDArray[np.intp]:
    """Return a random permutation of equally frequent folds, determined by the seed."""
    return np.random.default_rng(seed).permutation(np.arange(n_places) % n_folds)
