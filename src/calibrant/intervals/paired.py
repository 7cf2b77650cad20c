"""Paired bootstrap: confidence interval for the difference of a metric between two predictions of the same rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.intervals.drawing import method_name, resampling_of, threads_for
from calibrant.intervals.interval import Interval
from calibrant.intervals.limits import BootstrapMethod
from calibrant.intervals.options import BootstrapOptions, Progress
from calibrant.intervals.resampled_interval import NO_VALUE, resampled_interval
from calibrant.intervals.statistic import Statistic, statistic_of
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import check_metric, floor_advice
from calibrant.metrics.declaration import describe, is_declared, traits_of
from calibrant.options import check_flag

__all__ = ["paired_bootstrap"]


def paired_bootstrap(
    metric: Callable[..., Any],
    y_true: Any,
    y_proba_first: Any,
    y_proba_second: Any,
    *,
    sample_weight: Any = None,
    level: float = 0.95,
    method: BootstrapMethod = "percentile",
    n_resamples: int = 2000,
    stratify: bool = False,
    groups: Any = None,
    higher_is_better: bool | None = None,
    random_state: Any = 0,
    progress: Progress | None = None,
) -> Interval:
    r"""Paired bootstrap interval of metric(second) - metric(first), with the same resampled rows for both.

    Most of the variation between rows cancels in the difference, so its interval is far narrower than
    the intervals of the two values. Overlapping intervals do not show that the difference is not significant.

    Parameters
    ----------
    metric : function
        A metric of this library, with options set by ``functools.partial``, or any function
        ``(y_true, y_proba) -> float``, see :func:`bootstrap`.
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba_first, y_proba_second : array, frame or Predictions
        Two predictions of the same rows, for example before and after calibration.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    level, method, n_resamples, stratify, groups, random_state, progress
        As for :func:`bootstrap`.
    higher_is_better : bool, optional
        Whether a larger value is better; known for the metrics of this library.

    Returns
    -------
    Interval
        ``estimate`` is negative if the second predictions have the smaller value, which for a loss is
        better. ``probability_second_better`` is the fraction of resamples in which the second were better, ties
        counted half, and None if it is unknown which values are better.

    Notes
    -----
    For the mean of a loss over rows, :func:`loss_difference` gives the interval in closed form. Costs two
    evaluations of the metric per resample. A metric with an upward bias (see the notes of :func:`bootstrap`) has
    it for both predictions, though not to the same degree.

    If the metric is infinite for both predictions, as :func:`~calibrant.metrics.log_loss` is if true classes
    had probability zero, their difference is undefined; use ``partial(log_loss, floor=1e-6)``.

    Examples
    --------
    >>> from calibrant.metrics import brier_score
    >>> y, blunt, sharp = [0, 1] * 50, [[0.5, 0.5]] * 100, [[0.7, 0.3], [0.4, 0.6]] * 50
    >>> interval = paired_bootstrap(brier_score, y, blunt, sharp, n_resamples=200)
    >>> round(interval.estimate, 6), interval.high < 0, interval.probability_second_better
    (-0.125, True, 1.0)
    """
    options = BootstrapOptions(level, method, n_resamples, random_state, progress)
    check_metric(metric, sample_weight is not None)
    if higher_is_better is not None:
        check_flag("higher_is_better", higher_is_better)
    first = LabelledPredictions.parse(y_proba_first, y_true, sample_weight)
    second = LabelledPredictions.parse(y_proba_second, y_true, sample_weight)
    resampling = resampling_of(first, y_true, sample_weight, stratify, groups)

    def make_difference() -> Statistic:
        of_first = statistic_of(metric, first, y_proba_first)
        of_second = statistic_of(metric, second, y_proba_second)
        return lambda counts: of_second(counts) - of_first(counts)

    def why_undefined() -> str:
        both = [
            statistic_of(metric, data, y)(None)
            for data, y in ((first, y_proba_first), (second, y_proba_second))
        ]
        if not np.isinf(both).all():
            return NO_VALUE
        return (
            f"{describe(metric)} is infinite for both predictions, so their difference is "
            f"undefined{floor_advice(metric)}"
        )

    resampled = resampled_interval(
        make_difference,
        resampling,
        options,
        threads_for(metric, first.n_rows),
        why_undefined,
        floor_advice(metric),
    )
    if higher_is_better is None and is_declared(metric):
        higher_is_better = traits_of(metric).higher_is_better
    return Interval(
        estimate=resampled.estimate,
        low=resampled.limits.low,
        high=resampled.limits.high,
        level=float(level),
        method=f"paired {method_name(resampled.method, stratify, groups)}",
        definition=f"{describe(metric)}, second minus first",
        n_rows=first.n_rows,
        standard_error=resampled.standard_error,
        n_groups=None if groups is None else resampling.n_units,
        n_resamples=int(n_resamples),
        n_undefined=resampled.n_undefined,
        probability_second_better=_share_better(resampled.values, higher_is_better),
        note=resampled.note,
    )


def _share_better(differences: NDArray[np.float64], higher_is_better: bool | None) -> float | None:
    if higher_is_better is None or len(differences) == 0:
        return None
    share_above = float((np.sign(differences).mean() + 1) / 2)
    return share_above if higher_is_better else 1 - share_above
