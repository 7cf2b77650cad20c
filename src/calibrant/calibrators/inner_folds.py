"""Folds of the calibration set, and selection by cross-validated loss."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from calibrant.arrays import Vector
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import Fold, fold_numbers, folds_by_content
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import in_threads, row_blocks
from calibrant.objective import ArrayRows, ArraySource, FeatureRows, RowSource, StreamedRows
from calibrant.options import is_whole
from calibrant.predictions import Predictions

__all__ = [
    "Choice",
    "canonical_class_order",
    "check_cv_parameter",
    "choose_by_folds",
    "folds_of",
    "folds_of_splits",
    "inner_folds",
    "row_keys",
    "rows_of_folds",
]

Candidate = TypeVar("Candidate")
Map = Callable[[Predictions], Predictions]
SomeRows = tuple[NDArray[np.intp], Vector | None]

# Differences of fewer nats are within rounding and the tolerance of searches.
ROUNDING = 2e-5

# A candidate worse than the best so far by this share of its loss, and by so many standard errors, ends the selection.
CLEARLY_WORSE, CLEAR_ERRORS = 0.01, 3.0


def inner_folds(data: LabelledPredictions, n_folds: int) -> list[Fold]:
    """Return up to ``n_folds`` folds that do not depend on the order of rows and classes.

    See :func:`~calibrant.numerics.folds.folds_by_content`.
    """
    return folds_by_content(_keys_of(ArraySource(data)), data.weights, min(n_folds, data.n_rows))


def check_cv_parameter(cv: Any, name: str = "cv") -> None:
    """Refuse all but a number of folds, a splitter or a list of splits."""
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
    """Return pairs of training and test rows as folds, with the weights of the rows."""
    return [
        Fold(
            train,
            None if weights is None else weights[train],
            test,
            None if weights is None else weights[test],
        )
        for train, test in splits
    ]


def rows_of_folds(cv: Any, source: RowSource, rows: FeatureRows) -> list[tuple[FeatureRows, FeatureRows]]:
    """Return training and test rows of every fold, the same as :func:`folds_of` for rows in memory or not.

    ``rows`` are features of the source. Rows on disk are not loaded: a sort key per row is kept temporarily, 8 bytes, and
    then its fold, 1 byte (2 per fold, if weights are frequencies or ``cv`` is a splitter).
    """
    if isinstance(source, ArraySource) and isinstance(rows, ArrayRows):
        folds = folds_of(cv, source.data)
        return [
            (rows.take(fold.train_rows, fold.train_weights), rows.take(fold.test_rows, fold.test_weights))
            for fold in folds
        ]
    check_cv_parameter(cv)
    own = rows.folds(cv)
    if own is not None:
        return own
    assert isinstance(rows, StreamedRows)
    if not is_whole(cv, 2):
        labels = source.per_row(lambda data: data.labels, np.intp)
        splits = check_cv(cv, labels, classifier=True).split(np.empty((len(labels), 0)), labels)
        return [
            (rows.chosen(_some_rows(train, rows.n_rows)), rows.chosen(_some_rows(test, rows.n_rows)))
            for train, test in splits
        ]
    weights = None
    if source.is_weighted:
        weights = source.per_row(lambda data: np.ones(data.n_rows) if data.weights is None else data.weights)
    numbers = fold_numbers(_keys_of(source), weights, int(min(cv, source.n_rows)))

    def train(place: slice, weights: Vector | None, number: int) -> SomeRows:
        fold = numbers.fold(number, weights, place)
        return fold.train_rows, fold.train_weights

    def test(place: slice, weights: Vector | None, number: int) -> SomeRows:
        fold = numbers.fold(number, weights, place)
        return fold.test_rows, fold.test_weights

    return [
        (rows.chosen(partial(train, number=number)), rows.chosen(partial(test, number=number)))
        for number in range(numbers.n_folds)
    ]


def _some_rows(chosen: NDArray[np.intp], n_rows: int) -> Callable[[slice, Vector | None], SomeRows]:
    """Return a function from a slice of rows to the chosen ones among them, with multiplicity."""
    counts = np.bincount(chosen, minlength=n_rows)
    counts = counts.astype(np.min_scalar_type(counts.max(initial=0)))

    def choose(place: slice, weights: Vector | None) -> SomeRows:
        rows = np.repeat(np.arange(place.stop - place.start), counts[place])
        return rows, None if weights is None else weights[rows]

    return choose


@dataclass(frozen=True, eq=False)
class Choice(Generic[Candidate]):
    """Result of a cross-validation: held-out losses of the candidates, and the selected one.

    Attributes
    ----------
    candidates : list
        The candidates that were evaluated, the simplest first.
    losses : ndarray of shape (C,)
        Mean held-out loss.
    standard_errors : ndarray of shape (C,)
        Standard error, over rows, of the difference from the lowest loss; zero for the lowest itself.
    best : object
        The simplest candidate within one standard error of the lowest loss.
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
    """Cross-validate candidates and select by the one-standard-error rule.

    The first candidate within one standard error of the lowest loss is selected: on a small calibration set the minimum is
    mostly chance, and a larger model needs evidence. A candidate that is clearly worse than a simpler one ends the selection,
    since larger models over-fit even more.

    Parameters
    ----------
    data : LabelledPredictions
        Calibration rows.
    candidates : sequence
        The candidates, the simplest first.
    fitted : callable
        Fits a candidate to rows and returns its map.
    n_folds : int
        Number of folds.
    loss : {"log", "brier"}
        Held-out loss.
    """
    folds = inner_folds(data, n_folds)
    weights = np.concatenate([_weights(fold) for fold in folds])
    shares = weights / weights.sum()
    losses = np.empty((0, len(weights)))
    for candidate in candidates:

        def held_out(fold: Fold) -> Vector:
            mapped = fitted(data.take(fold.train_rows, fold.train_weights), candidate)  # noqa: B023 (called at once)
            test = data.take(fold.test_rows, fold.test_weights)
            return test.row_losses(loss, mapped(test.predictions))

        of_folds = in_threads(held_out, folds, data.n_rows * data.n_classes)
        losses = np.vstack([losses, np.concatenate(of_folds)])
        mean = losses @ shares
        # Losses of a row are correlated between candidates, so standard errors are of differences.
        excess = losses - losses[np.argmin(mean)]
        errors = np.sqrt((excess - (excess @ shares)[:, np.newaxis]) ** 2 @ shares / weights.sum())
        if mean[-1] - mean.min() > max(CLEARLY_WORSE * abs(mean.min()), CLEAR_ERRORS * errors[-1]):
            break
    best = int(np.argmax(mean - mean.min() <= np.maximum(errors, ROUNDING)))
    return Choice(list(candidates[: len(losses)]), mean, errors, candidates[best])


def _weights(fold: Fold) -> Vector:
    return np.ones(len(fold.test_rows)) if fold.test_weights is None else fold.test_weights


def _shortfall(data: LabelledPredictions) -> Vector:
    scores = data.predictions.scores
    of_label = scores[np.arange(data.n_rows), data.labels].astype(np.float64)
    return of_label - row_maxima(scores).astype(np.float64)


def _range(data: LabelledPredictions) -> Vector:
    scores = data.predictions.scores
    span: Vector = row_maxima(scores).astype(np.float64) + row_maxima(-scores).astype(np.float64)
    return span


def _top(data: LabelledPredictions) -> Vector:
    return row_maxima(data.predictions.scores).astype(np.float64)


ROW_KEYS = (_shortfall, _range, _top)
"""Sort keys of rows for the folds, which do not depend on the order and partition of the rows.

Nor do they depend on the order of the classes. They are exact, so that float32 rows and the same numbers in float64 have
equal folds. Ties of different rows are broken by all entries in the canonical order of the classes, see :func:`_keys_of`.
"""


def row_keys(data: LabelledPredictions) -> tuple[Vector, ...]:
    """Return all keys by which rows in memory are sorted."""
    return tuple(_keys_of(ArraySource(data)))


def _keys_of(source: RowSource) -> Iterator[Vector]:
    """Yield :data:`ROW_KEYS` of all rows, and then keys by the canonical class order."""
    yield from map(source.per_row, ROW_KEYS)
    order = canonical_class_order(source)
    position = np.argsort(order).astype(np.float64)
    factors = np.random.default_rng(0).uniform(1, 2, len(order))

    def mixed(data: LabelledPredictions) -> Vector:
        # Row by row: the last digit of a matrix product depends on which rows are multiplied together.
        sums: Vector = np.multiply(data.predictions.scores[:, order], factors, order="C").sum(axis=1)
        return sums

    yield source.per_row(mixed)
    yield source.per_row(lambda data: position[data.labels])


# Rounding differences are far smaller, and differences in one of a million rows far larger.
DECIMALS = 9

# Frequencies of the waves that encode entries, labels and colours of the classes; any irrational ratios suffice.
OF_SCORE, OF_LABEL, OF_COLOUR, OF_ENTRY, OF_ROW = np.sqrt([2.0, 5.0, 7.0, 3.0, 11.0])


def canonical_class_order(source: RowSource) -> NDArray[np.intp]:
    """Return column numbers in an order that is equivariant under permutations of the columns, (K,).

    Colour refinement (Weisfeiler and Leman): the key of a class is the mean, over the rows, of a function of its entry, of
    the indicator that it is the label, and of all entries of the row as a set. For ties, further passes also include the
    colours of the other classes in the row. The order is invariant to the scale of the weights, and to repeated rows in
    place of a weight of 2. Indistinguishable classes stay in the order of their columns.

    Costs one pass of O(nK), one more for every round of refinement; nearly always one suffices.
    """
    n_classes = source.n_classes
    colours = np.zeros(n_classes, dtype=np.intp)
    n_colours = 1
    while True:
        content = source.summed(lambda data: _content(data, colours / n_classes))  # noqa: B023 (called at once)
        means = np.round(content[:-1] / content[-1], DECIMALS)
        different, refined = np.unique(np.stack([colours, means], axis=1), axis=0, return_inverse=True)
        colours = refined.reshape(-1)
        if len(different) in (n_classes, n_colours):
            return np.argsort(colours, kind="stable")
        n_colours = len(different)


def _content(data: LabelledPredictions, colours: Vector) -> Vector:
    """Return the sum of the keys of every class, and the total weight, (K + 1,)."""
    content = np.zeros(data.n_classes + 1)
    for rows in row_blocks(data.n_rows, data.n_classes):
        scores = data.predictions.scores[rows].astype(np.float64)
        with np.errstate(over="ignore"):
            below_top = row_maxima(scores)[:, np.newaxis] - scores
        # Smooth, so that rounding errors stay small, and on a scale on which huge logits still differ.
        entries = OF_SCORE * np.log1p(np.minimum(below_top, np.finfo(np.float64).max)) + OF_COLOUR * colours
        entries[np.arange(len(entries)), data.labels[rows]] += OF_LABEL
        of_row = np.sin(entries).sum(axis=1, keepdims=True)
        weights = np.ones(len(entries)) if data.weights is None else data.weights[rows]
        content[:-1] += weights @ np.cos(OF_ENTRY * entries + OF_ROW * of_row)
        content[-1] += weights.sum()
    return content
