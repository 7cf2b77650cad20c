"""The bootstrap interval of any metric."""

from collections.abc import Callable
from functools import partial
from typing import Any

from calibrant.intervals.drawing import method_name, resampling_of, threads_for
from calibrant.intervals.interval import Interval
from calibrant.intervals.limits import BootstrapMethod
from calibrant.intervals.options import BootstrapOptions, Progress
from calibrant.intervals.resampled_interval import resampled_interval
from calibrant.intervals.statistic import statistic_of
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.accepted_metric import check_metric, floor_advice
from calibrant.metrics.declaration import describe

__all__ = ["bootstrap"]


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
    random_state: Any = 0,
    progress: Progress | None = None,
) -> Interval:
    r"""Interval of any metric, by drawing rows with replacement.

    Parameters
    ----------
    metric : function
        A metric of ours, also with options set by ``functools.partial``, or any function
        ``(y_true, y_proba) -> float``. The latter is called on the resampled rows, with the labels as they
        were given and an array of probabilities, (n, K), or (n,) if ``y_proba`` is flat; it must take
        ``sample_weight`` if there are weights.
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Weights of the rows. What is drawn is a row, whatever its weight.
    level : float, default=0.95
        Share of such intervals that are to contain the true value.
    method : {"percentile", "bca", "basic"}, default="percentile"
        Quantiles of the resampled values; the same moved for bias and skewness, which is more accurate for a
        smooth metric :cite:`efron1987`; or the quantiles reflected at the estimate.
    n_resamples : int, default=2000
        Number of resamples.
    stratify : bool, default=False
        Whether to draw from each true class as many rows as it has, as if the class shares were planned.
    groups : array of shape (n,), optional
        Rows of the same group depend on each other, as those of one patient: whole groups are drawn
        :cite:`field2007`. Without it the interval would be too narrow.
    random_state : int, Generator or None, default=0
        Source of the random numbers. The same integer gives the same interval, with any number of threads.
    progress : function, optional
        Called as ``progress(done, n_resamples)`` about a hundred times on the way, always by the thread that
        called this function. What it raises ends the computation, as an interrupt does.

    Returns
    -------
    Interval
        A warning, and ``n_undefined``, tell of resamples in which the metric is NaN; they are left out. If all
        resamples give the same value, the interval has no width, and a warning says so. If the estimate lies
        outside of the interval, ``excludes_estimate`` is True and the printed sentence says so.

    Notes
    -----
    **Biased metrics.** The interval is about the noise in the value, not about its bias. A plug-in calibration
    error, such as :func:`~calibrant.metrics.confidence_ece`, takes the noise of its bins for error, and in a
    resample there is twice as much of it: near calibration the percentile interval lies above the true error nearly
    always, and ``method="basic"`` cures that only in part; an interval of the debiased square covers at any error.
    :doc:`/measurements` has the simulated shares.

    So use ``partial(debiased_ece, signed=True)``: its interval is one of the *squared* error, and the
    roots of its ends, or zero where they are negative, are one of the error. To show that there is an error at
    all, a test of calibration is made for it.

    The same holds for whatever cannot fall below zero and is above it by noise alone: ``smooth_ece``,
    ``miscalibration``, ``top_label_ece``, ``top_k_label_ece``, ``classwise_ece``, and to a lesser degree the
    cumulative and kernel density errors. For good predictions the percentile interval of such a metric may lie
    above its own estimate; it then says nothing of the true error, ``excludes_estimate`` tells it, and so
    does the printed sentence. Means over rows and the metrics that are unbiased, such as
    ``lp_calibration_error``, ``kernel_calibration_error`` and the signed ``debiased_ece``, do not have this.

    **Metrics with weights that are not counts** (bias-corrected ones) see a row that was drawn twice as one
    observation of double importance, so that pairs of a row with itself do not come back as bias.

    **Cost.** Drawing costs O(n) per resample and the metric what it costs for other weights; rows are not copied.
    Proper scores, binned, cumulative and cost errors prepare once what depends on the predictions alone, and
    take microseconds to milliseconds. The others (``ece_sweep``, ``kde_ece``, ``kernel_calibration_error``,
    ``lp_calibration_error``, ``miscalibration``, ``smooth_ece``) and functions of your own are computed anew for
    every resample, so that an interval costs ``n_resamples`` times the metric. For 10,000 rows and ten classes
    ``kernel_calibration_error``, quadratic in the rows, takes a second or more each time, and half an hour or
    more for 2000 resamples. So time one call first; then draw fewer resamples (200 will do for a level of 0.9),
    or give fewer rows, a quarter of which doubles the width, and watch ``progress``. BCa needs some 500
    evaluations more, for its acceleration, which ``progress`` does not count.

    **Coverage** of means, by simulation, is in :doc:`/measurements` too: a little below the level for few rows.

    Examples
    --------
    >>> from calibrant.metrics import accuracy
    >>> y, p = [0] * 80 + [1] * 20, [[0.9, 0.1]] * 100
    >>> print(bootstrap(accuracy, y, p))
    accuracy(): 0.8, 95 % interval [0.72, 0.87] (percentile bootstrap, 100 rows, 2000 resamples)
    """
    options = BootstrapOptions(level, method, n_resamples, random_state, progress)
    check_metric(metric, sample_weight is not None)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    resampling = resampling_of(data, y_true, sample_weight, stratify, groups)
    resampled = resampled_interval(
        partial(statistic_of, metric, data, y_proba),
        resampling,
        options,
        threads_for(metric, data.n_rows),
        if_infinite=floor_advice(metric),
    )
    return Interval(
        estimate=resampled.estimate,
        low=resampled.limits.low,
        high=resampled.limits.high,
        level=float(level),
        method=method_name(resampled.method, stratify, groups),
        definition=describe(metric),
        n_rows=data.n_rows,
        standard_error=resampled.standard_error,
        n_groups=None if groups is None else resampling.n_units,
        n_resamples=int(n_resamples),
        n_undefined=resampled.n_undefined,
        note=resampled.note,
    )
