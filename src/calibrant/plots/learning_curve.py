"""Learning curve: loss on held-out rows by size of the calibration set, its extrapolation and its plot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from calibrant.arrays import AnyArray, IntArray, Vector
from calibrant.calibrator import Calibrator
from calibrant.comparison.compare import random_folds
from calibrant.errors import ParameterError
from calibrant.intervals import bootstrap, loss_difference, paired_bootstrap
from calibrant.intervals.groups import group_numbers
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import brier_score, log_loss, spherical_loss
from calibrant.metrics.declaration import check_metric, describe, evaluator
from calibrant.metrics.row_losses import Loss
from calibrant.notices import gathered
from calibrant.numerics.folds import Fold
from calibrant.options import check_level, is_whole, random_source
from calibrant.plots.display import PredictionDisplay, new_axes
from calibrant.plots.style import DIAGONAL, label_axes, legend_above, look, write_caption
from calibrant.predictions import Predictions
from calibrant.presentation.sentences import counted
from calibrant.registry import make
from calibrant.shared_parameters import documented
from calibrant.space import Space
from calibrant.tabular import Tabular, stacked_columns

__all__ = ["LearningCurve", "LearningCurveDisplay", "learning_curve"]


# Sizes smaller than the largest by more than this factor are not fitted.
MAX_SIZE_RATIO = 8

# Relative rounding error of a loss.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Hyperbola:
    r"""The loss a + b / n: the asymptotic excess loss of a model with a fixed number of parameters and n rows."""

    asymptote: float  # a, not negative
    slope: float  # b, not negative: on average losses do not increase with n
    covariance: Vector  # (2, 2) of a and b; infinite for fewer than three points

    @classmethod
    def through(cls, sizes: IntArray, losses: Vector) -> Self:
        """Fit by least squares with weights n to sizes of at least an eighth of the largest, since the law is asymptotic.

        Infinite and missing losses are dropped, and so are sizes from which the loss falls faster than the law allows: by
        more than a factor m if the number of rows grows by m.

        >>> fitted = Hyperbola.through(np.array([10, 20, 40]), np.array([0.6, 0.55, 0.525]))
        >>> round(fitted.asymptote, 6), round(fitted.slope, 6)
        (0.5, 1.0)
        """
        known = np.isfinite(losses)
        if known.any():
            known &= MAX_SIZE_RATIO * sizes >= sizes[known].max()
        n, y = sizes[known].astype(np.float64), losses[known]
        # For the remaining points n y increases with n, so a, the slope of n y on n, is non-negative up to rounding.
        too_steep = np.flatnonzero(n[:-1] * y[:-1] > n[1:] * y[1:] * (1 + ROUNDING))
        if len(too_steep) and y.min() >= 0:
            n, y = n[too_steep[-1] + 1 :], y[too_steep[-1] + 1 :]
        unknown = np.diag([np.inf, np.inf])
        if len(n) == 0:
            return cls(np.nan, np.nan, unknown)
        shares, inverse = n / n.sum(), 1 / n
        centred = shares * (inverse - shares @ inverse)
        slope = float(max(centred @ y / (centred @ inverse), 0.0)) if len(n) > 1 else 0.0
        asymptote = max(float(shares @ (y - slope * inverse)), min(float(y.min()), 0.0))
        if len(n) < 3:
            return cls(asymptote, slope, unknown)
        scale = float(n @ (y - asymptote - slope * inverse) ** 2) / (len(n) - 2)
        if slope == 0:
            return cls(asymptote, slope, np.diag([scale / n.sum(), 0.0]))
        design = np.column_stack([np.ones_like(inverse), inverse])
        information = design.T @ (n[:, np.newaxis] * design)
        return cls(asymptote, slope, scale * np.linalg.inv(information).astype(np.float64))

    @property
    def is_supported(self) -> bool:
        """Whether at least three points follow the law, with b either above two standard errors or zero."""
        error = float(np.sqrt(self.covariance[1, 1]))
        return bool(np.isfinite(error)) and (self.slope == 0 or self.slope > 2 * error)

    def __call__(self, n_rows: float) -> tuple[float, float]:
        """Return the loss for a number of rows, and its standard error."""
        variance = (
            self.covariance[0, 0] + 2 * self.covariance[0, 1] / n_rows + self.covariance[1, 1] / n_rows**2
        )
        return self.asymptote + self.slope / n_rows, float(np.sqrt(max(variance, 0.0)))


# Metrics whose differences have an interval in closed form.
ROW_LOSSES: dict[Callable[..., Any], Loss] = {
    log_loss: "log",
    brier_score: "brier",
    spherical_loss: "spherical",
}

N_RESAMPLES = 500

# Smallest default size, and number of default sizes.
MIN_ROWS, MAX_SIZES = 20, 6


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
    sizes: IntArray
    loss: Vector
    low: Vector
    high: Vector
    difference_low: Vector
    difference_high: Vector
    uncalibrated: float
    notes: tuple[str, ...]
    trend: Hyperbola

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per size of the calibration set."""
        names = ("loss", "low", "high", "difference_low", "difference_high")
        uncalibrated = np.full(len(self.sizes), self.uncalibrated)
        values = {name: getattr(self, name) for name in names}
        return {"size": self.sizes, **values, "uncalibrated": uncalibrated}

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


@documented
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
    evaluation = _Evaluation(held_out, tests, metric, level)
    uncalibrated = evaluation.value(given)
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
            points.append(
                evaluation(given, _joined(parts, data)) if len(parts) == len(folds) else (np.nan,) * 5
            )
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


class _Evaluation:
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


def _sizes(sizes: Sequence[int] | None, n_train: int, n_classes: int) -> IntArray:
    """Return the sizes of the calibration set, in increasing order."""
    if sizes is None:
        halved = [n_train >> power for power in range(MAX_SIZES)]
        enough = max(MIN_ROWS, 2 * n_classes)
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


def _nested_order(labels: IntArray, generator: np.random.Generator) -> IntArray:
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


# Factor by which the curve is extrapolated.
EXTRAPOLATION_FACTOR = 4

# The axis ends this many gains above the uncalibrated loss.
MAX_GAINS_ABOVE = 1.0


class LearningCurveDisplay(PredictionDisplay):
    """Learning curves: loss on held-out rows by size of the calibration set, for one or several methods.

    Similar to figures 3b and 3c of :cite:`tomani2022`. Bars are intervals of the paired difference to the uncalibrated
    predictions: the gain is significant if the bar is below the dashed line. The dotted extrapolation is a + b / n.

    Parameters
    ----------
    curves : dict of str to LearningCurve
        Name of the method -> curve.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.05, 0.95, 300)
    >>> y = (rng.random(300) < p).astype(int)
    >>> display = LearningCurveDisplay.from_predictions(y, p, method=["temperature", "beta"], sizes=(60, 240))
    >>> display.columns()["method"].tolist()
    ['temperature', 'temperature', 'beta', 'beta']
    """

    def __init__(self, curves: Mapping[str, LearningCurve]) -> None:
        if not curves:
            raise ParameterError("there is no curve to plot; pass at least one method.")
        self.curves = dict(curves)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        method: str | Calibrator | Sequence[str | Calibrator] = "auto",
        sizes: Sequence[int] | None = None,
        cv: Any = 5,
        sample_weight: Any = None,
        groups: Any = None,
        metric: Callable[..., float] = log_loss,
        level: float = 0.95,
        random_state: int | np.random.Generator | None = 0,
        progress: Callable[[int, int, str], object] | None = None,
    ) -> Self:
        """Create the display from predictions and true classes; see :func:`~calibrant.plots.learning_curve`.

        ``method`` may be a list of methods.
        """
        methods = [method] if isinstance(method, str | Calibrator) else list(method)
        curves = [
            learning_curve(
                y_true,
                y_proba,
                method=one,
                sizes=sizes,
                cv=cv,
                sample_weight=sample_weight,
                groups=groups,
                metric=metric,
                level=level,
                random_state=random_state,
                progress=progress,
            )
            for one in methods
        ]
        return cls({curve.method: curve for curve in curves})

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per size of the calibration set; for several methods with a column ``method``."""
        return stacked_columns("method", self.curves)

    def plot(self, ax: Any = None) -> Self:
        self.ax_, self.figure_ = new_axes(ax, (5.6, 4.6))
        axes, first = self.ax_, next(iter(self.curves.values()))
        several = len(self.curves) > 1
        for number, (name, curve) in enumerate(self.curves.items()):
            colour, marker = look(number)
            # Shift the bars of several methods, so that they do not overlap.
            x = curve.sizes * 1.03 ** (number - (len(self.curves) - 1) / 2)
            axes.plot(
                x, curve.loss, color=colour, marker=marker, markersize=5, linewidth=1.6, label=name, zorder=4
            )
            axes.errorbar(
                x,
                (curve.low + curve.high) / 2,
                yerr=(curve.high - curve.low) / 2,
                fmt="none",
                ecolor=colour,
                elinewidth=1.0,
                capsize=3,
                alpha=0.7 if several else 1.0,
                zorder=3,
            )
            self._continuation(curve, colour)
        off = self._limit_height()
        axes.axhline(first.uncalibrated, label="uncalibrated", **DIAGONAL)
        axes.set_xscale("log")
        ticks = np.unique(np.concatenate([curve.sizes for curve in self.curves.values()]))
        ticks = np.append(ticks[-6:], EXTRAPOLATION_FACTOR * ticks[-1])
        axes.set_xticks(ticks, labels=[f"{tick:,.0f}" for tick in ticks])
        axes.minorticks_off()
        label_axes(axes, "size of the calibration set", f"{first.metric.partition('(')[0]} on held-out rows")
        legend_above(axes, axes.get_legend_handles_labels()[0], n_columns=3 if several else 2)
        write_caption(
            axes,
            f"Bars: {100 * first.level:g} % intervals of the loss; all points have the same held-out rows, so that "
            "differences along a curve are more precise than the bars. Dotted: extrapolation a + b / n."
            + (" Arrows: losses above the axis." if off else ""),
        )
        return self

    def _limit_height(self) -> bool:
        """Limit the axis so that losses far above the uncalibrated one do not compress the others; return whether any are."""
        losses = np.concatenate([curve.loss for curve in self.curves.values()])
        finite = losses[np.isfinite(losses)]
        level = next(iter(self.curves.values())).uncalibrated
        if len(finite) == 0 or not np.isfinite(level):
            return False
        limit = level + MAX_GAINS_ABOVE * max(level - finite.min(), 0.1 * abs(level), 1e-6)
        if finite.max() <= limit:
            return False
        for number, curve in enumerate(self.curves.values()):
            above = curve.sizes[curve.loss > limit]
            self.ax_.plot(
                above,
                np.full(len(above), 0.98),
                "^",
                transform=self.ax_.get_xaxis_transform(),
                color=look(number)[0],
            )
        lows = np.concatenate([curve.low[np.isfinite(curve.low)] for curve in self.curves.values()])
        lowest = min(finite.min(), lows.min(initial=finite.min()))
        self.ax_.set_ylim(lowest - 0.05 * (limit - lowest), limit)
        return True

    def _continuation(self, curve: LearningCurve, colour: str) -> None:
        """Draw the extrapolation to more rows, if the points support it."""
        if not curve.trend.is_supported:
            return
        sizes = np.geomspace(curve.sizes[-1], EXTRAPOLATION_FACTOR * curve.sizes[-1], 30)
        expected = [curve.expected(float(size)) for size in sizes]
        self.ax_.plot(sizes, [loss for loss, _ in expected], color=colour, linestyle=":", linewidth=1.4)
