"""Splits: the training, calibration and test rows of a unit."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from calibrant.arrays import IntArray
from calibrant.errors import RecipeError, StudyDataError
from calibrant.presentation import counted
from calibrant.studies.specifications import SplitSpec

__all__ = ["Split", "divided_rows", "outer_fold", "split_seed", "splits_of"]


# Uses of random numbers; each has its own stream.
OUTER, INNER, ORDER, UNIT, TEST_ORDER = range(5)


@dataclass(frozen=True)
class Split:
    """One split of the rows of a data set.

    Attributes
    ----------
    kind : str
        ``"folds"``, ``"given"`` or ``"random"``.
    repeat : int
        Index of the random split.
    fold : int
        Index of the outer fold that is the test set, for ``"folds"``.
    calibration_rows : float or None
        Size of the calibration set, or the fraction of rows in it; None for all rows, or half of them.
    """

    kind: str
    repeat: int = 0
    fold: int = 0
    calibration_rows: float | None = None

    def labels(self) -> dict[str, Any]:
        """Return the labels that distinguish this split from others of its kind.

        >>> Split("folds", repeat=1, fold=3).labels()
        {'repeat': 1, 'fold': 3}
        >>> Split("given", calibration_rows=500).labels()
        {'repeat': 0, 'calibration_rows': 500}
        """
        labels: dict[str, Any] = {"repeat": self.repeat}
        if self.kind == "folds":
            labels["fold"] = self.fold
        if self.calibration_rows is not None:
            labels["calibration_rows"] = self.calibration_rows
        return labels


@dataclass(frozen=True, eq=False)
class InnerFold:
    """Training set of a classifier, and its calibration set."""

    training: IntArray
    calibration: IntArray


@dataclass(frozen=True, eq=False)
class OuterFold:
    """Test set of an outer fold, the remaining rows, and their inner folds."""

    test: IntArray
    training: IntArray
    inner: tuple[InnerFold, ...]


def splits_of(spec: SplitSpec) -> list[Split]:
    """Return all splits of a specification, in order; this needs no data.

    >>> splits_of(SplitSpec("folds", repeats=2, folds=2))[-1]
    Split(kind='folds', repeat=1, fold=1, calibration_rows=None)
    >>> len(splits_of(SplitSpec("given", repeats=3, calibration_rows=(100, 200))))
    6
    """
    if spec.kind not in ("folds", "given", "random"):
        raise RecipeError(f"splits must be of kind 'folds', 'given' or 'random', not {spec.kind!r}.")
    if spec.kind == "folds":
        return [Split("folds", repeat, fold) for repeat in range(spec.repeats) for fold in range(spec.folds)]
    sizes = spec.calibration_rows or (None,)
    return [
        Split(spec.kind, repeat, 0, None if size is None else _plain(size))
        for size in sizes
        for repeat in range(spec.repeats)
    ]


def split_seed(seed: int, split: Split) -> int:
    """Return the random seed of a unit after its rows are split.

    It depends only on the repeat and the fold, so that calibrators, and sizes of the calibration set, are compared with common
    random numbers.

    >>> split_seed(0, Split("folds", 1)) == split_seed(0, Split("folds", 2))
    False
    """
    return _number(seed, split.repeat, UNIT, split.fold)


def outer_fold(labels: IntArray, spec: SplitSpec, split: Split, seed: int) -> OuterFold:
    """Return the rows of nested stratified folds.

    The outer folds depend on the seed and the repeat, the inner folds also on the outer fold. A class with fewer rows than
    folds is missing in some folds.

    >>> fold = outer_fold(np.repeat([0, 1], 9), SplitSpec("folds", folds=3, inner=2), Split("folds"), seed=0)
    >>> len(fold.test), [len(inner.calibration) for inner in fold.inner]
    (6, [6, 6])
    """
    outer = _stratified(labels, spec.folds, _number(seed, split.repeat, OUTER))
    training, test = outer[split.fold]
    inner = _stratified(labels[training], spec.inner, _number(seed, split.repeat, INNER, split.fold))
    return OuterFold(
        test, training, tuple(InnerFold(training[rest], training[held_out]) for rest, held_out in inner)
    )


def divided_rows(
    labels: IntArray, spec: SplitSpec, split: Split, seed: int, test_labels: IntArray | None = None
) -> tuple[IntArray, IntArray]:
    """Return the calibration rows and test rows of a split into two sets.

    Without ``test_labels``, all rows are shuffled once per repeat. Calibration rows are taken from the beginning and test rows
    from the end, so smaller calibration sets are subsets of larger ones, and all sizes share a test set. With
    ``test_labels`` the two sets already exist, and each is subsampled to its size.

    >>> spec = SplitSpec("random", calibration_rows=(2, 0.5), test_rows=3)
    >>> labels = np.zeros(10, dtype=np.intp)
    >>> few, test = divided_rows(labels, spec, Split("random", calibration_rows=2), seed=0)
    >>> half, same = divided_rows(labels, spec, Split("random", calibration_rows=0.5), seed=0)
    >>> set(few) < set(half), np.array_equal(test, same), len(half), len(test)
    (True, True, 5, 3)
    """
    n_rows = len(labels)
    if test_labels is not None:
        rows = _size(split.calibration_rows, n_rows, n_rows)
        calibration = np.arange(n_rows)
        if rows < n_rows:
            calibration = _order(labels, spec.stratified, _number(seed, split.repeat, ORDER))[:rows]
        elif rows > n_rows:
            raise _too_few(rows, "for calibration", n_rows)
        if spec.test_rows is None:
            return calibration, np.arange(len(test_labels))
        if spec.test_rows > len(test_labels):
            raise _too_few(spec.test_rows, "for tests", len(test_labels))
        order = _order(test_labels, spec.stratified, _number(seed, split.repeat, TEST_ORDER))
        return calibration, order[: spec.test_rows]
    rows = _size(split.calibration_rows, n_rows, n_rows // 2)
    most = max([rows, *(_size(size, n_rows, 0) for size in spec.calibration_rows)])
    n_test = n_rows - most if spec.test_rows is None else spec.test_rows
    if n_test < 1 or most + n_test > n_rows:
        raise _too_few(most + max(n_test, 1), "for calibration and tests", n_rows)
    order = _order(labels, spec.stratified, _number(seed, split.repeat, ORDER))
    return order[:rows], order[n_rows - n_test :]


def _plain(size: float) -> float:
    return int(size) if float(size).is_integer() else float(size)


def _size(asked: float | None, n_rows: int, otherwise: int) -> int:
    """Return a number of rows; a size below one is a fraction."""
    if asked is None:
        return otherwise
    return max(1, round(asked * n_rows)) if asked < 1 else int(asked)


def _too_few(asked: int, what: str, there: int) -> StudyDataError:
    return StudyDataError(
        f"{counted(asked, 'row')} {what} are requested, but there are {there}; request fewer."
    )


def _number(*entropy: int) -> int:
    """Return a seed below 2**31 derived from all the numbers."""
    return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)


def _stratified(labels: IntArray, n_folds: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    counts = np.bincount(labels)
    if counts.max(initial=0) < n_folds:
        raise StudyDataError(
            f"no class has enough rows for {n_folds} folds; the largest has {counts.max(initial=0)}, so use fewer folds."
        )
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # Rare classes are missing in some folds, as in the published experiments.
        warnings.simplefilter("ignore", UserWarning)
        return list(folds.split(np.zeros(len(labels)), labels))


def _order(labels: IntArray, stratified: bool, seed: int) -> IntArray:
    """Return a random order of the rows; if stratified, its beginning and end have the class frequencies of all rows."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(labels))
    if not stratified:
        return order
    counts = np.bincount(labels)
    places = np.empty(len(labels))
    for k in np.flatnonzero(counts):
        members = order[labels[order] == k]
        places[members] = (np.arange(counts[k]) + generator.random()) / counts[k]
    return np.argsort(places, kind="stable")
