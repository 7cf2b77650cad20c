"""Folds that have every class in its share, and what belongs together on one side."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from calibrant.calibrators.automatic.row_units import KnownRows, known_rows
from calibrant.calibrators.inner_folds import check_cv_parameter, folds_of, folds_of_splits
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import Fold, dealt_whole
from calibrant.options import is_whole

__all__ = ["stratified_folds", "trial_rows"]

Rows = NDArray[np.intp]

# Rows that candidates are tried on: at least so many, more while rows times classes allow it.
TRIAL_ROWS, TRIAL_ENTRIES = 20_000, 300_000


def stratified_folds(cv: Any, data: LabelledPredictions) -> list[Fold]:
    """Return the folds that a user asks for; a number of them holds out every class in its share.

    Without groups, a number of folds is dealt out by what the rows contain, so that they are the same for any order of
    the rows and of the classes, and units of :func:`~calibrant.calibrators.automatic.row_units.known_rows` stay
    together. With groups, rows of one group do. Splitters of scikit-learn get labels and groups and are taken at
    their word.

    Parameters
    ----------
    cv : int, splitter or iterable of splits
        What the user asks for; there are never more folds than rows, nor than groups.
    data : LabelledPredictions
        Calibration rows, with their groups if they have any.
    """
    check_cv_parameter(cv)
    if data.groups is None:
        if is_whole(cv, 2):
            return _of_numbers(_dealt(data, min(int(cv), data.n_rows)), data)
        return folds_of(cv, data)
    if is_whole(cv, 2):
        n_groups = len(np.unique(data.groups))
        if n_groups < 2:
            raise ParameterError(
                "all rows are of one group, so that none can be held out; give groups of at least two kinds."
            )
        splitter = StratifiedGroupKFold(min(int(cv), n_groups), shuffle=True, random_state=0)
        splits = splitter.split(np.zeros(data.n_rows), _labels_for(data, int(cv)), data.groups)
    elif hasattr(cv, "split"):
        splits = cv.split(data.predictions.scores, data.labels, data.groups)
    else:
        raise ParameterError(
            "groups are for a number of folds or a splitter, but cv lists the splits already."
        )
    return folds_of_splits([(train, test) for train, test in splits if len(test)], data.weights)


def trial_rows(data: LabelledPredictions) -> LabelledPredictions:
    """Return the rows to try candidates on: all, or a sample if there are very many.

    What tells candidates apart is known well enough from a part of a million rows, and each is fitted several times.
    """
    limit = max(TRIAL_ROWS, TRIAL_ENTRIES // data.n_classes)
    if data.n_rows <= limit:
        return data
    if data.groups is None:
        return data.take(_dealt(data, -(-data.n_rows // limit)) == 0)
    return data.take(np.sort(np.random.default_rng(0).permutation(data.n_rows)[:limit]))


def _labels_for(data: LabelledPredictions, n_folds: int) -> Rows:
    """Return the labels to stratify by; none where every class has fewer rows than there are folds."""
    return data.labels if np.bincount(data.labels).max() >= n_folds else np.zeros_like(data.labels)


def _dealt(data: LabelledPredictions, n_folds: int) -> Rows:
    """Return a fold for every row, (n,): every class dealt out on its own, each beginning with another fold."""
    known = known_rows(data, n_folds)
    fold_of = np.empty(data.n_rows, dtype=np.intp)
    dealt = 0
    for rows in _classes(known, data):
        _, first, unit_of = np.unique(known.units[rows], return_index=True, return_inverse=True)
        weights = np.bincount(unit_of, known.counts[rows]).astype(np.float64)
        keys = tuple(key[rows[first]] for key in known.keys)
        fold_of[rows] = (dealt_whole(keys, weights, n_folds)[unit_of] + dealt) % n_folds
        dealt += len(first)
    return fold_of


def _classes(known: KnownRows, data: LabelledPredictions) -> list[Rows]:
    """Return the rows of every class, in an order of the classes that does not depend on their names."""
    of_class = [np.flatnonzero(data.labels == label) for label in range(data.n_classes)]

    def content(rows: Rows) -> tuple[float, ...]:
        counts = known.counts[rows]
        return float(counts.sum()), *(float(counts @ key[rows]) for key in known.keys[:3])

    return sorted((rows for rows in of_class if len(rows)), key=content)


def _of_numbers(fold_of: Rows, data: LabelledPredictions) -> list[Fold]:
    """Return the folds whose numbers occur."""
    splits = [
        (np.flatnonzero(fold_of != number), np.flatnonzero(fold_of == number))
        for number in np.unique(fold_of)
    ]
    return folds_of_splits(splits, data.weights)
