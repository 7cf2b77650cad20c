"""Folds of calibration rows, and choices by the loss of rows that were held out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import Fold, folds_by_content
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.threads import in_threads
from calibrant.options import is_whole
from calibrant.predictions import Predictions

__all__ = [
    "Choice",
    "check_cv_parameter",
    "choose_by_folds",
    "folds_of",
    "folds_of_splits",
    "inner_folds",
    "row_keys",
]

Vector = NDArray[np.float64]
Candidate = TypeVar("Candidate")
Map = Callable[[Predictions], Predictions]

# Differences of fewer nats than this are rounding and unfinished searches.
ROUNDING = 2e-5


def inner_folds(data: LabelledPredictions, n_folds: int) -> list[Fold]:
    """Return folds that are the same for any order of the rows, see :func:`~calibrant.numerics.folds.folds_by_content`.

    At most as many as there are rows.
    """
    return folds_by_content(row_keys(data), data.weights, min(n_folds, data.n_rows))


def check_cv_parameter(cv: Any, name: str = "cv") -> None:
    """Refuse what can be neither a number of folds, nor a splitter, nor a list of splits."""
    if is_whole(cv, 2) or (hasattr(cv, "split") and not isinstance(cv, str)):
        return
    if isinstance(cv, Iterable) and not isinstance(cv, str | bytes):
        return
    raise ParameterError(
        f"{name} must be a whole number of at least 2, a splitter of scikit-learn or a list of (train, test) rows, "
        f"not {cv!r}."
    )


def folds_of(cv: Any, data: LabelledPredictions, name: str = "cv") -> list[Fold]:
    """Return the folds that a user asks for: a number of :func:`inner_folds`, a splitter of scikit-learn, or splits.

    ``name`` is what the user calls them, for errors.
    """
    check_cv_parameter(cv, name)
    if is_whole(cv, 2):
        return inner_folds(data, int(min(cv, data.n_rows)))
    splitter = check_cv(cv, data.labels, classifier=True)
    return folds_of_splits(splitter.split(data.predictions.scores, data.labels), data.weights)


def folds_of_splits(splits: Iterable[tuple[Any, Any]], weights: Vector | None) -> list[Fold]:
    """Return pairs of rows to learn from and rows to judge by as folds, with the weights of the rows."""
    return [
        Fold(
            train,
            None if weights is None else weights[train],
            test,
            None if weights is None else weights[test],
        )
        for train, test in splits
    ]


@dataclass(frozen=True, eq=False)
class Choice(Generic[Candidate]):
    """What was tried, how it did on rows that were held out, and what was taken.

    Attributes
    ----------
    candidates : list
        What was tried, the simplest first.
    losses : ndarray of shape (C,)
        Mean loss of the rows held out.
    standard_errors : ndarray of shape (C,)
        Standard error of how far each is above the lowest, over rows; zero for the lowest itself.
    best : object
        The simplest candidate that is not above the lowest loss by more than one standard error.
    """

    candidates: list[Candidate]
    losses: Vector
    standard_errors: Vector
    best: Candidate


def choose_by_folds(
    data: LabelledPredictions,
    candidates: Sequence[Candidate],
    fitted: Callable[[LabelledPredictions, Candidate], Map],
    *,
    n_folds: int,
    loss: Literal["log", "brier"] = "log",
) -> Choice[Candidate]:
    """Fit every candidate to all folds but one, judge it by the rows of that one, and take the simplest that will do.

    That is the first which is not above the lowest loss by more than one standard error of the difference: with few
    rows the lowest is mostly luck, and a larger model must show that it is more than that.

    Parameters
    ----------
    data : LabelledPredictions
        Calibration rows.
    candidates : sequence
        What to choose from, the simplest first.
    fitted : callable
        Makes a map from rows and a candidate.
    n_folds : int
        Number of folds.
    loss : {"log", "brier"}
        What rows that were held out are judged by.
    """
    folds = inner_folds(data, n_folds)
    weights = np.concatenate([_weights(fold) for fold in folds])
    shares = weights / weights.sum()

    def held_out(piece: tuple[Candidate, Fold]) -> Vector:
        candidate, fold = piece
        mapped = fitted(data.take(fold.train_rows, fold.train_weights), candidate)
        test = data.take(fold.test_rows, fold.test_weights)
        return test.row_losses(loss, mapped(test.predictions))

    pieces = [(candidate, fold) for candidate in candidates for fold in folds]
    of_pieces = in_threads(held_out, pieces, data.n_rows * data.n_classes)
    losses = np.concatenate(of_pieces).reshape(len(candidates), -1)  # (C, rows held out)
    mean = losses @ shares
    # Rows are hard or easy for all candidates alike, so it is their differences that tell candidates apart.
    excess = losses - losses[np.argmin(mean)]
    errors = np.sqrt((excess - (excess @ shares)[:, np.newaxis]) ** 2 @ shares / weights.sum())
    best = int(np.argmax(mean - mean.min() <= np.maximum(errors, ROUNDING)))
    return Choice(list(candidates), mean, errors, candidates[best])


def _weights(fold: Fold) -> Vector:
    return np.ones(len(fold.test_rows)) if fold.test_weights is None else fold.test_weights


def row_keys(data: LabelledPredictions) -> tuple[Vector, ...]:
    """Return what to sort rows by for the folds, the same for any order of the rows.

    The first three do not depend on the order of the classes either, and are exact, so that float32 rows and the
    same numbers in float64 give equal folds. The others part rows that are equal in these and yet different.
    """
    scores = data.predictions.scores
    of_label = scores[np.arange(data.n_rows), data.labels].astype(np.float64)
    top, bottom = row_maxima(scores).astype(np.float64), -row_maxima(-scores).astype(np.float64)
    mixed = scores @ np.random.default_rng(0).uniform(1, 2, data.n_classes)
    return of_label - top, top - bottom, top, mixed, data.labels.astype(np.float64)
