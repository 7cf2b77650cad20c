"""Folds that have every class in its share, and what belongs together on one side."""

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

__all__ = ["TRIAL_ROWS", "KnownRows", "known_rows", "merged_copies", "stratified_folds", "trial_rows"]

# Rows that candidates are tried on: at least so many, more while rows times classes allow it.
TRIAL_ROWS = 20_000

TRIAL_ENTRIES = 300_000


@dataclass(frozen=True, eq=False)
class KnownRows:
    """Calibration rows by what they contain, whatever their order, their space and the order of the classes.

    Attributes
    ----------
    keys : tuple of ndarray of shape (n,)
        Numbers to sort rows by.
    units : ndarray of shape (n,)
        Equal for rows that are held out together.
    counts : ndarray of shape (n,)
        How many rows each one stands for: its weight. Where equal rows are copies, whole weights are divided by their
        greatest common divisor.
    places : ndarray of shape (n,)
        In how many parts each one is dealt out to folds: its count if these are observations of their own, else one.
    class_order : ndarray of shape (K,)
        Column numbers in an order that follows any permutation of the classes.
    """

    keys: tuple[Vector, ...]
    units: IntArray
    counts: Vector
    places: IntArray
    class_order: IntArray


def stratified_folds(cv: Any, data: LabelledPredictions) -> list[Fold]:
    """Return the folds that a user asks for; a number of them holds out every class in its share.

    Without groups, a number of folds is dealt out by what the rows contain, so that they are the same for any order of
    the rows and of the classes, and units of :func:`~calibrant.calibrators.combinators.auto.stratified_folds.known_rows` stay
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


def trial_rows(data: LabelledPredictions) -> LabelledPredictions:
    """Return the rows to try candidates on: all, or a sample if there are very many.

    What tells candidates apart is known well enough from a part of a million rows, and each is fitted several times.
    """
    limit = max(TRIAL_ROWS, TRIAL_ENTRIES // data.n_classes)
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


# Equal rows that together weigh more than this share of a fold are observations of a coarse classifier, not copies.
SHARE_OF_FOLD = 0.25

# Copies have the label of what they are copies of. If more than this share of the predictions that occur several times
# have several labels, the classifier is coarse, and equal rows are observations of their own.
SHARE_WITH_SEVERAL_LABELS = 0.02


def merged_copies(data: LabelledPredictions) -> LabelledPredictions:
    """Return every pair of scores and label once, with the number of its rows as weight.

    A weight of two and the row given twice are then the same data. Weights that are not whole stay as they are, and so do
    rows that are all different.
    """
    if data.weights is not None and not _are_whole(data.weights):
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


def known_rows(data: LabelledPredictions, n_folds: int) -> KnownRows:
    """Find out which rows are copies of each other.

    A map that is fitted on a copy of the very row it is judged by knows its label, so copies are held out together; a row
    of weight two is then held out as two equal rows are. Where a classifier gives out few different rows, as trees do, or
    rounded ones, equal rows are no copies: all mistakes at one score would be held out at once, and be missing where
    the map is learnt. They are dealt out one by one, and so are equal rows that make up a good part of a fold.
    """
    probabilities = _as_probabilities(data.predictions)
    counts = _counts(data.weights, data.n_rows)
    order = content_order(probabilities.scores, (data.labels, counts))
    new_score = np.zeros(data.n_rows, dtype=np.bool_)
    new_score[starts_of_equals(probabilities.scores, order)] = True
    new = new_score.copy()
    new[1:] |= np.diff(data.labels[order]) != 0
    unit_of_place = np.cumsum(new) - 1
    weights = np.bincount(unit_of_place, counts[order])
    small = weights <= SHARE_OF_FOLD * counts.sum() / n_folds
    divisible = _are_whole(counts) and counts.max() < LARGEST_COUNT
    if _is_coarse(np.cumsum(new_score) - 1, new, counts[order] if divisible else np.ones(data.n_rows)):
        small[:] = False
        if data.weights is not None:
            counts = data.weights
            divisible = _are_whole(counts) and counts.max() < LARGEST_COUNT
    units, places = np.empty((2, data.n_rows), dtype=np.intp)
    units[order] = np.where(small[unit_of_place], unit_of_place, data.n_rows + np.arange(data.n_rows))
    places[order] = np.where(small[unit_of_place], 1, counts[order]) if divisible else 1
    data = replace(data, predictions=probabilities)
    return KnownRows(row_keys(data), units, counts, places, canonical_class_order(ArraySource(data)))


def _is_coarse(score_of_place: IntArray, starts_label: NDArray[np.bool_], counts: Vector) -> bool:
    """Tell whether predictions that occur several times have several labels more often than copies would."""
    n_labels = np.bincount(score_of_place, starts_label)
    repeated = np.bincount(score_of_place, counts) > 1
    return bool((n_labels > 1).sum() > SHARE_WITH_SEVERAL_LABELS * repeated.sum())


def _are_whole(weights: Vector) -> bool:
    return bool(np.array_equal(weights, np.round(weights)) and weights.max() <= 2**53)


def _as_probabilities(predictions: Predictions) -> Predictions:
    """Return what rows are known by in either space, in float64."""
    scores = predictions.scores.astype(np.float64)
    return Predictions(softmax(scores) if predictions.space is Space.LOGITS else scores, Space.PROBABILITIES)


def _counts(weights: Vector | None, n_rows: int) -> Vector:
    """Return weights as multiples of what they have in common if they are whole, as they are if not."""
    if weights is None:
        return np.ones(n_rows)
    if not _are_whole(weights):
        return weights
    return weights / float(np.gcd.reduce(weights.astype(np.int64)))
