"""Cross-fitting: what the predictions would be after recalibration on other rows."""

import warnings
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import clone

from calibrant import registry
from calibrant.calibrator import Calibrator
from calibrant.errors import CalibrationWarning, LabelError, ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import columns
from calibrant.numerics.folds import folds_by_content
from calibrant.numerics.isotonic import isotonic_fit
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.simplex import softmax
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = [
    "EventKind",
    "Recalibrator",
    "check_event_kind",
    "check_folds",
    "check_level",
    "check_recalibrator",
    "cross_folds",
    "default_recalibrator",
    "event_problems",
    "recalibrated",
    "recalibrator_name",
    "standard_error_of_mean",
]

EventKind = Literal["confidence", "classwise", "positive", "full"]
"""The kinds of :data:`~calibrant.metrics.events.Kind`, and ``"full"`` for all probabilities of a row at once."""

Recalibrator = str | Calibrator
"""A registry name, a calibrator to be cloned, or ``"isotonic"`` for the event of a two-class problem."""

Vector = NDArray[np.float64]
Rows = NDArray[np.intp]

# Up to this many classes a full linear map of the logarithms, K^2 + K numbers, is affordable.
FEW_CLASSES = 20

# From this many rows per squared class on, K^2 + K free numbers cost less than 1e-3 nats of over-fitting, so that
# a search for the strength of a penalty, which takes most of the time, is not worth it.
ROWS_PER_PARAMETER = 1000

# Decimals to which rows are compared when they are sorted: rows that differ only by rounding count as equal and
# are told apart by their labels, not by the rounding.
KEY_DECIMALS = 12


def check_event_kind(kind: Any) -> None:
    """Refuse an unknown kind."""
    if kind not in get_args(EventKind):
        raise ParameterError(f"kind must be 'confidence', 'classwise', 'positive' or 'full', not {kind!r}.")


def check_folds(n_folds: Any) -> None:
    """Refuse a number of folds that is not a whole number of at least two."""
    if isinstance(n_folds, bool) or not isinstance(n_folds, (int, np.integer)) or n_folds < 2:
        raise ParameterError(f"n_folds must be a whole number of at least 2, not {n_folds!r}.")


def check_level(level: Any) -> None:
    """Refuse a level of confidence that is not strictly between 0 and 1."""
    if not (isinstance(level, Real) and 0 < float(level) < 1):
        raise ParameterError(f"level must be a number between 0 and 1, such as 0.95, not {level!r}.")


def check_recalibrator(recalibrator: Any, *, events: bool) -> None:
    """Refuse what names no calibrator and is none; ``events`` allows isotonic regression."""
    if isinstance(recalibrator, Calibrator) or (isinstance(recalibrator, str) and recalibrator == "auto"):
        return
    if not isinstance(recalibrator, str):
        raise ParameterError(
            f"recalibrator must be 'auto', the name of a calibrator or a Calibrator, not {recalibrator!r}."
        )
    if not (events and recalibrator == "isotonic"):
        registry.make(recalibrator)  # which says what names there are


def default_recalibrator(data: LabelledPredictions) -> str:
    r"""Return the name of a calibrator that finds most of what can be removed, at a bearable price.

    Dirichlet calibration for up to 20 classes, with its penalty chosen by cross-validation as long as there are
    fewer than :math:`1000 K^2` rows; temperature scaling for more classes.
    """
    if data.n_classes > FEW_CLASSES:
        return "temperature"
    return "dirichlet-l2" if data.n_rows < ROWS_PER_PARAMETER * data.n_classes**2 else "dirichlet"


def recalibrator_name(recalibrator: Recalibrator) -> str:
    """Return how a recalibrator is called in a sentence."""
    return recalibrator if isinstance(recalibrator, str) else repr(recalibrator)


def event_problems(data: LabelledPredictions, kind: EventKind) -> Iterator[LabelledPredictions]:
    """Yield each event of this kind as a problem of two classes: *does not happen*, *happens*.

    The one problem of ``"full"`` is ``data`` itself. Both probabilities of an event are exact also where the
    larger is rounded to one: what remains for the others is added up, not subtracted from one, and logits stay
    logits. Given probabilities keep their float type. Costs O(nK) for all events together, O(n) memory.
    """
    if kind == "full" or (kind == "positive" and data.n_classes == 2):
        yield data
        return
    if kind == "positive":
        raise ParameterError(
            f"kind='positive' is for two classes, but there are {data.n_classes}; use kind='classwise'."
        )
    predicted = data.predictions.predicted
    top, rest, total = _top_rest_total(data.predictions)
    if kind == "confidence":
        yield _two_classes(data, rest, top, predicted == data.labels)
        return
    # As probabilities, so that the columns are those of the scores, not of their softmax.
    raw = Predictions(data.predictions.scores, Space.PROBABILITIES)
    for k, own in enumerate(columns(raw)):
        if data.predictions.space is Space.PROBABILITIES:
            others = 1 - own
        else:
            own = own - total
            others = np.log1p(-np.exp(np.minimum(own, -np.log(2))))
        # Only the class at the top of a row can be so near to one that a difference from one loses digits.
        yield _two_classes(data, np.where(predicted == k, rest, others), own, data.labels == k)


def _two_classes(
    data: LabelledPredictions, others: NDArray[Any], own: NDArray[Any], happened: NDArray[np.bool_]
) -> LabelledPredictions:
    predictions = Predictions(np.column_stack([others, own]), data.predictions.space)
    return LabelledPredictions(predictions, happened.astype(np.intp), np.array([0, 1]), data.weights)


def _top_rest_total(predictions: Predictions) -> tuple[NDArray[Any], NDArray[Any], Vector]:
    """Return what the predicted class and what all others have, and the logarithm of the softmax's denominator.

    The first two are probabilities, or for logits their logarithms; the third is zero for probabilities.
    """
    given = predictions.space is Space.PROBABILITIES
    top = np.empty(predictions.n_rows, predictions.scores.dtype if given else np.float64)
    rest, total = np.empty_like(top), np.zeros(predictions.n_rows)
    for rows in row_blocks(*predictions.scores.shape):
        block = predictions.scores[rows].astype(np.float64)
        at_top = np.arange(len(block)), predictions.predicted[rows]
        own = block[at_top]
        if given:
            block[at_top] = 0
            top[rows], rest[rows] = own, block.sum(axis=1)
        else:
            block[at_top] = -np.inf
            others = logsumexp(block, axis=1)
            total[rows] = np.logaddexp(own, others)
            top[rows], rest[rows] = own - total[rows], others - total[rows]
    return top, rest, total


def cross_folds(data: LabelledPredictions, n_folds: int) -> list[Rows]:
    """Return the rows of every fold; each row is in one, and no fold is empty.

    Folds depend on the predictions of the rows and not on their order, and a row is never split between them
    whatever its weight, so that none is judged by a map that has seen it. Costs a sort.
    """
    n_folds = min(n_folds, data.n_rows)
    if n_folds < 2:
        return [np.arange(data.n_rows)]
    folds = folds_by_content(_row_keys(data), _fold_weights(data.weights), n_folds)
    return [fold.test_rows for fold in folds if len(fold.test_rows)]


def recalibrated(
    data: LabelledPredictions, recalibrator: Recalibrator, folds: list[Rows], *, earlier_only: bool = False
) -> Iterator[tuple[Rows, Predictions]]:
    """Yield, fold by fold, rows and what a recalibrator learnt on all other folds makes of them.

    Rows whose other folds hold a single class, or nothing, come as they are. Warnings of the fits are not passed
    on: whatever map they end with serves. Memory for a copy of the rows to learn from; time for a fit per fold.

    With ``earlier_only`` a fold is judged by a map learnt on the folds before it, and the first is left out. No two
    folds then judge each other, so that what is found in them are martingale differences, whose variances add up.
    """
    for number, rows in enumerate(folds):
        if number == 0 and earlier_only:
            continue
        others = folds[:number] if earlier_only else folds[:number] + folds[number + 1 :]
        judged = data.predictions.take(rows)
        if others:
            judged = _learnt(data.take(np.sort(np.concatenate(others))), recalibrator)(judged)
        yield rows, judged


def _learnt(data: LabelledPredictions, recalibrator: Recalibrator) -> Callable[[Predictions], Predictions]:
    if recalibrator == "isotonic" and data.n_classes == 2:
        fit = isotonic_fit(data.predictions.probabilities[:, 1], data.labels, data.weights)

        def isotonic(predictions: Predictions) -> Predictions:
            happens = fit(predictions.probabilities[:, 1])
            return Predictions(np.column_stack([1 - happens, happens]), Space.PROBABILITIES)

        return isotonic
    calibrator = registry.make(recalibrator) if isinstance(recalibrator, str) else clone(recalibrator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        try:
            calibrator.fit_labelled(data, warn_of_absent=False)
        except LabelError:  # a single class
            return lambda predictions: predictions
    transform: Callable[[Predictions], Predictions] = calibrator.transform
    return transform


def _row_keys(data: LabelledPredictions) -> tuple[Vector, ...]:
    """Return what to sort rows by: their predictions, and labels only where these are equal.

    Folds that depended on labels would hold fixed shares of surprises, and no longer be a random split. Made from
    probabilities in float64, so that logits and their softmax, and both float types, agree; the first key does not
    depend on the order of the classes.
    """
    n_rows, n_classes = data.n_rows, data.n_classes
    squares, mixed = np.empty(n_rows), np.empty(n_rows)
    mixture = np.random.default_rng(0).uniform(1, 2, n_classes)
    for rows in row_blocks(n_rows, n_classes):
        scores = data.predictions.scores[rows].astype(np.float64)
        block = scores if data.predictions.space is Space.PROBABILITIES else softmax(scores)
        np.einsum("ik,ik->i", block, block, out=squares[rows])
        np.matmul(block, mixture, out=mixed[rows])
    return squares.round(KEY_DECIMALS), mixed.round(KEY_DECIMALS), data.labels.astype(np.float64), mixed


def _fold_weights(weights: Vector | None) -> Vector | None:
    """Return weights of the same ratios that are not taken for counts of rows: the largest is no whole number.

    Cut to twelve digits, so that a common factor, whose rounding differs from row to row, changes no comparison.
    """
    if weights is None:
        return None
    fraction, exponent = np.frexp(0.7 * (weights / weights.max()))
    return np.asarray(np.ldexp(fraction.round(KEY_DECIMALS), exponent), dtype=np.float64)


def standard_error_of_mean(terms: Vector, weights: Vector | None) -> float:
    r"""Return the standard error of the weighted mean of independent terms.

    .. math:: \frac{1}{W} \Bigl( \frac{n}{n - 1} \sum_i w_i^2 (t_i - \bar t)^2 \Bigr)^{1/2}

    Infinite for one row, which says nothing of how others differ, and for infinite terms.

    >>> standard_error_of_mean(np.array([0.0, 2.0]), None)
    1.0
    """
    n_rows = len(terms)
    if n_rows < 2 or not np.isfinite(terms).all():
        return float("inf")
    shares = np.full(n_rows, 1 / n_rows) if weights is None else weights / weights.sum()
    deviations = shares * (terms - shares @ terms)
    return float(np.sqrt(n_rows / (n_rows - 1) * (deviations @ deviations)))
