"""Bootstrap confidence interval of any metric, and of the difference between two predictions."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from calibrant.arrays import Float64Array, IntArray
from calibrant.errors import ParameterError
from calibrant.intervals.few_units import (
    few_outcomes,
    few_rows_of_a_class,
    few_units,
    masses,
    rare_rows,
)
from calibrant.intervals.groups import group_numbers
from calibrant.intervals.interval import Interval
from calibrant.intervals.resampling import (
    NO_VALUE,
    BootstrapMethod,
    BootstrapOptions,
    Progress,
    Statistic,
    expanded,
    resampled_interval,
    statistic_of,
    threads_for,
)
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import (
    check_metric,
    describe,
    floor_advice,
    is_declared,
    is_positive_by_noise,
    traits_of,
)
from calibrant.metrics.row_losses import prepared_losses
from calibrant.numerics.cluster_variance import degrees_of_freedom
from calibrant.numerics.row_resampling import RowResampling
from calibrant.options import check_flag

__all__ = ["bootstrap", "paired_bootstrap"]


def bootstrap(
    metric: Callable[..., Any],
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    level: float = 0.95,
    method: BootstrapMethod = "percentile",
    n_resamples: int = 2000,
    stratify: bool = False,
    groups: Any = None,
    uncorrected: bool = False,
    random_state: Any = 0,
    progress: Progress | None = None,
) -> Interval:
    r"""Bootstrap confidence interval of any metric: percentile, BCa or basic.

    Parameters
    ----------
    metric : function
        A metric of this library, with options set by ``functools.partial``, or any function
        ``(y_true, y_proba) -> float``. Such a function is called on the resampled rows, with the labels as they
        were given and an array of probabilities, (n, K), or (n,) if ``y_proba`` is flat. It must accept
        ``sample_weight`` if there are weights.
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Weights of the rows. Rows are drawn with equal probability, whatever their weight.
    level : float, default=0.95
        Confidence level: intended coverage of the interval.
    method : {"percentile", "bca", "basic"}, default="percentile"
        Quantiles of the resampled values; the same corrected for bias and skewness (BCa), which is more accurate for
        smooth metrics :cite:`efron1987`; or the quantiles reflected at the estimate.
    n_resamples : int, default=2000
        Number of resamples.
    stratify : bool, default=False
        Whether to resample within each true class, as if the class frequencies were fixed by design.
    groups : array of shape (n,), optional
        Group of each row, such as the patient. Rows of one group depend on each other, so complete groups are drawn
        (cluster bootstrap) :cite:`field2007`. Without it the interval would be too narrow.
    uncorrected : bool, default=False
        Whether to return the limits of the resamples as they are, also where their coverage is known to be below the
        level, see the notes.
    random_state : int, Generator or None, default=0
        Seed or random generator. The same integer gives the same interval, with any number of threads.
    progress : function, optional
        Called as ``progress(done, n_resamples)`` about a hundred times during the computation, always by the calling
        thread. If it raises an exception, the computation ends, as with an interrupt.

    Returns
    -------
    Interval
        Resamples in which the metric is NaN are left out, with a warning; ``n_undefined`` is their number. If all
        resamples give the same value, the interval has zero width, with a warning. If the estimate lies
        outside the interval, ``excludes_estimate`` is True and the printed sentence says so. Where no interval keeps its
        level both ends are NaN, and ``note`` gives the reason.

    Notes
    -----
    **Biased metrics.** The interval covers sampling error, not bias. A plug-in calibration
    error, such as :func:`~calibrant.metrics.confidence_ece`, includes the noise of its bins, and a resample has twice
    that noise. Near calibration the percentile interval almost always lies above the true error, and
    ``method="basic"`` corrects that only in part. So metrics that are non-negative and positive by noise alone have no
    interval: all plug-in binned errors, ``smooth_ece``, ``miscalibration``, and the cumulative and kernel density errors.
    :doc:`/promises` has the simulated coverage that their intervals would have.

    Use ``partial(debiased_ece, signed=True)`` instead. Its interval is for the *squared* error; the
    roots of its ends, or zero where they are negative, are an interval for the error. To show that there is an error at
    all, use a test of calibration. Means over rows and unbiased metrics, such as
    ``lp_calibration_error`` and ``kernel_calibration_error``, have intervals too.

    **Limits.** Of B resamples the ends are the order statistics :math:`(B + 1) \alpha`, which contain a further resample with the
    given probability :cite:`davison1997`. The quantiles of the resamples, which ``uncorrected=True`` returns, do so in 94.5 % of
    the cases for 400 resamples and a level of 95 %.

    **Few units.** With groups, rare events or fewer than 200 rows, the distances of both ends from the median of the resamples
    are multiplied by :math:`\sqrt{u / (u - 1)}\, t_{u - 1} / z` for u groups, rows or events :cite:`hesterberg2015`; if
    groups or weights are unequal, u is one more than Satterthwaite's degrees of freedom :cite:`bell2002`.
    There is no interval for fewer than five events or effective groups, and where predictions
    expect effectively fewer than five of the less probable outcomes: the size of losses that did not occur is unknown.

    **Metrics with weights that are not counts** (bias-corrected ones) treat a row that was drawn twice as one
    observation of double importance, so pairs of a row with itself do not bring back the bias.

    **Cost.** Drawing costs O(n) per resample, plus one evaluation of the metric with other weights; rows are not copied.
    Proper scores and binned, cumulative and cost errors are prepared once for the fixed predictions, and then
    take microseconds to milliseconds. Other metrics (``ece_sweep``, ``kde_ece``, ``kernel_calibration_error``,
    ``lp_calibration_error``, ``miscalibration``, ``smooth_ece``) and your own functions are recomputed for
    every resample, so an interval costs ``n_resamples`` times the metric. For 10,000 rows and ten classes
    ``kernel_calibration_error``, quadratic in the rows, takes a second or more each time, and half an hour or
    more for 2000 resamples. Time one call first. Then draw fewer resamples (200 suffice for a level of 0.9)
    or pass fewer rows (a quarter of the rows doubles the width), and use ``progress``. BCa needs about 500
    more evaluations for its acceleration, which ``progress`` does not count.

    **Coverage** of means, by simulation, is in :doc:`/promises`. For a difference of losses use :func:`loss_difference`, which
    corrects for skewness.

    Examples
    --------
    >>> from calibrant.metrics import accuracy
    >>> y, p = [0] * 80 + [1] * 20, [[0.9, 0.1]] * 100
    >>> print(bootstrap(accuracy, y, p))
    accuracy(): 0.8, 95 % interval [0.7186, 0.8712] (percentile bootstrap, 100 rows, 2000 resamples)
    """
    check_flag("uncorrected", uncorrected)
    options = BootstrapOptions(level, method, n_resamples, random_state, progress, uncorrected)
    check_metric(metric, sample_weight is not None)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    resampling = _resampling(data, y_true, sample_weight, stratify, groups)
    if not uncorrected and is_positive_by_noise(metric):
        n_groups = None if groups is None else resampling.n_units
        estimate = statistic_of(metric, data, y_proba)(None)
        return _of_biased(
            estimate, metric, options, _method_name(method, stratify, groups), "", data.n_rows, n_groups
        )
    resampled = resampled_interval(
        partial(statistic_of, metric, data, y_proba),
        resampling,
        options,
        threads_for(metric, data.n_rows),
        if_infinite=floor_advice(metric),
    )
    found = resampled.interval(
        options,
        method=_method_name(resampled.method, stratify, groups),
        definition=describe(metric),
        n_rows=data.n_rows,
        n_groups=None if groups is None else resampling.n_units,
    )
    if uncorrected:
        return found
    return _corrected(
        metric, found, [data], _numbers(groups, len(y_true), sample_weight), options, resampled.centre
    )


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
    uncorrected: bool = False,
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
    level, method, n_resamples, stratify, groups, uncorrected, random_state, progress
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
    it for both predictions, though not to the same degree; so there is no interval of a difference either.

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
    check_flag("uncorrected", uncorrected)
    options = BootstrapOptions(level, method, n_resamples, random_state, progress, uncorrected)
    check_metric(metric, sample_weight is not None)
    if higher_is_better is not None:
        check_flag("higher_is_better", higher_is_better)
    first = LabelledPredictions.parse(y_proba_first, y_true, sample_weight)
    second = LabelledPredictions.parse(y_proba_second, y_true, sample_weight)
    resampling = _resampling(first, y_true, sample_weight, stratify, groups)

    def make_difference() -> Statistic:
        of_first = statistic_of(metric, first, y_proba_first)
        of_second = statistic_of(metric, second, y_proba_second)
        return lambda counts: of_second(counts) - of_first(counts)

    if not uncorrected and is_positive_by_noise(metric):
        n_groups = None if groups is None else resampling.n_units
        name = f"paired {_method_name(method, stratify, groups)}"
        estimate = make_difference()(None)
        return _of_biased(estimate, metric, options, name, ", second minus first", first.n_rows, n_groups)

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
    found = resampled.interval(
        options,
        method=f"paired {_method_name(resampled.method, stratify, groups)}",
        definition=f"{describe(metric)}, second minus first",
        n_rows=first.n_rows,
        n_groups=None if groups is None else resampling.n_units,
        probability_second_better=_share_better(resampled.values, higher_is_better),
    )
    if uncorrected:
        return found
    numbers = _numbers(groups, len(y_true), sample_weight)
    return _corrected(metric, found, [first, second], numbers, options, resampled.centre)


def _corrected(
    metric: Callable[..., Any],
    found: Interval,
    samples: list[LabelledPredictions],
    groups: IntArray | None,
    options: BootstrapOptions,
    centre: float,
) -> Interval:
    """Widen an interval of few units, or withdraw it with the reason in its note."""
    if (
        found.note is not None
        or np.isnan(found.low)
        or not np.isfinite(found.estimate)
        or samples[0].n_rows == 1
    ):
        return found
    reason = _why_none(metric, samples, groups)
    if reason is not None:
        nothing = float("nan")
        note = f"no interval, since {reason}"
        return replace(found, low=nothing, high=nothing, probability_second_better=None, note=note)
    n_units = min(_effective_units(samples[0], groups), float(rare_rows(samples[0]) or np.inf))
    low, high = expanded((found.low, found.high), centre, n_units, options.level)
    return replace(found, low=low, high=high)


# Number of rows from which on the correction is below half a per cent.
MANY_ROWS = 200


def _effective_units(data: LabelledPredictions, groups: IntArray | None) -> float:
    """Return one more than the degrees of freedom of the groups, or of the rows if they are few."""
    number = 1 + degrees_of_freedom(masses(data, groups))
    return number if groups is not None or number < MANY_ROWS else np.inf


def _of_biased(
    estimate: float,
    metric: Callable[..., Any],
    options: BootstrapOptions,
    method: str,
    difference: str,
    n_rows: int,
    n_groups: int | None,
) -> Interval:
    """Return the value of a metric that is positive by noise alone, without an interval."""
    nothing = float("nan")
    return Interval(
        estimate=estimate,
        low=nothing,
        high=nothing,
        level=float(options.level),
        method=method,
        definition=f"{describe(metric)}{difference}",
        n_rows=n_rows,
        standard_error=nothing,
        n_groups=n_groups,
        note="no interval, since this metric is positive by noise alone, which resamples repeat; use "
        "partial(debiased_ece, signed=True) or a test of calibration",
    )


def _why_none(
    metric: Callable[..., Any], samples: list[LabelledPredictions], groups: IntArray | None
) -> str | None:
    """Return why no interval of resamples keeps its level; None if one does."""
    data = samples[0]
    reason = few_units(masses(data, groups), "row" if groups is None else "group")
    reason = reason or few_rows_of_a_class(data)
    if reason is None and is_declared(metric):
        losses = prepared_losses(samples[-1].predictions, "brier")
        reason = few_outcomes(data, [one.predictions for one in samples], losses)
    return reason


def _numbers(groups: Any, n_rows: int, sample_weight: Any) -> IntArray | None:
    return None if groups is None else group_numbers(groups, n_rows, sample_weight)


def _share_better(differences: Float64Array, higher_is_better: bool | None) -> float | None:
    if higher_is_better is None or len(differences) == 0:
        return None
    share_above = float((np.sign(differences).mean() + 1) / 2)
    return share_above if higher_is_better else 1 - share_above


def _resampling(
    data: LabelledPredictions, y_true: Any, sample_weight: Any, stratify: bool, groups: Any
) -> RowResampling:
    """Return the resampling scheme for the rows of ``data``."""
    check_flag("stratify", stratify)
    if groups is None:
        return RowResampling(data.n_rows, strata=data.labels if stratify else None)
    if stratify:
        raise ParameterError(
            "stratify draws rows of each class and groups draws complete groups, which cannot be combined; "
            "set stratify=False."
        )
    return RowResampling(data.n_rows, groups=group_numbers(groups, len(y_true), sample_weight))


def _method_name(method: str, stratify: bool, groups: Any) -> str:
    """Return the method in words."""
    return f"{method} bootstrap" + (" by class" if stratify else "" if groups is None else " by group")
