"""Compare methods by cross-validation and choose one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from calibrant.arrays import IntArray
from calibrant.calibrator import Calibrator
from calibrant.comparison import UNCALIBRATED, Comparison, MethodResult, compare
from calibrant.intervals import Interval, loss_difference
from calibrant.notices import held_back
from calibrant.numerics.fit_error import FEW_MISTAKES, FitMargins
from calibrant.predictions import Predictions
from calibrant.presentation import counted
from calibrant.registry import make
from calibrant.report.evaluation_set import EvaluationSet, random_rows_by_class
from calibrant.space import Space

__all__ = [
    "NEGLIGIBLE_GAIN",
    "MethodSelection",
    "baseline_of",
    "baseline_text",
    "default_methods",
    "has_infinite_loss",
    "most_rows",
    "select_method",
]

Methods = Sequence[str | Calibrator]
LOSSES: tuple[Literal["log", "brier"], ...] = ("log", "brier")

# Methods that take about a second per million probabilities, and the limits of probabilities and rows for fast and slow ones.
QUICK = frozenset(
    {UNCALIBRATED, "temperature", "platt", "beta", "isotonic", "frequency-binning", "width-binning"}
)
QUICK_NUMBERS = 2_000_000
SLOW_ROWS, SLOW_NUMBERS = 10_000, 5_000_000

# Relative change of the loss that is negligible.
NEGLIGIBLE_GAIN = 0.005

# With fewer rows no gain can be distinguished from noise.
FEWEST_ROWS = 20

ROWS_FOR_ISOTONIC = 1000
MOST_CLASSES_OF_MATRIX, MOST_CLASSES_OF_DIRICHLET, MOST_CLASSES_OF_VECTOR = 30, 5, 100


@dataclass(frozen=True, eq=False)
class MethodSelection:
    """Result of the comparison of methods.

    Gains are measured on held-out rows. Their intervals are valid for all methods simultaneously and for the map fitted to all
    rows; with fewer than ten misclassified rows there is none, and both ends are NaN.
    """

    rows: EvaluationSet  # on which methods were compared: all, or a sample that keeps rare classes
    reason: str = ""  # why no method was tried; empty if one was
    comparison: Comparison | None = None  # None if no method could be tried
    chosen: MethodResult | None = None  # the simplest method within one standard error of the lowest log-loss
    calibrator: str | Calibrator | None = None  # the chosen method as the user gave it
    near_best: tuple[str, ...] = ()  # other methods within one standard error
    gain: Interval | None = None  # log-loss of the chosen method minus that of the uncalibrated predictions
    brier: Interval | None = None  # the same for the Brier score
    has_gain: bool = False  # whether the gain in log-loss is significant
    is_recommended: bool = False  # whether the chosen method is recommended; see select_method
    after: EvaluationSet | None = None  # all measured rows with out-of-sample calibrated probabilities

    @property
    def is_significant(self) -> bool:
        """Whether the gain in log-loss is significant, and misclassified rows bound the confidence."""
        return self.has_gain and not self.makes_no_mistakes

    @property
    def makes_no_mistakes(self) -> bool:
        """Whether no row is misclassified after calibration, so that the data do not bound the confidence."""
        return self.after is not None and bool(self.after.hits.all())

    @property
    def n_methods(self) -> int:
        """Number of methods that were compared with the uncalibrated predictions."""
        return 0 if self.comparison is None else len(self.comparison.measured) - 1


def default_methods(n_rows: int, n_classes: int) -> list[str]:
    """Return the default set of fast methods for a number of rows and classes, the simplest first.

    >>> default_methods(500, 2), default_methods(5000, 3), default_methods(50_000, 1000)[-1]
    (['temperature', 'platt', 'beta'], ['temperature', 'shared-vector', 'shared-matrix', 'dirichlet-l2'], 'shared-map')
    """
    if n_classes == 2:
        names = ["temperature", "platt", "beta"]
        return [*names, "isotonic"] if n_rows >= ROWS_FOR_ISOTONIC else names
    if n_classes > MOST_CLASSES_OF_VECTOR:
        return ["temperature", "shared-map"]
    names = ["temperature", "shared-vector"]
    if n_classes <= MOST_CLASSES_OF_MATRIX:
        names.append("shared-matrix")
    if n_classes <= MOST_CLASSES_OF_DIRICHLET:
        names.append("dirichlet-l2")
    return names


def reason_not_to_fit(rows: EvaluationSet) -> str:
    """Return the reason why no method can be fitted to these rows; empty if there is none."""
    if rows.n_rows < FEWEST_ROWS:
        verb = "is" if rows.n_rows == 1 else "are"
        return f"{counted(rows.n_rows, 'row')} {verb} too few to fit and evaluate a method; at least {FEWEST_ROWS} are needed"
    if rows.n_present < 2:
        return "all rows have the same true class, so calibrators of the other classes cannot be fitted"
    if rows.n_groups is not None and rows.n_groups < 2:
        return "all rows belong to one group, so cross-validation is impossible"
    return ""


def select_method(
    rows: EvaluationSet,
    methods: Methods | None,
    cv: Any,
    level: float,
    random_state: int,
    progress: Callable[[int, int, str], object] | None,
    *,
    may_sample: bool = True,
    small_error: bool = False,
) -> MethodSelection:
    """Compare methods by cross-validation, choose one, and measure its gain on all rows.

    Fast methods get all rows, others a sample that keeps rare classes. The chosen method, fitted to the sample, calibrates the
    remaining rows, so all calibrated rows are held out. The method is recommended if the interval of its gain, adjusted for
    the number of methods, is above zero. If the log-loss is infinite because a true class had probability zero, the method is
    recommended if the Brier score falls significantly. If the tests show only a ``small_error``, the gain must also be at least
    0.5 % of the log-loss. If fewer than ten rows are misclassified, the interval is not valid: it is not given, and the tests
    must show more than a small error.
    """
    chosen_methods = default_methods(rows.n_rows, rows.n_classes) if methods is None else list(methods)
    limit = most_rows(chosen_methods, rows.n_classes) if may_sample else rows.n_rows
    drawn, sample = random_rows_by_class(rows, limit, random_state)
    names = {str(method): method for method in chosen_methods if str(method) != UNCALIBRATED}
    reason = reason_not_to_fit(sample) or ("" if names else "no methods were given")
    if reason:
        return MethodSelection(sample, reason)
    comparison = compare(
        sample.labels,
        sample.predictions,
        chosen_methods,
        sample_weight=sample.weights,
        groups=sample.groups,
        cv=cv,
        level=level,
        refit=drawn is not None,
        random_state=random_state,
        progress=progress,
    )
    ordered = [comparison.result(name) for name in names]
    fitted = [result for result in ordered if not result.failed and np.isfinite(result.scores["log_loss"])]
    if not fitted:
        return MethodSelection(sample, "every method failed", comparison)
    near_best = _within_one_standard_error(comparison, fitted)
    chosen = near_best[0]
    assert chosen.predictions is not None
    after = rows.with_predictions(chosen.predictions) if drawn is None else _all_rows(rows, drawn, chosen)
    gain, brier = (
        _with_fit_error(
            loss_difference(
                rows.labels,
                baseline_of(rows) if loss == "log" else rows.predictions,
                after.predictions,
                loss=loss,
                sample_weight=rows.weights,
                groups=rows.groups,
                level=1 - (1 - level) / (len(comparison.measured) - 1),
            ),
            loss,
            sample,
            names[chosen.name],
            chosen.predictions,
        )
        for loss in LOSSES
    )
    # With few mistakes the intervals are not valid, but the tests of calibration are.
    n_mistakes = int(np.count_nonzero(~sample.hits))
    is_certain = n_mistakes >= FEW_MISTAKES or not small_error
    has_gain = gain.high < 0 and is_certain
    is_large_enough = not small_error or -gain.estimate >= NEGLIGIBLE_GAIN * rows.data.log_loss(
        baseline_of(rows)
    )
    is_recommended = (has_gain and is_large_enough) or (
        has_infinite_loss(rows) and brier.high < 0 and is_certain
    )
    if n_mistakes < FEW_MISTAKES:
        gain, brier = (_without_ends(interval, n_mistakes, sample) for interval in (gain, brier))
    return MethodSelection(
        sample,
        comparison=comparison,
        chosen=chosen,
        calibrator=names[chosen.name],
        near_best=tuple(result.name for result in near_best[1:]),
        gain=gain,
        brier=brier,
        has_gain=has_gain,
        is_recommended=is_recommended,
        after=after,
    )


def _with_fit_error(
    difference: Interval,
    loss: Literal["log", "brier"],
    sample: EvaluationSet,
    method: str | Calibrator,
    held_out: Predictions,
) -> Interval:
    """Return the interval for the fitted map, with the error of what fitting costs."""
    calibrator = make(method) if isinstance(method, str) else clone(method)
    with held_back():
        fitted = calibrator.fit_labelled(sample.data, warn_of_absent=False)
    own, other = (
        sample.mean(sample.data.row_losses(loss, each))
        for each in (fitted.transform(sample.predictions), held_out)
    )
    n_units = sample.n_rows if sample.n_groups is None else sample.n_groups
    margins = FitMargins.of(other - own, n_units, difference.level)
    value = difference.estimate
    return replace(
        difference,
        low=value - float(np.hypot(value - difference.low, margins.above)),
        high=value + float(np.hypot(difference.high - value, margins.below)),
        method=f"{difference.method} with the variance of the fit",
    )


def _without_ends(difference: Interval, n_mistakes: int, sample: EvaluationSet) -> Interval:
    mistakes, verb = counted(n_mistakes, "misclassified row"), "is" if n_mistakes == 1 else "are"
    note = f"no interval: {mistakes} among {counted(sample.n_rows, 'row')} {verb} too few for one"
    return replace(difference, low=np.nan, high=np.nan, p_value=None, note=note)


def most_rows(methods: Methods, n_classes: int) -> int:
    """Return the limit of rows for these methods: a million for two classes, ten thousand if one of the methods is slow.

    >>> most_rows(["temperature", "platt"], 2), most_rows(["temperature", "shared-vector"], 3)
    (1000000, 10000)
    """
    if all(isinstance(method, str) and method in QUICK for method in methods):
        return max(1, QUICK_NUMBERS // n_classes)
    return max(1, min(SLOW_ROWS, SLOW_NUMBERS // n_classes))


def _within_one_standard_error(comparison: Comparison, fitted: list[MethodResult]) -> list[MethodResult]:
    """Return the methods within one standard error (of the paired difference) of the best, in order."""
    best = min(fitted, key=lambda result: result.scores["log_loss"])
    near_best = []
    for result in fitted:
        gap = comparison.difference(best.name, result.name)
        if result is best or gap.estimate <= gap.standard_error:
            near_best.append(result)
    return near_best


def _all_rows(rows: EvaluationSet, sample_numbers: IntArray, chosen: MethodResult) -> EvaluationSet:
    """Return all rows with out-of-sample calibrated probabilities."""
    assert chosen.calibrator is not None
    assert chosen.predictions is not None
    probabilities = np.empty(rows.predictions.scores.shape, rows.predictions.scores.dtype)
    others = np.ones(rows.n_rows, dtype=np.bool_)
    others[sample_numbers] = False
    probabilities[sample_numbers] = chosen.predictions.probabilities
    probabilities[others] = chosen.calibrator.transform(rows.predictions.take(others)).probabilities
    probabilities.setflags(write=False)
    return rows.with_predictions(Predictions(probabilities, Space.PROBABILITIES))


def has_infinite_loss(rows: EvaluationSet) -> bool:
    """Return whether the log-loss is infinite because a true class had probability zero."""
    return not np.isfinite(rows.data.log_loss())


def baseline_of(rows: EvaluationSet) -> Predictions:
    """Return the uncalibrated predictions; if their log-loss is infinite, with zeros raised to the floor and renormalised.

    :func:`~calibrant.comparison.compare` has the same baseline.
    """
    return rows.predictions.without_zeros() if has_infinite_loss(rows) else rows.predictions


def baseline_text(rows: EvaluationSet) -> str:
    """Return the name of the predictions that :func:`baseline_of` returns."""
    if not has_infinite_loss(rows):
        return "the uncalibrated predictions"
    return f"the uncalibrated predictions with zeros raised to the floor, {rows.predictions.floor:.2g}"
