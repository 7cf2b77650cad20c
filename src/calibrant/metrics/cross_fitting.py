"""Cross-fitting: recalibrated out-of-fold predictions, and the folds."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import clone

from calibrant import registry
from calibrant.arrays import AnyArray, IntArray, Matrix, Vector
from calibrant.calibrator import Calibrator
from calibrant.errors import CalibrationWarning, LabelError, ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import check_two_classes, columns, float64_probabilities
from calibrant.metrics.row_losses import Loss
from calibrant.numerics.folds import content_seed, folds_by_content
from calibrant.numerics.isotonic import isotonic_fit
from calibrant.numerics.row_blocks import row_blocks
from calibrant.options import check_choice, check_whole
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__: list[str] = []


EventKind = Literal["confidence", "classwise", "positive", "full"]
"""The kinds of events, and ``"full"`` for all probabilities of a row jointly."""

EVENT_NAMES = {
    "confidence": "the predicted class",
    "classwise": "each class, averaged over classes",
    "positive": "the positive class",
    "full": "all classes together",
}

Recalibrator = str | Calibrator
"""A registry name, a calibrator to be cloned, or ``"isotonic"`` for the event of a two-class problem."""

Map = Callable[[Predictions], Predictions]

# Largest number of classes for which a full linear map of log-probabilities, K^2 + K parameters, is affordable.
MAX_CLASSES_OF_MATRIX = 20

# From this many rows per squared class on, K^2 + K parameters over-fit by less than 1e-3 nats, so the search for a
# regularisation strength, which takes most of the time, is not worth it.
ROWS_PER_PARAMETER = 1000

# Mixture weights are fitted on inner folds, one after the other until this many out-of-fold rows are available.
INNER_FOLDS = 4
ROWS_FOR_WEIGHTS = 300


def check_event_kind(kind: Any) -> None:
    """Raise on an unknown kind."""
    check_choice("kind", kind, get_args(EventKind))


def check_folds(n_folds: Any) -> None:
    """Raise unless the number of folds is an integer of at least two."""
    check_whole("n_folds", n_folds, least=2)


def check_recalibrator(recalibrator: Any, *, events: bool) -> None:
    """Raise unless this is a calibrator or the name of one; ``events`` allows isotonic regression."""
    if isinstance(recalibrator, Calibrator) or (isinstance(recalibrator, str) and recalibrator == "auto"):
        return
    if not isinstance(recalibrator, str):
        raise ParameterError(
            f"recalibrator must be 'auto', the name of a calibrator or a Calibrator, not {recalibrator!r}."
        )
    if not (events and recalibrator == "isotonic"):
        registry.make(recalibrator)  # its error lists the known names


def default_recalibrator(data: LabelledPredictions) -> str:
    r"""Return the name of a calibrator that removes most of the removable loss at moderate cost.

    Dirichlet calibration for up to 20 classes, with cross-validated regularisation strength if there are
    fewer than :math:`1000 K^2` rows; temperature scaling for more classes.
    """
    if data.n_classes > MAX_CLASSES_OF_MATRIX:
        return "temperature"
    return "dirichlet-l2" if data.n_rows < ROWS_PER_PARAMETER * data.n_classes**2 else "dirichlet"


@dataclass(frozen=True)
class Mixture:
    r"""A weighted mean of several recalibrators and the base rates, for losses other than the log-loss.

    .. math:: g = \sum_m \lambda_m g_m + \lambda_0 r, \qquad \lambda \ge 0, \qquad \sum_m \lambda_m = 1

    with the weights :math:`\lambda` of least Brier loss on inner held-out rows. Maps fitted by log-loss can raise the
    Brier score of saturated predictions by a quarter, since they avoid rare huge losses at the cost of many small
    ones. Mixing in the base rates removes that trade-off.
    """

    members: tuple[Recalibrator, ...]


def recalibrator_for(data: LabelledPredictions, loss: Loss) -> str | Mixture:
    """Return the recalibrator to be fitted on the other folds and evaluated by this loss.

    For the log-loss this is the :func:`default_recalibrator`, which minimises it. For other losses it is a mixture of
    that calibrator, a temperature fitted by the Brier score, and the base rates.
    """
    name = default_recalibrator(data)
    return name if loss == "log" else Mixture((name, registry.make("temperature", loss="brier")))


def recalibrator_name(recalibrator: Recalibrator | Mixture) -> str:
    """Return the name of a recalibrator in a sentence."""
    if isinstance(recalibrator, Mixture):
        return f"a mixture of {', '.join(map(recalibrator_name, recalibrator.members))} and base rates"
    return recalibrator if isinstance(recalibrator, str) else repr(recalibrator)


def event_problems(data: LabelledPredictions, kind: EventKind) -> Iterator[LabelledPredictions]:
    """Yield each event of this kind as a two-class problem: *does not occur*, *occurs*.

    The one problem of ``"full"`` is ``data`` itself. Both probabilities of an event are exact even if the larger one is
    rounded to one: the probabilities of the other classes are summed, not subtracted from one, and logits stay
    logits. Given probabilities keep their float type. Costs O(nK) for all events together, O(n) memory.
    """
    if kind == "full" or (kind == "positive" and data.n_classes == 2):
        yield data
        return
    if kind == "positive":
        check_two_classes(data.n_classes)
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
        # Only the largest probability of a row can be so close to one that one minus it loses digits.
        yield _two_classes(data, np.where(predicted == k, rest, others), own, data.labels == k)


def _two_classes(
    data: LabelledPredictions, others: AnyArray, own: AnyArray, occurred: NDArray[np.bool_]
) -> LabelledPredictions:
    predictions = Predictions(np.column_stack([others, own]), data.predictions.space)
    return LabelledPredictions(predictions, occurred.astype(np.intp), np.array([0, 1]), data.weights)


def _top_rest_total(predictions: Predictions) -> tuple[AnyArray, AnyArray, Vector]:
    """Return the scores of the predicted class and of all other classes, and the log of the softmax denominator.

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


def recalibrated(
    data: LabelledPredictions,
    recalibrator: Recalibrator | Mixture,
    folds: list[IntArray],
    *,
    earlier_only: bool = False,
) -> Iterator[tuple[IntArray, Predictions]]:
    """Yield, fold by fold, row numbers and their out-of-fold recalibrated predictions.

    Rows are returned unchanged if their other folds are empty or hold a single class. Warnings of the fits are
    suppressed, since any fitted map is valid here. Memory for a copy of the training rows; one fit per fold.

    With ``earlier_only`` a fold is evaluated by a map fitted to the folds before it, and the first is left out. No two
    folds then evaluate each other, so their terms are martingale differences, whose variances add up.
    """
    for number, rows in enumerate(folds):
        if number == 0 and earlier_only:
            continue
        others = folds[:number] if earlier_only else folds[:number] + folds[number + 1 :]
        held_out = data.predictions.take(rows)
        if others:
            held_out = _fitted_map(data.take(np.sort(np.concatenate(others))), recalibrator)(held_out)
        yield rows, held_out


def _fitted_map(data: LabelledPredictions, recalibrator: Recalibrator | Mixture) -> Map:
    if isinstance(recalibrator, Mixture):
        return _fitted_mixture(data, recalibrator)
    if recalibrator == "isotonic" and data.n_classes == 2:
        fit = isotonic_fit(data.predictions.probabilities[:, 1], data.labels, data.weights)

        def isotonic(predictions: Predictions) -> Predictions:
            probability = fit(predictions.probabilities[:, 1])
            return Predictions(np.column_stack([1 - probability, probability]), Space.PROBABILITIES)

        return isotonic
    calibrator = registry.make(recalibrator) if isinstance(recalibrator, str) else clone(recalibrator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        try:
            calibrator.fit_labelled(data, warn_of_absent=False)
        except LabelError:  # a single class
            return lambda predictions: predictions
    transform: Map = calibrator.transform
    return transform


def _fitted_mixture(data: LabelledPredictions, mixture: Mixture) -> Map:
    *shares, of_rates = _shares(data, mixture)
    used = [
        (share, _fitted_map(data, member))
        for share, member in zip(shares, mixture.members, strict=True)
        if share > 0
    ]
    rates = of_rates * _base_rates(data)

    def mixed(predictions: Predictions) -> Predictions:
        probabilities = np.tile(rates, (predictions.n_rows, 1))
        for share, member in used:
            probabilities += share * member(predictions).probabilities
        return Predictions(probabilities, Space.PROBABILITIES)

    return mixed


def _shares(data: LabelledPredictions, mixture: Mixture) -> list[float]:
    """Return the weights of the members and, last, of the base rates, from inner folds of ``data`` alone."""
    folds = cross_folds(data, INNER_FOLDS)
    products = np.zeros((len(mixture.members) + 1,) * 2)
    n_held_out = 0
    for number, rows in enumerate(folds):
        others = folds[:number] + folds[number + 1 :]
        if not others or n_held_out >= ROWS_FOR_WEIGHTS:
            break
        training, held_out = data.take(np.sort(np.concatenate(others))), data.take(rows)
        members = [_fitted_map(training, member)(held_out.predictions) for member in mixture.members]
        products += _products_of_errors([m.probabilities for m in members], _base_rates(training), held_out)
        n_held_out += len(rows)
    return list(map(float, simplex_minimiser(products)))


def _products_of_errors(members: list[AnyArray], rates: Vector, data: LabelledPredictions) -> Matrix:
    """Return the weighted sum over rows of the inner products of errors of members and base rates, (M + 1, M + 1)."""
    total = np.zeros((len(members) + 1,) * 2)
    for rows in row_blocks(data.n_rows, data.n_classes * len(total)):
        labels = data.labels[rows]
        errors = np.empty((len(total), len(labels), data.n_classes))
        for error, member in zip(errors, members, strict=False):
            error[:] = member[rows]
        errors[-1] = rates
        errors[:, np.arange(len(labels)), labels] -= 1
        if data.weights is not None:
            errors *= np.sqrt(data.weights[rows])[:, np.newaxis]
        flat = errors.reshape(len(total), -1)
        total += flat @ flat.T
    return total


def _base_rates(data: LabelledPredictions) -> Vector:
    return np.asarray(data.class_weights / data.total_weight, dtype=np.float64)


def simplex_minimiser(matrix: Matrix) -> Vector:
    r"""Return the :math:`x \ge 0` with sum one that minimises :math:`x^\top A x`, for a small semidefinite A.

    The positive entries satisfy :math:`A x = \mu 1` with a common :math:`\mu`; all 2^M active sets are tried.
    Among sets that are equally good up to rounding, the first of the smallest is returned.

    >>> simplex_minimiser(np.array([[2.0, 0.0], [0.0, 1.0]]))
    array([0.33333333, 0.66666667])
    """
    size = len(matrix)
    scaled = matrix / (matrix.max() or 1.0)
    best, least = np.zeros(size), np.inf
    for n_positive in range(1, size + 1):
        conditions = np.ones((n_positive + 1, n_positive + 1))
        conditions[-1, -1] = 0
        for chosen in map(list, combinations(range(size), n_positive)):
            part = conditions[:-1, :-1] = scaled[np.ix_(chosen, chosen)]
            entries = np.linalg.lstsq(conditions, [0.0] * n_positive + [1.0], rcond=None)[0][:-1]
            value = float(entries @ part @ entries)
            if entries.min() >= 0 and value < least * (1 - 1e-9):
                best, least = np.zeros(size), value
                best[chosen] = entries
    return best


# Decimals to which sort keys are compared. Rows that differ only by rounding count as equal and are ordered by their
# labels, not by the rounding.
KEY_DECIMALS = 12


def cross_folds(data: LabelledPredictions, n_folds: int) -> list[IntArray]:
    """Return the rows of every fold; each row is in exactly one fold, and no fold is empty.

    Folds depend on the predictions of the rows and not on their order. A row is never split between folds, whatever
    its weight, so no row is evaluated by a map that was fitted to it. Costs a sort.
    """
    n_folds = min(n_folds, data.n_rows)
    if n_folds < 2:
        return [np.arange(data.n_rows)]
    keys = _row_keys(data)
    folds = folds_by_content(keys, _fold_weights(data.weights), n_folds, _seed(data, keys[0]))
    return [fold.test_rows for fold in folds if len(fold.test_rows)]


def _seed(data: LabelledPredictions, key: Vector) -> int:
    """Return zero, or if some rows have equal predictions, a seed that depends on their outcomes.

    Labels decide the order of rows with equal predictions. With the same seed for all data sets, the label frequencies of
    each fold would be a fixed function of the class counts, and the estimate would be biased by them.
    """
    hits = data.predictions.predicted == data.labels
    order = np.lexsort((hits, key))
    ordered = key[order]
    return content_seed(hits[order]) if (ordered[1:] == ordered[:-1]).any() else 0


def _row_keys(data: LabelledPredictions) -> tuple[Vector, ...]:
    """Return the sort keys of rows: their predictions, and labels only to break ties.

    Folds that depended on labels would hold fixed numbers of wrong predictions and not be a random split. Keys are
    computed from probabilities in float64, so that logits and their softmax agree, as do both float types. The first
    key does not depend on the order of the classes.
    """
    n_rows, n_classes = data.n_rows, data.n_classes
    squares, mixed = np.empty(n_rows), np.empty(n_rows)
    mixture = np.random.default_rng(0).uniform(1, 2, n_classes)
    for rows in row_blocks(n_rows, n_classes):
        block = float64_probabilities(data.predictions, rows)
        np.einsum("ik,ik->i", block, block, out=squares[rows])
        np.matmul(block, mixture, out=mixed[rows])
    return squares.round(KEY_DECIMALS), mixed.round(KEY_DECIMALS), data.labels.astype(np.float64), mixed


def _fold_weights(weights: Vector | None) -> Vector | None:
    """Return weights of the same ratios that cannot be mistaken for row counts: the largest is not an integer.

    Rounded to twelve digits, so that a common factor, whose rounding differs between rows, changes no comparison.
    """
    if weights is None:
        return None
    fraction, exponent = np.frexp(0.7 * (weights / weights.max()))
    return np.asarray(np.ldexp(fraction.round(KEY_DECIMALS), exponent), dtype=np.float64)
