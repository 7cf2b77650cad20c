"""Learning curve: loss on held-out rows by size of the calibration set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.arrays import IntArray, Vector
from calibrant.calibrator import Calibrator
from calibrant.comparison.compare import random_folds
from calibrant.errors import ParameterError
from calibrant.intervals import bootstrap, loss_difference, paired_bootstrap
from calibrant.intervals.groups import group_numbers
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import brier_score, log_loss, spherical_loss
from calibrant.metrics.accepted_metric import check_metric
from calibrant.metrics.declaration import describe, evaluator
from calibrant.metrics.row_losses import Loss
from calibrant.notices import gathered
from calibrant.numerics.folds import Fold
from calibrant.options import check_level, is_whole, random_source
from calibrant.plots.hyperbola import Hyperbola
from calibrant.predictions import Predictions
from calibrant.registry import make
from calibrant.space import Space
from calibrant.tabular import Tabular
from calibrant.wording import counted

__all__ = ["LearningCurve", "learning_curve"]


# Metrics whose differences have an interval in closed form.
ROW_LOSSES: dict[Callable[..., Any], Loss] = {
    log_loss: "log",
    brier_score: "brier",
    spherical_loss: "spherical",
}

N_RESAMPLES = 500

# Smallest default size, and number of default sizes.
FEWEST_ROWS, MOST_SIZES = 20, 6


@dataclass(frozen=True, eq=False)
class LearningCurve(Tabular):
    r"""Loss of a calibrator on held-out rows, for several sizes of the calibration set.

    Attributes
    ----------
    method, metric : str
        Names of the method and of the metric.
    n_rows : int
        Total number of rows.
    level : float
        Confidence level of the intervals.
    sizes : ndarray of shape (m,)
        Sizes of the calibration set, increasing.
    loss : ndarray of shape (m,)
        The metric on all held-out rows; NaN if no fit was possible.
    low, high : ndarray of shape (m,)
        Ends of the interval of ``loss``.
    difference_low, difference_high : ndarray of shape (m,)
        Ends of the interval of the paired difference to ``uncalibrated``; the gain is significant if both are below zero.
        Losses are paired by row, so it can be significant even if the intervals of the two losses overlap.
    uncalibrated : float
        The metric of the uncalibrated predictions on the same rows.
    notes : tuple of str
        Reasons for failed fits.
    trend : Hyperbola
        The curve a + b / n through the points, see :meth:`expected`.
    """

    method: str
    metric: str
    n_rows: int
    level: float
    sizes: NDArray[np.intp]
    loss: Vector
    low: Vector
    high: Vector
    difference_low: Vector
    difference_high: Vector
    uncalibrated: float
    notes: tuple[str, ...]
    trend: Hyperbola

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per size of the calibration set."""
        return {
            "size": self.sizes,
            "loss": self.loss,
            "low": self.low,
            "high": self.high,
            "difference_low": self.difference_low,
            "difference_high": self.difference_high,
            "uncalibrated": np.full(len(self.sizes), self.uncalibrated),
        }

    def expected(self, n_rows: float) -> tuple[float, float]:
        """Return the expected loss for a size of the calibration set, and its standard error.

        The curve a + b / n is the asymptotic excess loss of a model with a fixed number of parameters. It is fitted by least
        squares with weights n to sizes of at least an eighth of the largest, with a and b at least zero. Points from which
        the loss falls faster than the law allows are dropped; ``trend.is_supported`` is true if at least three points that
        follow it remain. The standard error is that of the fitted curve, infinite for fewer than three sizes; it does not
        include the uncertainty of the extrapolation.
        """
        if not n_rows > 0:
            raise ParameterError(f"n_rows must be a positive size of the calibration set, not {n_rows!r}.")
        return self.trend(n_rows)

    def __repr__(self) -> str:
        first, last = self.sizes[0], self.sizes[-1]
        return (
            f"LearningCurve({self.method}, {self.metric}, {first} to {last} of {counted(self.n_rows, 'row')})"
        )


def learning_curve(
    y_true: Any,
    y_proba: Any,
    *,
    method: str | Calibrator = "auto",
    sizes: Sequence[int] | None = None,
    cv: Any = 5,
    sample_weight: Any = None,
    groups: Any = None,
    metric: Callable[..., float] = log_loss,
    level: float = 0.95,
    random_state: int | np.random.Generator | None = 0,
    progress: Callable[[int, int, str], object] | None = None,
) -> LearningCurve:
    r"""Compute a learning curve: loss on held-out rows by size of the calibration set.

    For each cross-validation fold, the method is fitted to the first m of the other rows, in a random stratified order, and
    evaluated on the fold. Smaller calibration sets are subsets of larger ones, so the points of the curve share most of their
    noise.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    method : str or Calibrator, default="auto"
        Registry name, or a calibrator, which is cloned.
    sizes : sequence of int, optional
        Sizes m of the calibration set; by default all rows outside a fold, half of them, a quarter, and so on.
    cv : int, splitter or list of splits, default=5
        Cross-validation; a number of folds splits rows, or groups, at random.
    sample_weight : array of shape (n,), optional
        Sample weights. Sizes are numbers of rows, regardless of their weights.
    groups : array of shape (n,), optional
        Groups are kept together in cross-validation, and each is one observation in the intervals.
    metric : function, default=log_loss
        A metric of this library, or any function ``(y_true, y_proba) -> float``.
    level : float, default=0.95
        Confidence level of the intervals.
    random_state : int, Generator or None, default=0
        Seed of the order of the rows.
    progress : function, optional
        Called as ``progress(done, total, what)`` after every fit.

    Returns
    -------
    LearningCurve
        With ``columns()``, ``frame()`` and :meth:`~LearningCurve.expected` for other sizes.

    Notes
    -----
    Zeros among the probabilities are replaced by a floor below all other probabilities, see :class:`~calibrant.Predictions`,
    so that the log-loss of the uncalibrated predictions is finite. Intervals of the loss are percentiles of a
    :func:`~calibrant.intervals.bootstrap`. Intervals of the difference are from :func:`~calibrant.intervals.loss_difference`
    for a proper loss, else from :func:`~calibrant.intervals.paired_bootstrap`. They do not include the variation between
    calibration sets. The cost is one fit per fold and size.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.05, 0.95, 500)
    >>> y = (rng.random(500) < p**2 / (p**2 + (1 - p) ** 2)).astype(int)     # under-confident
    >>> curve = learning_curve(y, p, method="temperature", sizes=(50, 100, 400))
    >>> bool(curve.loss[-1] < curve.uncalibrated), bool(curve.difference_high[-1] < 0)
    (True, True)
    """
    check_level(level)
    calibrator = make(method) if isinstance(method, str) else method
    if not isinstance(calibrator, Calibrator):
        raise ParameterError(f"method must be a registry name or a calibrator, not {method!r}.")
    data = _data(y_true, y_proba, sample_weight, groups)
    generator = random_source(random_state)
    folds = random_folds(cv, data, int(generator.integers(2**31)))
    chosen = _sizes(sizes, min(len(fold.train_rows) for fold in folds), data.n_classes)
    orders = [fold.train_rows[_nested_order(data.labels[fold.train_rows], generator)] for fold in folds]
    tests = np.concatenate([fold.test_rows for fold in folds])
    held_out = data.take(tests, _test_weights(folds))
    given = held_out.predictions.without_zeros()
    judge = _Judge(held_out, tests, metric, level)
    uncalibrated = judge.value(given)
    total = len(chosen) * len(folds)
    points, notes, done = [], [], 0
    with gathered(total, "fit"):
        for size in chosen:
            parts = []
            for fold, order in zip(folds, orders, strict=True):
                rows = order[:size]
                try:
                    fitted = clone(calibrator).fit_labelled(data.take(rows), warn_of_absent=False)
                    parts.append(fitted.transform(data.predictions.take(fold.test_rows)))
                except (ValueError, ArithmeticError) as error:
                    # Few rows may have a single class; larger sizes can still be evaluated.
                    notes.append(f"{size} rows: {error}")
                done += 1
                if progress is not None:
                    progress(done, total, f"{size} rows")
            points.append(judge(given, _joined(parts, data)) if len(parts) == len(folds) else (np.nan,) * 5)
    loss, low, high, difference_low, difference_high = np.array(points).T
    return LearningCurve(
        method=method if isinstance(method, str) else repr(method),
        metric=describe(metric),
        n_rows=data.n_rows,
        level=float(level),
        sizes=chosen,
        loss=loss,
        low=low,
        high=high,
        difference_low=difference_low,
        difference_high=difference_high,
        uncalibrated=uncalibrated,
        notes=tuple(dict.fromkeys(notes)),
        trend=Hyperbola.through(chosen, loss),
    )


class _Judge:
    """Evaluation of predictions for the held-out rows, with paired differences."""

    def __init__(
        self, held_out: LabelledPredictions, rows: IntArray, metric: Callable[..., float], level: float
    ) -> None:
        check_metric(metric, weighted=held_out.weights is not None)
        self._held_out = held_out
        self._options: dict[str, Any] = {"sample_weight": held_out.weights, "level": level}
        repeated = len(np.unique(rows)) < len(rows)
        # A row in several test folds is one observation.
        if held_out.groups is not None or repeated:
            self._options["groups"] = rows if held_out.groups is None else held_out.groups
        self._metric = metric

    def value(self, predictions: Predictions) -> float:
        held_out = replace(self._held_out, predictions=predictions)
        return evaluator(self._metric, held_out)(held_out.labels, held_out.weights)

    def __call__(self, given: Predictions, calibrated: Predictions) -> tuple[float, ...]:
        """Return the metric of calibrated predictions, with its interval and that of the paired difference."""
        value = self.value(calibrated)
        if not np.isfinite(value):
            return value, *(np.nan,) * 4
        classes = self._held_out.classes
        y = classes[self._held_out.labels]
        pair = (replace(given, classes=classes), replace(calibrated, classes=classes))
        own = bootstrap(self._metric, y, pair[1], n_resamples=N_RESAMPLES, **self._options)
        loss = ROW_LOSSES.get(self._metric)
        if loss is not None:
            interval = loss_difference(y, *pair, loss=loss, **self._options)
        else:
            interval = paired_bootstrap(self._metric, y, *pair, n_resamples=N_RESAMPLES, **self._options)
        return value, own.low, own.high, interval.low, interval.high


def _data(y_true: Any, y_proba: Any, sample_weight: Any, groups: Any) -> LabelledPredictions:
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    if groups is None:
        return data
    return replace(data, groups=group_numbers(groups, len(y_true), sample_weight))


def _test_weights(folds: Sequence[Fold]) -> Vector | None:
    parts = [fold.test_weights for fold in folds if fold.test_weights is not None]
    return np.concatenate(parts) if parts else None


def _sizes(sizes: Sequence[int] | None, n_train: int, n_classes: int) -> NDArray[np.intp]:
    """Return the sizes of the calibration set, in increasing order."""
    if sizes is None:
        halved = [n_train >> power for power in range(MOST_SIZES)]
        enough = max(FEWEST_ROWS, 2 * n_classes)
        return np.array([size for size in halved[::-1] if size >= enough] or [n_train], dtype=np.intp)
    numbers = list(sizes) if isinstance(sizes, Sequence | np.ndarray) else [sizes]
    if not numbers or not all(is_whole(number, 1) for number in numbers):
        raise ParameterError(f"sizes must be integers of at least 1, such as (100, 1000), not {sizes!r}.")
    if max(numbers) > n_train:
        raise ParameterError(
            f"sizes must not exceed the {n_train} rows outside the largest fold, but one is {max(numbers)}; "
            "omit it or use more folds."
        )
    return np.unique(np.array(numbers, dtype=np.intp))


def _nested_order(labels: NDArray[np.intp], generator: np.random.Generator) -> IntArray:
    """Return a random stratified order: all initial segments have nearly the same class frequencies.

    >>> order = _nested_order(np.array([0] * 8 + [1] * 4), np.random.default_rng(0))
    >>> [int((order[:size] >= 8).sum()) for size in (3, 6, 9, 12)]
    [1, 2, 3, 4]
    """
    place = np.empty(len(labels))
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        place[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    # Ties between classes are broken at random.
    return np.lexsort((generator.random(len(labels)), place))


def _joined(parts: Sequence[Predictions], data: LabelledPredictions) -> Predictions:
    """Concatenate the rows of all folds; as logits if all are logits."""
    if all(part.space is Space.LOGITS for part in parts):
        return Predictions(np.concatenate([part.scores for part in parts]), Space.LOGITS, data.classes)
    probabilities = np.concatenate([part.probabilities for part in parts])
    return Predictions(probabilities, Space.PROBABILITIES, data.classes)
