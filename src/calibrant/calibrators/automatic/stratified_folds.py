"""Folds that have every class in its share, and all rows of a group on one side."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from calibrant.calibrators.inner_folds import check_cv_parameter, folds_of, row_keys
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import Fold, folds_by_content
from calibrant.numerics.simplex import softmax
from calibrant.options import is_whole
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["stratified_folds", "trial_rows"]

Rows = NDArray[np.intp]
Groups = NDArray[np.generic]

# Rows that candidates are tried on: at least so many, more while rows times classes allow it.
TRIAL_ROWS, TRIAL_ENTRIES = 20_000, 1_000_000


def stratified_folds(cv: Any, data: LabelledPredictions, groups: Groups | None = None) -> list[Fold]:
    """Return the folds that a user asks for; a number of them holds out every class in its share.

    Without groups, a number of folds is dealt out by what the rows contain, so that they are the same for any order of
    the rows and of the classes, see :func:`~calibrant.numerics.folds.folds_by_content`. With groups, rows of one group
    stay together. Splitters of scikit-learn get labels and groups and are taken at their word.

    Parameters
    ----------
    cv : int, splitter or iterable of splits
        What the user asks for; there are never more folds than rows, nor than groups.
    data : LabelledPredictions
        Calibration rows.
    groups : ndarray of shape (n,), optional
        Which rows belong together.
    """
    check_cv_parameter(cv)
    if groups is None:
        return _by_class(data, min(int(cv), data.n_rows)) if is_whole(cv, 2) else folds_of(cv, data)
    if is_whole(cv, 2):
        n_groups = len(np.unique(groups))
        if n_groups < 2:
            raise ParameterError(
                "all rows are of one group, so that none can be held out; give groups of at least two kinds."
            )
        splitter = StratifiedGroupKFold(min(int(cv), n_groups), shuffle=True, random_state=0)
        splits = splitter.split(np.zeros(data.n_rows), _labels_for(data, int(cv)), groups)
    elif hasattr(cv, "split"):
        splits = cv.split(data.predictions.scores, data.labels, groups)
    else:
        raise ParameterError(
            "groups are for a number of folds or a splitter, but cv lists the splits already."
        )
    weights = data.weights
    return [
        Fold(
            train,
            None if weights is None else weights[train],
            test,
            None if weights is None else weights[test],
        )
        for train, test in splits
        if len(test)
    ]


def trial_rows(data: LabelledPredictions, groups: Groups | None) -> tuple[LabelledPredictions, Groups | None]:
    """Return the rows to try candidates on, with their groups: all, or a sample if there are very many.

    What tells candidates apart is known well enough from a part of a million rows, and each is fitted several times.
    """
    limit = max(TRIAL_ROWS, TRIAL_ENTRIES // data.n_classes)
    if data.n_rows <= limit:
        return data, groups
    if groups is None:
        fold = _by_class(data, -(-data.n_rows // limit))[0]
        return data.take(fold.test_rows, fold.test_weights), None
    rows = np.sort(np.random.default_rng(0).permutation(data.n_rows)[:limit])
    return data.take(rows), groups[rows]


def _labels_for(data: LabelledPredictions, n_folds: int) -> Rows:
    """Return the labels to stratify by; none where every class has fewer rows than there are folds."""
    return data.labels if np.bincount(data.labels).max() >= n_folds else np.zeros_like(data.labels)


def _by_class(data: LabelledPredictions, n_folds: int) -> list[Fold]:
    """Deal out every class on its own, and begin with another fold for every class, so that folds are of one size."""
    keys = row_keys(replace(data, predictions=_as_probabilities(data.predictions)))
    of_class = [np.flatnonzero(data.labels == label) for label in range(data.n_classes)]
    of_class = [rows for rows in of_class if len(rows)]
    counts = _counts(data.weights, data.n_rows)
    # An order of the classes that does not depend on their names.
    of_class.sort(
        key=lambda rows: (counts[rows].sum(), *(float(counts[rows] @ key[rows]) for key in keys[:3]))
    )
    parts: list[list[Fold]] = [[] for _ in range(n_folds)]
    dealt = 0
    for rows in of_class:
        own = None if data.weights is None else data.weights[rows]
        folds = folds_by_content(tuple(key[rows] for key in keys), own, n_folds)
        for number, fold in enumerate(folds):
            parts[(number + dealt) % n_folds].append(
                Fold(rows[fold.train_rows], fold.train_weights, rows[fold.test_rows], fold.test_weights)
            )
        dealt += int(counts[rows].sum())
    return [_joined(folds) for folds in parts if any(len(fold.test_rows) for fold in folds)]


def _as_probabilities(predictions: Predictions) -> Predictions:
    """Return what rows are known by in either space, in float64."""
    scores = predictions.scores.astype(np.float64)
    return Predictions(softmax(scores) if predictions.space is Space.LOGITS else scores, Space.PROBABILITIES)


def _counts(weights: NDArray[np.float64] | None, n_rows: int) -> NDArray[np.float64]:
    """Return how many rows each one stands for: whole weights count, others do not."""
    if weights is None or not np.array_equal(weights, np.round(weights)):
        return np.ones(n_rows)
    return weights / float(np.gcd.reduce(weights.astype(np.int64)))


def _joined(folds: list[Fold]) -> Fold:
    """Return the union of folds of different rows."""

    def together(name: str) -> Any:
        arrays = [getattr(fold, name) for fold in folds]
        return None if arrays[0] is None else np.concatenate(arrays)

    return Fold(
        together("train_rows"), together("train_weights"), together("test_rows"), together("test_weights")
    )
