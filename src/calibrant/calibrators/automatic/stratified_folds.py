"""Folds that have every class in its share, and what belongs together on one side."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold

from calibrant.arrays import IntArray
from calibrant.calibrators.automatic.row_units import KnownRows, known_rows
from calibrant.calibrators.inner_folds import check_cv_parameter, folds_of, folds_of_splits
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import Fold, dealt_whole
from calibrant.options import is_whole

__all__ = ["TRIAL_ROWS", "stratified_folds", "trial_rows"]


# Rows that candidates are tried on: at least so many, more while rows times classes allow it.
TRIAL_ROWS = 20_000
TRIAL_ENTRIES = 300_000


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
            return _dealt_folds(data, int(cv))
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


def n_trial_rows(n_classes: int) -> int:
    """Return on how many rows candidates are tried at most."""
    return max(TRIAL_ROWS, TRIAL_ENTRIES // n_classes)


def trial_rows(data: LabelledPredictions) -> LabelledPredictions:
    """Return the rows to try candidates on: all, or a sample if there are very many.

    What tells candidates apart is known well enough from a part of a million rows, and each is fitted several times.
    """
    limit = n_trial_rows(data.n_classes)
    if data.n_rows <= limit:
        return data
    if data.groups is None:
        known = known_rows(data, -(-data.n_rows // limit))
        whole = replace(known, places=np.ones_like(known.places))
        return data.take(_dealt(whole, data.labels, -(-data.n_rows // limit))[1] == 0)
    return data.take(np.sort(np.random.default_rng(0).permutation(data.n_rows)[:limit]))


def _labels_for(data: LabelledPredictions, n_folds: int) -> IntArray:
    """Return the labels to stratify by; none where every class has fewer rows than there are folds."""
    return data.labels if np.bincount(data.labels).max() >= n_folds else np.zeros_like(data.labels)


def _dealt_folds(data: LabelledPredictions, n_folds: int) -> list[Fold]:
    """Return folds in which a row that stands for several observations may have a part in each."""
    n_folds = min(n_folds, int(known_rows(data, n_folds).places.sum()))
    known = known_rows(data, n_folds)
    row_of, fold_of = _dealt(known, data.labels, n_folds)
    if data.weights is None:
        splits = [
            (np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in np.unique(fold_of)
        ]
        return folds_of_splits(splits, None)
    part = (data.weights / known.places)[row_of]
    folds = []
    for fold in np.unique(fold_of):
        test, train = (
            np.bincount(row_of[chosen], part[chosen], minlength=data.n_rows).astype(np.float64)
            for chosen in (fold_of == fold, fold_of != fold)
        )
        kept, held_out = np.flatnonzero(train), np.flatnonzero(test)
        folds.append(Fold(kept, train[kept], held_out, test[held_out]))
    return folds


def _dealt(known: KnownRows, labels: IntArray, n_folds: int) -> tuple[IntArray, IntArray]:
    """Return the row and the fold of every place: every class dealt out on its own, each beginning with another fold."""
    row_of = np.repeat(np.arange(len(labels)), known.places)
    first_place = np.cumsum(known.places) - known.places
    fold_of = np.empty(len(row_of), dtype=np.intp)
    dealt = 0
    for rows in _classes(known, labels):
        places = np.flatnonzero(labels[row_of] == labels[rows[0]])
        # Rows of one unit are one thing to deal out; the places of a divided row are several.
        units = known.units[row_of[places]] * (1 + known.places.max()) + places - first_place[row_of[places]]
        _, first, unit_of = np.unique(units, return_index=True, return_inverse=True)
        weights = np.bincount(unit_of, (known.counts / known.places)[row_of[places]]).astype(np.float64)
        keys = tuple(key[row_of[places[first]]] for key in known.keys)
        fold_of[places] = (dealt_whole(keys, weights, n_folds)[unit_of] + dealt) % n_folds
        dealt += len(first)
    return row_of, fold_of


def _classes(known: KnownRows, labels: IntArray) -> list[IntArray]:
    """Return the rows of every class, in an order of the classes that does not depend on their names."""
    # Sorting is stable: classes with equal sums stay in the order of their content.
    of_class = [np.flatnonzero(labels == label) for label in known.class_order]
    of_class = [rows for rows in of_class if len(rows)]

    def content(rows: IntArray) -> tuple[float, ...]:
        counts = known.counts[rows]
        return float(counts.sum()), *(float(counts @ key[rows]) for key in known.keys[:3])

    return sorted(of_class, key=content)
