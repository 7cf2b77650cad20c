"""Bootstrap confidence interval of any metric."""

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
from calibrant.metrics.declaration import check_metric, floor_advice
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
        outside the interval, ``excludes_estimate`` is True and the printed sentence says so.

    Notes
    -----
    **Biased metrics.** The interval covers sampling error, not bias. A plug-in calibration
    error, such as :func:`~calibrant.metrics.confidence_ece`, includes the noise of its bins, and a resample has twice
    that noise. Near calibration the percentile interval almost always lies above the true error, and
    ``method="basic"`` corrects that only in part. An interval of the debiased square covers at any error.
    :doc:`/measurements` has the simulated coverage.

    So use ``partial(debiased_ece, signed=True)``. Its interval is for the *squared* error; the
    roots of its ends, or zero where they are negative, are an interval for the error. To show that there is an error at
    all, use a test of calibration.

    The same holds for other metrics that are non-negative and positive by noise alone: ``smooth_ece``,
    ``miscalibration``, ``top_label_ece``, ``top_k_label_ece``, ``classwise_ece``, and to a lesser degree the
    cumulative and kernel density errors. For good predictions the percentile interval of such a metric may lie
    above its own estimate. It is then no interval for the true error; ``excludes_estimate`` is True, and the
    printed sentence says so. Means over rows and unbiased metrics, such as
    ``lp_calibration_error``, ``kernel_calibration_error`` and the signed ``debiased_ece``, are not affected.

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

    **Coverage** of means, by simulation, is in :doc:`/measurements` too: slightly below the level for few rows.

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
