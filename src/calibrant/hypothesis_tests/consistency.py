"""Consistency resampling test: a metric compared with its values for labels drawn from the predictions."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from calibrant.arrays import Float64Array
from calibrant.errors import ParameterError
from calibrant.hypothesis_tests.result import TestResult
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.binned_metric import PreparedMetric
from calibrant.metrics.declaration import (
    check_metric,
    describe,
    evaluator,
    is_declared,
    is_two_sided,
    traits_of,
    with_one_number,
)
from calibrant.numerics.label_sampling import LabelSampler
from calibrant.options import check_whole, random_source

__all__ = ["consistency_test"]

Alternative = Literal["auto", "greater", "less", "two-sided"]
PValue = Literal["valid", "share"]

# Relative tolerance for values that are equal except for the order of summation.
TIE_TOLERANCE = 1e-12

TAILS = {
    "greater": "upper tail",
    "less": "lower tail",
    "two-sided": "both tails",
}


def consistency_test(
    metric: Callable[..., float],
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    n_resamples: int = 10_000,
    random_state: int | np.random.Generator | None = 0,
    alternative: Alternative = "auto",
    p_value: PValue = "valid",
    progress: Callable[[int, int], object] | None = None,
) -> TestResult:
    r"""Test calibration with any metric, by consistency resampling (labels drawn from the predictions).

    If the predictions are calibrated, labels drawn from the predicted probabilities have the same distribution as
    the true ones, as far as the metric depends on them. With metric values :math:`m_r` for R such sets of labels and
    the observed value :math:`m`,

    .. math:: p = \frac{1 + \#\{r : m_r \ge m\}}{1 + R}.

    These are the consistency bars of :cite:`broecker2007`, the test of :cite:`vaicenavicius2019` and, with
    binned errors, the p-conf-ECE and p-cw-ECE of :cite:`kull2019`.

    Parameters
    ----------
    metric : function
        A metric of this library, a ``functools.partial`` of one that sets its options, or any function
        ``(y_true, y_proba) -> float`` that takes labels and an array (n, K) of probabilities and returns one
        number. If there are weights, it is called with ``sample_weight=`` too.
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Weights, passed on to the metric. A row of weight two is one observation of double importance: one label
        is drawn for it.
    n_resamples : int, default=10_000
        Number of sets of labels, R.
    random_state : int, Generator or None, default=0
        Seed of the draws; None for a random seed. The first 1,000 of 10,000 sets are the same as in a run with
        1,000.
    alternative : {"auto", "greater", "less", "two-sided"}, default="auto"
        Which values are evidence against calibration. ``"auto"`` is two-sided for metrics that underconfidence makes
        better than the predictions imply: proper scores, accuracy, ``realised_cost``, ``overconfidence``,
        ``underconfidence`` and ``cost_gap`` with ``signed=True``. For other metrics it is ``"less"`` if higher is better,
        and ``"greater"`` otherwise, which includes all calibration errors and your own functions.
    p_value : {"valid", "share"}, default="valid"
        ``"valid"``: as above, which rejects a true hypothesis at most at the nominal level, for any R.
        ``"share"``: the fraction of :math:`m_r` above :math:`m`, ties counting half, as printed by the programs behind
        published tables. It can be 0, which a finite number of draws does not justify.
    progress : function, optional
        Called as ``progress(done, n_resamples)`` about a hundred times during the computation.

    Returns
    -------
    TestResult
        With the Monte-Carlo standard error of the p-value :math:`\sqrt{p (1 - p) / R}`, and the mean and 95 %
        quantile of the metric under calibration. The quantile is the 5 % one for ``"less"``; two-sided tests have the
        2.5 and 97.5 % quantiles in ``null_range``. An ECE of 0.01, for example, is not evidence if calibrated predictions
        have an ECE of 0.012 on average.

    Notes
    -----
    The null hypothesis covers what the metric depends on. Labels are drawn as if all probabilities were calibrated. A
    metric that depends only on a part of them, such as :func:`~calibrant.metrics.confidence_ece` on the confidence
    and on the correctness of the predicted class, is not affected by the rest, so the hypothesis is that this part is
    calibrated. For a metric of complete vectors it is canonical calibration. A small p-value shows that the
    predictions are miscalibrated, not by how much: with many rows, negligible errors are significant.

    A metric of this library is prepared once for the fixed predictions. After that a draw costs about 10 ns per row,
    and a binned error or proper score not much more: seconds for 10,000 resamples of 10,000 rows.
    Any other function is called R + 1 times. Tables for the draws take 5 to 6 bytes per probability.

    The p-conf-ECE in table 19 of the supplement of :cite:`kull2019` is the fraction of 1,000 draws for *ten* bins,
    not the fifteen of its other tables; the p-cw-ECE in table 20 is that of 10,000 draws for its usual bins.

    A metric may be NaN for some labels, as :func:`~calibrant.metrics.overconfidence` is if no row is wrong.
    Such sets of drawn labels are left out (``n_undefined`` is their number), and R is the number of the others. The
    observed value is then compared with calibrated predictions *for which the metric is defined*. The level remains
    valid: given that the observed value exists, it has the same distribution as the draws that are kept. Counting
    undefined draws as extreme would be valid as well, but if half of them are undefined no p-value could fall below
    one half. If none has a value, p is 1.

    Examples
    --------
    Nine of ten correct at a confidence of 60 %. With calibrated predictions nine or ten are correct with
    probability :math:`10 \cdot 0.6^9 \cdot 0.4 + 0.6^{10} = 0.046`, and three or fewer with 0.055.

    >>> from calibrant.metrics import confidence_ece
    >>> result = consistency_test(confidence_ece, [0] * 9 + [1], [[0.6, 0.4]] * 10, n_resamples=2000)
    >>> round(result.statistic, 6), round(result.p_value, 1)
    (0.3, 0.1)
    """
    return consistency_tests(
        [metric],
        y_true,
        y_proba,
        sample_weight=sample_weight,
        n_resamples=n_resamples,
        random_state=random_state,
        alternative=alternative,
        p_value=p_value,
        progress=progress,
    )[0]


# Numbers of drawn labels at a time, so that they stay in the cache.
LABELS_AT_A_TIME = 2**15


def consistency_tests(
    metrics: Sequence[Callable[..., float]],
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    n_resamples: int = 10_000,
    random_state: int | np.random.Generator | None = 0,
    alternative: Alternative = "auto",
    p_value: PValue = "valid",
    progress: Callable[[int, int], object] | None = None,
) -> list[TestResult]:
    """Return :func:`consistency_test` of several metrics, which share the drawn labels."""
    for metric in metrics:
        check_metric(metric, weighted=sample_weight is not None)
    _check_options(n_resamples, alternative, p_value, progress)
    # Twice as fast as numpy's default; most of the time of a draw is spent on random numbers.
    generator = random_source(random_state, np.random.SFC64)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    evaluators = [evaluator(with_one_number(metric), data) for metric in metrics]
    observed = [evaluate(data.labels, data.weights) for evaluate in evaluators]
    for metric, value in zip(metrics, observed, strict=True):
        if np.isnan(value):
            raise ParameterError(
                f"{describe(metric)} is NaN for these rows, so it cannot be tested; "
                "choose a metric that is defined for them."
            )
    sampler = LabelSampler(data.predictions.probabilities)
    simulated = np.empty((len(metrics), n_resamples))
    step = max(1, n_resamples // 100)
    at_a_time = step if progress is not None else n_resamples
    at_a_time = max(1, min(at_a_time, LABELS_AT_A_TIME // data.n_rows))
    for start in range(0, n_resamples, at_a_time):
        done = min(start + at_a_time, n_resamples)
        labels = sampler.draw(generator, done - start)
        for values, evaluate in zip(simulated, evaluators, strict=True):
            if data.weights is None and isinstance(evaluate, PreparedMetric):
                values[start:done] = evaluate.many(labels)
            else:
                values[start:done] = [evaluate(each, data.weights) for each in labels]
        if progress is not None and (done // step > start // step or done == n_resamples):
            progress(done, n_resamples)
    return [
        _result(metric, value, values, data.n_rows, alternative, p_value)
        for metric, value, values in zip(metrics, observed, simulated, strict=True)
    ]


def _result(
    metric: Callable[..., float],
    observed: float,
    simulated: Float64Array,
    n_rows: int,
    alternative: Alternative,
    p_value: PValue,
) -> TestResult:
    tail = _chosen_tail(metric) if alternative == "auto" else alternative
    defined = simulated[~np.isnan(simulated)]
    p = _p_value(defined, observed, tail, p_value) if len(defined) else 1.0
    return TestResult(
        statistic=observed,
        p_value=p,
        test=f"consistency test of {describe(metric)}, {TAILS[tail]}",
        null_hypothesis="labels follow the predicted probabilities, as far as the metric depends on them",
        n_rows=n_rows,
        n_resamples=len(simulated),
        p_value_error=float(np.sqrt(p * (1 - p) / len(defined))) if len(defined) else None,
        null_mean=float(defined.mean()) if len(defined) else None,
        null_quantile=_quantile(defined, 0.05 if tail == "less" else 0.95) if len(defined) else None,
        null_range=_range(defined, tail) if len(defined) else None,
        n_undefined=len(simulated) - len(defined),
    )


def _chosen_tail(metric: Callable[..., float]) -> Alternative:
    if not is_declared(metric):
        return "greater"
    if is_two_sided(metric):
        return "two-sided"
    return "less" if traits_of(metric).higher_is_better else "greater"


def _p_value(simulated: Float64Array, observed: float, tail: Alternative, how: PValue) -> float:
    if tail == "less":
        return _p_value(-simulated, -observed, "greater", how)
    if tail == "two-sided":
        smaller = min(_p_value(simulated, observed, side, how) for side in get_args(Alternative)[1:3])
        return min(1.0, 2 * smaller)
    equal = np.isclose(simulated, observed, rtol=TIE_TOLERANCE, atol=0.0)
    above = ~equal & (simulated > observed)
    n_equal, n_above = int(equal.sum()), int(above.sum())
    if how == "share":
        return (n_above + n_equal / 2) / len(simulated)
    return (1 + n_above + n_equal) / (1 + len(simulated))


def _quantile(values: Float64Array, level: float) -> float:
    """Return an order statistic as quantile, without interpolation, so that values may be infinite."""
    return float(np.quantile(values, level, method="inverted_cdf"))


def _range(values: Float64Array, tail: Alternative) -> tuple[float, float] | None:
    """Return the central 95 % range of the values; None for one-sided tests, for which the quantile suffices."""
    if tail == "less":
        return _quantile(values, 0.05), np.inf
    return (_quantile(values, 0.025), _quantile(values, 0.975)) if tail == "two-sided" else None


def _check_options(n_resamples: Any, alternative: Any, p_value: Any, progress: Any) -> None:
    check_whole("n_resamples", n_resamples)
    if alternative not in get_args(Alternative):
        raise ParameterError(
            f"alternative must be 'auto', 'greater', 'less' or 'two-sided', not {alternative!r}."
        )
    if p_value not in get_args(PValue):
        raise ParameterError(f"p_value must be 'valid' or 'share', not {p_value!r}.")
    if progress is not None and not callable(progress):
        raise ParameterError(f"progress must be a function of two counts, not {progress!r}.")
