"""Compare methods by cross-validation or on a test set."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from calibrant import metrics as metric_functions
from calibrant import registry
from calibrant.calibrator import Calibrator
from calibrant.calibrators.combinators.auto.folds import stratified_folds
from calibrant.calibrators.inner_folds import check_cv_parameter, folds_of_splits
from calibrant.comparison.comparison import UNCALIBRATED, UNCALIBRATED_TEXT, Comparison, MethodResult
from calibrant.errors import ParameterError, PredictionError
from calibrant.intervals import Interval, loss_difference
from calibrant.intervals.groups import group_numbers
from calibrant.labelled_predictions import LabelledPredictions, are_swapped
from calibrant.metrics.declaration import describe
from calibrant.notices import held_back, warn_user
from calibrant.numerics.folds import Fold
from calibrant.options import check_level, is_whole
from calibrant.predictions import Predictions
from calibrant.presentation import counted
from calibrant.remedies import GIVE_TEST_SET
from calibrant.space import Space

__all__ = ["DEFAULT_METRICS", "Progress", "compare", "named_calibrators", "random_folds"]

DEFAULT_METRICS = ("log_loss", "brier_score", "accuracy", "confidence_ece", "classwise_ece")

Progress = Callable[[int, int, str], object]
"""Called with the number of finished fits, the total number, and the name of the next method."""


def compare(
    y_true: Any,
    y_proba: Any,
    methods: Sequence[str | Calibrator],
    *,
    sample_weight: Any = None,
    groups: Any = None,
    cv: Any = 5,
    test: tuple[Any, ...] | None = None,
    metrics: Sequence[str | Callable[..., float]] | None = None,
    level: float = 0.95,
    refit: bool = True,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    r"""Compare calibration methods by cross-validation or on a test set, with paired differences.

    In cross-validation every row is calibrated once, by a calibrator fitted on the other folds. All methods have the same
    folds. The difference between a method and the uncalibrated predictions,

    .. math:: \bar d = \frac{1}{n} \sum_i \ell\bigl(g^{(-i)}(p_i), y_i\bigr) - \ell(p_i, y_i),

    has a t interval over rows, or over groups. Since losses are paired by row, this interval is much narrower than those of
    the two losses. It treats the fitted calibrators as fixed, so it is too narrow for few rows, where calibrators vary much
    between samples.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes of the calibration set.
    y_proba : array, frame or Predictions
        Predictions for the calibration set.
    methods : sequence of str or Calibrator
        Registry names (``+`` composes) or calibrators. The uncalibrated predictions are added.
    sample_weight : array of shape (n,), optional
        Sample weights.
    groups : array of shape (n,), optional
        Groups are kept together in cross-validation, and intervals treat groups as independent.
    cv : int, splitter or iterable of splits, default=5
        Cross-validation. A number of folds splits rows, or groups, at random, without stratification: stratified folds
        hide errors of the intercepts and favour methods with many intercepts. Not used with ``test``.
    test : tuple (y_true, y_proba) or (y_true, y_proba, sample_weight), optional
        Test set, which replaces cross-validation; methods are fitted to the complete calibration set. ``groups`` then have
        no effect on intervals and are only passed to methods that cross-validate internally.
    metrics : sequence of str or function, optional
        Metrics in addition to log-loss, Brier score, accuracy, confidence ECE and classwise ECE.
    level : float, default=0.95
        Confidence level of the intervals.
    refit : bool, default=True
        Whether to refit every method to the complete calibration set.
    random_state : int, default=0
        Seed of the folds, and of methods with random numbers and without a seed.
    progress : function, optional
        Called as ``progress(done, total, name)`` before every fit.

    Returns
    -------
    Comparison
        If a method fails, the others are still compared; its ``error`` says why. Warnings of the fits are in ``notes``.

    Examples
    --------
    >>> p = [[0.9, 0.1]] * 60 + [[0.1, 0.9]] * 60
    >>> y = ([0, 0, 1] * 20) + ([1, 1, 0] * 20)           # 90 % confident, correct in two of three rows
    >>> found = compare(y, p, ["temperature", "shared-map"])
    >>> found.how
    'Cross-validated on 120 rows (5 folds)'
    >>> found.result("temperature").differences["log_loss"].high < 0
    True
    """
    check_level(level)
    data = _parsed(y_true, y_proba, sample_weight)
    if groups is not None:
        data = replace(data, groups=group_numbers(groups, len(y_true), sample_weight))
    calibrators = named_calibrators(methods, random_state)
    functions = _functions(metrics)
    folds = None
    if test is None:
        if data.n_rows < 2:
            raise PredictionError(
                f"cross-validation needs at least 2 rows; give more rows, or {GIVE_TEST_SET}."
            )
        folds = random_folds(cv, data, random_state)
        measured, how = data, _description(folds, data)
    else:
        measured = _parsed(*test)
        if not np.array_equal(measured.classes, data.classes):
            raise ParameterError(
                f"the test set must have the classes of the calibration set, {data.classes.tolist()}, but has "
                f"{measured.classes.tolist()}; name the columns in both."
            )
        how = (
            f"Fitted to {counted(data.n_rows, 'row')} and evaluated on {counted(measured.n_rows, 'test row')}"
        )
    total = len(calibrators) * ((0 if folds is None else len(folds)) + (refit or folds is None))
    reference = _reference(measured)
    results, done = [], 0

    def report_progress(name: str) -> None:
        nonlocal done
        if progress is not None:
            progress(done, total, name)
        done += 1

    for name, calibrator in calibrators.items():
        result = _result(name, calibrator, data, measured, folds, refit, report_progress)
        if not result.failed:
            result = _scored(result, measured, reference, functions, level)
        results.append(result)
    if progress is not None:
        progress(total, total, "")
    base = UNCALIBRATED_TEXT
    if reference is not measured.predictions:
        base += f" with zeros raised to {measured.predictions.floor:.2g}"
    return Comparison(
        tuple(sorted(results, key=_sort_key)), measured, data.n_rows, measured.n_rows, how, float(level), base
    )


def _parsed(y_true: Any, y_proba: Any, sample_weight: Any = None) -> LabelledPredictions:
    if are_swapped(y_proba, y_true):
        warn_user(
            "compare takes labels first, compare(y, p, ...); predictions first will be an error in a later version.",
            DeprecationWarning,
        )
        y_true, y_proba = y_proba, y_true
    return LabelledPredictions.parse(y_proba, y_true, sample_weight)


def _sort_key(result: MethodResult) -> tuple[bool, bool, float]:
    return (
        result.name != UNCALIBRATED,
        result.failed,
        result.scores.get("log_loss", np.inf),
    )


def named_calibrators(methods: Sequence[str | Calibrator], random_state: int) -> dict[str, Calibrator]:
    """Return name -> calibrator, the identity map first."""
    if isinstance(methods, str | Calibrator):
        raise ParameterError(f"methods must be a list of names or calibrators, not {methods!r}.")
    found: dict[str, Calibrator] = {UNCALIBRATED: registry.make(UNCALIBRATED)}
    for method in methods:
        if isinstance(method, Calibrator):
            found[str(method)] = clone(method)
        else:
            found[method] = registry.make(method)
    for calibrator in found.values():
        parameters = calibrator.get_params()
        unset = [key for key, value in parameters.items() if key.endswith("random_state") and value is None]
        calibrator.set_params(**dict.fromkeys(unset, random_state))
    return found


def _functions(metrics: Sequence[str | Callable[..., float]] | None) -> dict[str, Callable[..., float]]:
    """Return name -> metric, always including the default metrics."""
    found = {name: getattr(metric_functions, name) for name in DEFAULT_METRICS}
    for metric in metrics or ():
        if not isinstance(metric, str):
            found[describe(metric)] = metric
        elif metric in registry.metrics():
            found[metric] = getattr(metric_functions, metric)
        else:
            raise ParameterError(f"there is no metric {metric!r}; known are {registry.metrics()}.")
    return found


def _description(folds: list[Fold], data: LabelledPredictions) -> str:
    held_out = np.concatenate([fold.test_rows for fold in folds])
    if len(np.unique(held_out)) != data.n_rows or len(held_out) != data.n_rows:
        raise ParameterError(
            "cv must have every row in exactly one test fold, so that losses can be paired by row; use a number of folds, or a "
            "splitter such as KFold."
        )
    together = "" if data.groups is None else ", groups kept together"
    return f"Cross-validated on {counted(data.n_rows, 'row')} ({len(folds)} folds{together})"


def _result(
    name: str,
    calibrator: Calibrator,
    data: LabelledPredictions,
    measured: LabelledPredictions,
    folds: list[Fold] | None,
    refit: bool,
    report_progress: Callable[[str], None],
) -> MethodResult:
    """Fit and predict; record errors and warnings."""
    with held_back() as notices:
        try:
            predictions, seconds, fitted = None, 0.0, None
            if folds is not None:
                predictions, seconds = _out_of_fold(name, calibrator, data, folds, report_progress)
            if refit or folds is None:
                report_progress(name)
                start = time.perf_counter()
                fitted = clone(calibrator).fit_labelled(data)
                seconds = time.perf_counter() - start
            if fitted is not None and predictions is None:
                predictions = fitted.transform(measured.predictions)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError, MemoryError) as error:
            return MethodResult(name, None, None, error=f"{error}".rstrip(".") or type(error).__name__)
    notes = tuple(dict.fromkeys(message for message, _ in notices))
    return MethodResult(name, fitted, predictions, seconds=seconds, notes=notes)


def _out_of_fold(
    name: str,
    calibrator: Calibrator,
    data: LabelledPredictions,
    folds: list[Fold],
    report_progress: Callable[[str], None],
) -> tuple[Predictions, float]:
    """Return out-of-fold predictions, and the mean time of a fit."""
    if name == UNCALIBRATED:
        for _ in folds:
            report_progress(name)
        return data.predictions, 0.0
    scores = np.empty_like(data.predictions.scores)
    seconds = 0.0
    for fold in folds:
        report_progress(name)
        start = time.perf_counter()
        fitted = clone(calibrator).fit_labelled(data.take(fold.train_rows, fold.train_weights))
        seconds += time.perf_counter() - start
        scores[fold.test_rows] = fitted.predict_proba(data.predictions.take(fold.test_rows))
    scores.setflags(write=False)
    return Predictions(scores, Space.PROBABILITIES, data.predictions.classes), seconds / len(folds)


def _reference(measured: LabelledPredictions) -> Predictions:
    """Return the baseline: the uncalibrated predictions, with zeros raised to the floor if a true class had one."""
    given = measured.predictions
    return given if np.isfinite(measured.log_loss()) else given.without_zeros()


def _scored(
    result: MethodResult,
    measured: LabelledPredictions,
    reference: Predictions,
    functions: dict[str, Callable[..., float]],
    level: float,
) -> MethodResult:
    labels = measured.classes[measured.labels]
    assert result.predictions is not None
    calibrated = replace(result.predictions, classes=measured.classes)
    reference = replace(reference, classes=measured.classes)
    with held_back(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the scores show infinite losses
        scores = {
            name: float(function(labels, calibrated, sample_weight=measured.weights))
            for name, function in functions.items()
        }
        differences: dict[str, Interval] = {}
        if result.name != UNCALIBRATED:
            for name, loss in (("log_loss", "log"), ("brier_score", "brier")):
                differences[name] = loss_difference(
                    labels,
                    reference,
                    calibrated,
                    loss=loss,  # type: ignore[arg-type]
                    sample_weight=measured.weights,
                    groups=measured.groups,
                    level=level,
                )
    changed = calibrated.predicted != measured.predictions.predicted
    share = float(np.average(changed, weights=measured.weights))
    return replace(result, predictions=calibrated, scores=scores, differences=differences, changed=share)


def random_folds(cv: Any, data: LabelledPredictions, random_state: int = 0) -> list[Fold]:
    """Return the folds for ``cv``; a number of folds splits rows, or groups, at random.

    Folds are not stratified. If every fold had the class frequencies of the training folds, errors in these frequencies, and
    so in intercepts, would be hidden, and methods with many intercepts would look too good. Splitters of scikit-learn get
    labels and groups.
    """
    check_cv_parameter(cv)
    if not is_whole(cv, 2):
        # A list of splits is used as it is.
        listed = data.groups is not None and not hasattr(cv, "split")
        return stratified_folds(cv, replace(data, groups=None) if listed else data)
    rows = np.zeros(data.n_rows)
    if data.groups is None:
        splits = KFold(min(int(cv), data.n_rows), shuffle=True, random_state=random_state).split(rows)
    else:
        n_groups = len(np.unique(data.groups))
        if n_groups < 2:
            raise ParameterError(
                "all rows belong to one group, so cross-validation is impossible; give at least two groups."
            )
        splitter = GroupKFold(min(int(cv), n_groups), shuffle=True, random_state=random_state)
        splits = splitter.split(rows, groups=data.groups)
    return folds_of_splits(splits, data.weights)
