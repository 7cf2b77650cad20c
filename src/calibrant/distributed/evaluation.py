"""Evaluate and assess predictions in partitions, by functions of sums over rows and a sample of rows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from calibrant.distributed.opening import EngineName, source_of
from calibrant.distributed.source import PartitionedSource, parts_of_rows
from calibrant.errors import ParameterError
from calibrant.hypothesis_tests import TestSums
from calibrant.intervals import Interval
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import declared_metrics, describe, options_of, parts_of
from calibrant.options import check_level, check_whole
from calibrant.report import Assessment
from calibrant.report import assess as assess_rows
from calibrant.report.all_rows import METRICS_OF_ALL_ROWS, with_all_rows
from calibrant.streaming import JackknifeSums, streaming_metrics

__all__ = ["assess", "calibration_tests", "evaluate", "intervals_of", "metrics_by_name", "tests_of"]

Metric = Callable[..., Any]

N_PARTS = 100

DEFAULT = ("log_loss", "brier_score", "accuracy", "confidence_ece", "classwise_ece")


def evaluate(
    frame: Any,
    *,
    label: str,
    columns: str | Sequence[str],
    space: str,
    metrics: Sequence[str | Metric] | None = None,
    sample_weight: str | None = None,
    key: str | None = None,
    classes: Sequence[Any] | None = None,
    level: float = 0.95,
    engine: EngineName | None = None,
) -> dict[str, Interval]:
    """Return metrics of rows in partitions, each with a confidence interval.

    Parameters
    ----------
    frame, label, columns, space, sample_weight, classes, engine
        As in :func:`~calibrant.distributed.fit`.
    metrics : sequence of str or function, optional
        Names from :func:`calibrant.streaming.streaming_metrics`, functions, or ``functools.partial`` of them with options.
        Log-loss, Brier score, accuracy, confidence-ECE and classwise-ECE by default.
    key : str, optional
        Column with groups of dependent rows; the interval then treats groups, not rows, as independent.
    level : float, default=0.95
        Confidence level.

    Returns
    -------
    dict of str to Interval
        By the name of the metric; for a function with options by its definition.

    Notes
    -----
    Two passes: the first checks the rows, the second adds up all metrics. A hash of the row, or of its key, assigns it to one
    of 100 parts; the interval is that of the delete-a-group jackknife over these parts, with Student's t. Neither value nor
    interval depends on the partitioning. Binned errors have no interval, since they are positive by noise alone; the
    debiased error, such as ``partial(debiased_ece, signed=True, strategy="uniform")``, has one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"p_0": [0.9] * 4, "p_1": [0.1] * 4, "y": [0, 0, 0, 1]})
    >>> found = evaluate(table, label="y", columns="p_*", space="probabilities", metrics=["accuracy"])
    >>> found["accuracy"].estimate
    0.75
    """
    check_level(level)
    chosen = metrics_by_name(DEFAULT if metrics is None else metrics)
    source = source_of(frame, label, columns, space, sample_weight, key, classes, engine)
    return intervals_of(source, chosen, level)


def calibration_tests(
    frame: Any,
    *,
    label: str,
    columns: str | Sequence[str],
    space: str,
    sample_weight: str | None = None,
    classes: Sequence[Any] | None = None,
    classwise: bool = False,
    engine: EngineName | None = None,
) -> TestSums:
    """Return tests of calibration of rows in partitions: Spiegelhalter's z, Kuiper's test, slope and intercept.

    Parameters
    ----------
    frame, label, columns, space, sample_weight, classes, engine
        As in :func:`~calibrant.distributed.fit`.
    classwise : bool, default=False
        Whether to test every class too.

    Returns
    -------
    TestSums
        With a method for every test. It states how results relate to those of rows in memory.

    Notes
    -----
    Two passes, one of which checks the rows. Rows are independent observations.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"p_0": [0.4] * 10, "p_1": [0.6] * 10, "y": [1] * 9 + [0]})
    >>> tests = calibration_tests(table, label="y", columns="p_*", space="probabilities")
    >>> round(tests.spiegelhalter().statistic, 4)
    -1.9365
    """
    source = source_of(frame, label, columns, space, sample_weight, None, classes, engine)
    return tests_of(source, classwise=classwise)


def intervals_of(source: PartitionedSource, metrics: dict[str, Metric], level: float) -> dict[str, Interval]:
    """Return the intervals of metrics by name, from one pass."""
    sums = source.summed(partial(_jackknife_sums, list(metrics.values())))
    return {
        name: estimate.described(definition, level, source.n_rows, "parts of the rows by hash")
        for name, definition, estimate in zip(metrics, sums.definitions, sums.results(), strict=True)
    }


def tests_of(source: PartitionedSource, *, classwise: bool) -> TestSums:
    """Return the tests of all rows, from one pass."""
    return source.summed(partial(_test_sums, classwise))


def _jackknife_sums(metrics: Sequence[Metric], data: LabelledPredictions) -> JackknifeSums:
    return JackknifeSums(metrics, N_PARTS).update(data, parts_of_rows(data, N_PARTS))


def _test_sums(classwise: bool, data: LabelledPredictions) -> TestSums:
    # The floor is for logarithms of fits; tests replace zeros in their own way.
    predictions = replace(data.predictions, declared_floor=None)
    return TestSums.of(replace(data, predictions=predictions), classwise=classwise)


def metrics_by_name(metrics: Sequence[str | Metric]) -> dict[str, Metric]:
    """Return functions by name; refuse what needs all rows at once."""
    known = declared_metrics()
    found: dict[str, Metric] = {}
    for metric in metrics:
        if isinstance(metric, str):
            if metric not in known:
                raise ParameterError(
                    f"there is no metric {metric!r}; in partitions there are {streaming_metrics()}."
                )
            function: Metric = known[metric]
            if options_of(function).get("strategy") == "quantile" and metric in streaming_metrics():
                function = partial(function, strategy="uniform")  # equal-mass bins need all scores
            name = metric
        else:
            function, name = metric, describe(metric)
        if parts_of(function) is None:
            raise ParameterError(
                f"{describe(function)} needs all rows at once; in partitions there are {streaming_metrics()}."
            )
        JackknifeSums([function])  # refuses options that need all rows
        found[name] = function
    return found


def assess(
    frame: Any,
    *,
    label: str,
    columns: str | Sequence[str],
    space: str,
    sample_weight: str | None = None,
    key: str | None = None,
    classes: Sequence[Any] | None = None,
    engine: EngineName | None = None,
    sample_rows: int = 100_000,
    level: float = 0.95,
    **options: Any,
) -> Assessment:
    """Assess the calibration of predictions in partitions; see :func:`calibrant.assess` for the report.

    Parameters
    ----------
    frame, label, columns, space, sample_weight, classes, engine
        As in :func:`~calibrant.distributed.fit`.
    key : str, optional
        Column with groups of dependent rows.
    sample_rows : int, default=100_000
        Number of rows that are drawn for tests, the comparison of methods and plots.
    level : float, default=0.95
        Confidence level.
    **options
        ``methods``, ``cv``, ``title``, ``random_state`` and ``progress`` of :func:`calibrant.assess`.

    Returns
    -------
    Assessment
        Log-loss, Brier score, accuracy and binned errors of all rows come first in ``scores`` and ``errors``, the first three
        with jackknife intervals, and Kuiper's and Spiegelhalter's test of all rows in ``tests``. ``data.split`` says how many
        rows were drawn.

    Notes
    -----
    Four passes: one checks the rows, one adds up the metrics, one the tests, and one draws the sample. A hash of the row
    decides whether it is drawn, so the report does not depend on the partitioning.
    """
    check_level(level)
    check_whole("sample_rows", sample_rows)
    source = source_of(frame, label, columns, space, sample_weight, key, classes, engine)
    exact = intervals_of(source, metrics_by_name(METRICS_OF_ALL_ROWS), level)
    tests = tests_of(source, classwise=False)
    sample = drawn(source, sample_rows)
    found = assess_rows(
        sample.classes[sample.labels],
        replace(sample.predictions, classes=sample.classes),
        sample_weight=sample.weights,
        groups=None if sample.groups is None else sample.groups.astype(str),
        level=level,
        **options,
    )
    return with_all_rows(found, exact, tests, source.n_rows, "A hash")


def drawn(source: PartitionedSource, size: int) -> LabelledPredictions:
    """Return a random sample of about this many rows; each row counts once unless the rows have weights of their own."""
    sample = source.sample(size)
    if sample.weights is None or source.is_weighted:
        return sample
    counts = sample.weights.astype(np.int64)
    if counts.sum() > size:
        generator = np.random.default_rng(0)
        counts = generator.multivariate_hypergeometric(counts, size, method="marginals")
    return replace(sample.take(np.repeat(np.arange(sample.n_rows), counts)), weights=None)
