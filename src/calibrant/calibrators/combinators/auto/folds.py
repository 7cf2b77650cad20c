"""Stratified folds that keep groups and duplicate rows together."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from calibrant.arrays import IntArray, Vector
from calibrant.calibrators.inner_folds import (
    canonical_class_order,
    check_cv_parameter,
    folds_of,
    folds_of_splits,
    row_keys,
)
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import LARGEST_COUNT, Fold, dealt_whole
from calibrant.numerics.kernels import content_order, starts_of_equals
from calibrant.numerics.simplex import softmax
from calibrant.objective import ArraySource
from calibrant.options import is_whole
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = [
    "TRIAL_ROWS",
    "RowGroups",
    "merged_duplicates",
    "n_trial_rows",
    "row_groups",
    "stratified_folds",
    "trial_rows",
]

# Rows that candidates are tried on: at least so many, more while rows times classes allow it.
TRIAL_ROWS = 20_000

TRIAL_ENTRIES = 300_000


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Groups of duplicate rows, which do not depend on the order of rows and classes, nor on the space.

    Attributes
    ----------
    keys : tuple of ndarray of shape (n,)
        Sort keys of the rows.
    group_of_row : ndarray of shape (n,)
        Number of the group; the rows of a group are held out together.
    counts : ndarray of shape (n,)
        Frequency weight of every row. Where equal rows are duplicates, integer weights are divided by their greatest
        common divisor.
    n_parts : ndarray of shape (n,)
        Number of parts in which a row is distributed over folds: its count if these are observations of their own, else 1.
    class_order : ndarray of shape (K,)
        Column numbers in an order that is equivariant under permutations of the classes.
    """

    keys: tuple[Vector, ...]
    group_of_row: IntArray
    counts: Vector
    n_parts: IntArray
    class_order: IntArray


def stratified_folds(cv: Any, data: LabelledPredictions) -> list[Fold]:
    """Return the folds that a user asks for; folds given by their number are stratified by class.

    Without groups, the folds depend on the content of the rows only, not on the order of rows or classes, and duplicate
    rows (:func:`row_groups`) fall into the same fold. With groups, the rows of a group do. Splitters of scikit-learn get
    labels and groups, and their splits are used as they are.

    Parameters
    ----------
    cv : int, splitter or iterable of splits
        The user's choice; there are never more folds than rows, nor than groups.
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
                "all rows are of one group, so none can be held out; pass at least two different groups."
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
    """Return the largest number of rows for the comparison of candidates."""
    return max(TRIAL_ROWS, TRIAL_ENTRIES // n_classes)


def trial_rows(data: LabelledPredictions) -> LabelledPredictions:
    """Return the rows for the comparison of candidates: all, or a sample of a large calibration set.

    Every candidate is fitted several times, and a sample suffices to rank them.
    """
    limit = n_trial_rows(data.n_classes)
    if data.n_rows <= limit:
        return data
    if data.groups is None:
        groups = row_groups(data, -(-data.n_rows // limit))
        whole = replace(groups, n_parts=np.ones_like(groups.n_parts))
        return data.take(_dealt(whole, data.labels, -(-data.n_rows // limit))[1] == 0)
    return data.take(np.sort(np.random.default_rng(0).permutation(data.n_rows)[:limit]))


def _labels_for(data: LabelledPredictions, n_folds: int) -> IntArray:
    """Return the labels to stratify by; all equal if every class has fewer rows than there are folds."""
    return data.labels if np.bincount(data.labels).max() >= n_folds else np.zeros_like(data.labels)


def _dealt_folds(data: LabelledPredictions, n_folds: int) -> list[Fold]:
    """Return folds over which the weight of a row may be divided, if it counts several observations."""
    n_folds = min(n_folds, int(row_groups(data, n_folds).n_parts.sum()))
    groups = row_groups(data, n_folds)
    row_of, fold_of = _dealt(groups, data.labels, n_folds)
    if data.weights is None:
        splits = [
            (np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in np.unique(fold_of)
        ]
        return folds_of_splits(splits, None)
    part = (data.weights / groups.n_parts)[row_of]
    folds = []
    for fold in np.unique(fold_of):
        test, train = (
            np.bincount(row_of[chosen], part[chosen], minlength=data.n_rows).astype(np.float64)
            for chosen in (fold_of == fold, fold_of != fold)
        )
        kept, held_out = np.flatnonzero(train), np.flatnonzero(test)
        folds.append(Fold(kept, train[kept], held_out, test[held_out]))
    return folds


def _dealt(groups: RowGroups, labels: IntArray, n_folds: int) -> tuple[IntArray, IntArray]:
    """Return the row and the fold of every part: stratified by class, each class beginning with another fold."""
    row_of = np.repeat(np.arange(len(labels)), groups.n_parts)
    first_part = np.cumsum(groups.n_parts) - groups.n_parts
    fold_of = np.empty(len(row_of), dtype=np.intp)
    dealt = 0
    for rows in _classes(groups, labels):
        parts = np.flatnonzero(labels[row_of] == labels[rows[0]])
        # The rows of a group are one unit; the parts of a divided row are several.
        units = groups.group_of_row[row_of[parts]] * (1 + groups.n_parts.max())
        units += parts - first_part[row_of[parts]]
        _, first, unit_of = np.unique(units, return_index=True, return_inverse=True)
        weights = np.bincount(unit_of, (groups.counts / groups.n_parts)[row_of[parts]]).astype(np.float64)
        keys = tuple(key[row_of[parts[first]]] for key in groups.keys)
        fold_of[parts] = (dealt_whole(keys, weights, n_folds)[unit_of] + dealt) % n_folds
        dealt += len(first)
    return row_of, fold_of


def _classes(groups: RowGroups, labels: IntArray) -> list[IntArray]:
    """Return the rows of every class, in an order of the classes that does not depend on their names."""
    # The sort is stable: ties stay in the canonical order of the classes.
    of_class = [np.flatnonzero(labels == label) for label in groups.class_order]
    of_class = [rows for rows in of_class if len(rows)]

    def content(rows: IntArray) -> tuple[float, ...]:
        counts = groups.counts[rows]
        return float(counts.sum()), *(float(counts @ key[rows]) for key in groups.keys[:3])

    return sorted(of_class, key=content)


# Equal rows whose total weight exceeds this share of a fold are observations of a coarse classifier, not duplicates.
SHARE_OF_FOLD = 0.25

# Duplicates have equal labels. If more than this share of the repeated predictions have several labels, the classifier
# is coarse, and equal rows are separate observations.
SHARE_WITH_SEVERAL_LABELS = 0.02


def merged_duplicates(data: LabelledPredictions) -> LabelledPredictions:
    """Merge rows with equal scores and label into one weighted row.

    Then a row of weight 2 and the same row twice are the same data. Rows that are all different, and rows with weights
    that are no integers, are returned unchanged.
    """
    if data.weights is not None and not _are_integers(data.weights):
        return data
    scores = data.predictions.scores
    order = content_order(scores, (data.labels,))
    new = np.zeros(data.n_rows, dtype=np.bool_)
    new[starts_of_equals(scores, order)] = True
    new[1:] |= np.diff(data.labels[order]) != 0
    if new.all():
        return data
    first = order[new]
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    return data.take(first, np.add.reduceat(weights[order], np.flatnonzero(new)))


def row_groups(data: LabelledPredictions, n_folds: int) -> RowGroups:
    """Group duplicate rows.

    Duplicates are held out together: a map that is fitted to a duplicate of a held-out row has seen its label. A row of
    weight 2 is held out as two equal rows are. Equal rows of a coarse classifier, such as a tree or one with rounded
    scores, are no duplicates: held out together, they would leave no errors at their score in the training folds. Such
    rows are distributed one by one, and so are equal rows that make up a large part of a fold.
    """
    probabilities = _as_probabilities(data.predictions)
    counts = _counts(data.weights, data.n_rows)
    order = content_order(probabilities.scores, (data.labels, counts))
    new_score = np.zeros(data.n_rows, dtype=np.bool_)
    new_score[starts_of_equals(probabilities.scores, order)] = True
    new = new_score.copy()
    new[1:] |= np.diff(data.labels[order]) != 0
    group_of_sorted = np.cumsum(new) - 1
    weights = np.bincount(group_of_sorted, counts[order])
    small = weights <= SHARE_OF_FOLD * counts.sum() / n_folds
    divisible = _are_integers(counts) and counts.max() < LARGEST_COUNT
    if _is_coarse(np.cumsum(new_score) - 1, new, counts[order] if divisible else np.ones(data.n_rows)):
        small[:] = False
        if data.weights is not None:
            counts = data.weights
            divisible = _are_integers(counts) and counts.max() < LARGEST_COUNT
    group_of_row, n_parts = np.empty((2, data.n_rows), dtype=np.intp)
    group_of_row[order] = np.where(
        small[group_of_sorted], group_of_sorted, data.n_rows + np.arange(data.n_rows)
    )
    n_parts[order] = np.where(small[group_of_sorted], 1, counts[order]) if divisible else 1
    data = replace(data, predictions=probabilities)
    return RowGroups(row_keys(data), group_of_row, counts, n_parts, canonical_class_order(ArraySource(data)))


def _is_coarse(score_of_sorted: IntArray, starts_label: NDArray[np.bool_], counts: Vector) -> bool:
    """Return whether repeated predictions have different labels more often than duplicates would."""
    n_labels = np.bincount(score_of_sorted, starts_label)
    repeated = np.bincount(score_of_sorted, counts) > 1
    return bool((n_labels > 1).sum() > SHARE_WITH_SEVERAL_LABELS * repeated.sum())


def _are_integers(weights: Vector) -> bool:
    return bool(np.array_equal(weights, np.round(weights)) and weights.max() <= 2**53)


def _as_probabilities(predictions: Predictions) -> Predictions:
    """Return float64 probabilities, by which rows are compared in either space."""
    scores = predictions.scores.astype(np.float64)
    return Predictions(softmax(scores) if predictions.space is Space.LOGITS else scores, Space.PROBABILITIES)


def _counts(weights: Vector | None, n_rows: int) -> Vector:
    """Return integer weights divided by their greatest common divisor, other weights unchanged."""
    if weights is None:
        return np.ones(n_rows)
    if not _are_integers(weights):
        return weights
    return weights / float(np.gcd.reduce(weights.astype(np.int64)))
