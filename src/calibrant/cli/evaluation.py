"""Metrics with intervals and tests of calibration, for rows in memory."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil, nan
from typing import Any

from calibrant.cli.measurement import Measurement, TestRow, rooted
from calibrant.cli.metric_choice import Metric, name_of
from calibrant.errors import CalibrationWarning, PredictionError
from calibrant.hypothesis_tests import (
    ClasswiseTests,
    calibration_slope_intercept,
    classwise_cumulative_tests,
    consistency_test,
    cumulative_test,
    spiegelhalter_test,
)
from calibrant.intervals import Interval, bootstrap
from calibrant.metrics import OneClass
from calibrant.metrics.declaration import describe, options_of
from calibrant.tables.prediction_file import Table
from calibrant.wording import class_text

__all__ = ["measured", "resamples_for", "tested"]

Progress = Callable[[float, float, str], object]

# Metrics that are positive even for calibrated predictions; their expected value under calibration is shown.
BIASED_UPWARDS = {
    "classwise_ece",
    "confidence_ece",
    "ece_sweep",
    "kde_ece",
    "ks_calibration_error",
    "kuiper_calibration_error",
    "maximum_calibration_error",
    "miscalibration",
    "smooth_ece",
    "top_k_confidence_ece",
    "top_k_label_ece",
    "top_label_ece",
}
MOST_NOISE_RESAMPLES = 200
MOST_RESAMPLES = 1000
FEWEST_RESAMPLES = 100
FEWEST_NOISE_RESAMPLES = 40
SCORES_TO_RESAMPLE = 2e8  # in all resamples of one metric: a few seconds

# With more scores the tests of all classes would take longer than everything else.
SCORES_TO_SORT = 5e7

ROWS_FOR_WALD = 20_000


def resamples_for(n_rows: int, n_classes: int, level: float) -> int:
    """Return the default number of resamples: 1000 for up to 20,000 rows of ten classes, fewer for more."""
    affordable = int(SCORES_TO_RESAMPLE / (n_rows * n_classes))
    return max(min(affordable, MOST_RESAMPLES), FEWEST_RESAMPLES, ceil(4 / (1 - level)))


def measured(
    table: Table, metrics: list[Metric], level: float, n_resamples: int | None, progress: Progress
) -> list[Measurement]:
    """Return every metric with a bootstrap interval, and with its expected value under calibration if it is biased."""
    predictions = table.predictions
    n_draws = n_resamples or resamples_for(predictions.n_rows, predictions.n_classes, level)
    found = []
    for number, metric in enumerate(metrics):

        def tell(done: int, total: int, number: int = number, name: str = name_of(metric)) -> None:
            progress(number + done / total, len(metrics), name)

        found.append(_measurement(table, metric, level, n_draws, tell))
    return found


def _measurement(
    table: Table, metric: Metric, level: float, n_resamples: int, tell: Callable[[int, int], object]
) -> Measurement:
    debiased = name_of(metric) == "debiased_ece" and not options_of(metric)["signed"]
    # For good predictions the clipped root of a debiased square is zero in half of the resamples, so resample the square.
    target = partial(metric, signed=True) if debiased else metric
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # the results show the same
        interval = bootstrap(
            target,
            table.labels,
            table.predictions,
            sample_weight=table.weights,
            groups=table.groups,
            level=level,
            n_resamples=n_resamples,
            progress=tell,
        )
    noise = p_value = None
    if name_of(metric) in BIASED_UPWARDS:
        result = consistency_test(
            metric,
            table.labels,
            table.predictions,
            sample_weight=table.weights,
            # A mean needs fewer resamples than an interval, and fewer still with more rows.
            n_resamples=min(MOST_NOISE_RESAMPLES, max(FEWEST_NOISE_RESAMPLES, n_resamples // 5)),
        )
        noise, p_value = result.null_mean, result.p_value
    return _of_interval(metric, interval, debiased, noise, p_value)


def _of_interval(
    metric: Metric, interval: Interval, debiased: bool, noise: float | None, p_value: float | None
) -> Measurement:
    value, low, high = interval.estimate, interval.low, interval.high
    if interval.n_rows == 1:  # the only resample is the row itself, which gives an interval of width zero
        low = high = nan
    if debiased and options_of(metric)["norm"] == 2:
        value, low, high = rooted(value), rooted(low), rooted(high)
    resamples = "" if interval.n_resamples is None else f", {interval.n_resamples} resamples"
    how = f"{interval.method}{resamples}" + (
        ", square roots of the interval of the square" if debiased else ""
    )
    if interval.n_rows == 1:
        how = "no interval for a single row"
    return Measurement(
        name_of(metric), value, low, high, noise, p_value, describe(metric), how, interval.n_rows
    )


def tested(table: Table, level: float) -> tuple[list[TestRow], list[str]]:
    """Return the tests of calibration in closed form, with notes on skipped tests."""
    weights: dict[str, Any] = {"sample_weight": table.weights}
    y, p = table.labels, table.predictions
    notes, lines = [], []
    event = (
        class_text(p.classes[1] if p.classes is not None else 1) if p.n_classes == 2 else "predicted class"
    )
    try:
        # With this many rows Wald intervals equal profile-likelihood intervals and take a tenth of the time.
        how: Any = "profile" if len(y) < ROWS_FOR_WALD else "wald"
        line = calibration_slope_intercept(y, p, level=level, interval=how, **weights)
        lines = [
            TestRow.of("calibration slope", line.slope_test, line.slope),
            TestRow.of("calibration in the large", line.in_the_large_test, line.in_the_large),
        ]
        event = line.event
    except PredictionError as error:
        notes.append(f"Slope and intercept were not computed: {error}")
    utility: dict[str, Any] = {"utility": OneClass(1)} if p.n_classes == 2 else {}
    tests = [
        TestRow.of(f"Kuiper, {event}", cumulative_test(y, p, **utility, **weights)),
        TestRow.of("Spiegelhalter's z", spiegelhalter_test(y, p, **weights)),
        *lines,
    ]
    if p.n_classes > 2 and p.n_rows * p.n_classes <= SCORES_TO_SORT:
        tests.insert(1, _worst_class(classwise_cumulative_tests(y, p, **weights)))
    elif p.n_classes > 2:
        notes.append("Classwise tests were skipped: with this many rows and classes they take minutes.")
    return tests, notes


def _worst_class(found: ClasswiseTests) -> TestRow:
    """Return the test of the class with the smallest p-value, adjusted for the number of classes."""
    worst = int(found.adjusted_p_values.argmin())
    row = TestRow.of(f"Kuiper by class, worst {class_text(found.classes[worst])}", found.results[worst])
    adjusted = float(found.adjusted_p_values[worst])
    return replace(row, p_value=adjusted, definition=f"{row.definition}, p-value adjusted with Holm's method")
