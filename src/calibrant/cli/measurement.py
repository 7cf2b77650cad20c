"""Metrics with intervals and tests of calibration, of rows in memory or from one pass over a file."""

import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, isnan, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.cli.choices import Metric, name_of
from calibrant.cli.files import check_declared
from calibrant.cli.progress import Progress
from calibrant.errors import CalibrationWarning, ParameterError, PredictionError, WeightError
from calibrant.hypothesis_tests import (
    ClasswiseTests,
    Coefficient,
    SlopeIntercept,
    TestResult,
    TestSums,
    calibration_slope_intercept,
    classwise_cumulative_tests,
    consistency_test,
    cumulative_test,
    spiegelhalter_test,
)
from calibrant.hypothesis_tests.slope_intercept import IntervalMethod
from calibrant.intervals import Interval, bootstrap
from calibrant.metrics import OneClass
from calibrant.metrics.declaration import describe, is_positive_by_noise, options_of
from calibrant.presentation.sentences import class_text, shortened
from calibrant.remedies import for_command_line
from calibrant.streaming import JackknifeEstimate, JackknifeSums
from calibrant.tables.prediction_file import CodedRows, PredictionFile, Table

__all__ = [
    "LONGEST_TEST",
    "TEST_LEVEL",
    "Measurement",
    "RowSums",
    "TestRow",
    "measured",
    "measured_in_batches",
    "tested",
    "tested_sums",
]

TEST_LEVEL = 0.05
"""Significance level of the tests."""

LONGEST_TEST = 60
"""Longest name of a test, in characters, so that class names do not widen the table."""


@dataclass(frozen=True)
class Measurement:
    """A metric of all rows, with its interval and the expected value under calibration if noise makes it positive."""

    metric: str
    value: float
    low: float
    high: float
    noise: float | None
    p_value: float | None
    definition: str
    method: str
    n_rows: int


@dataclass(frozen=True)
class TestRow:
    """A test of calibration, possibly with the coefficient that it tests."""

    __test__ = False  # pytest must not collect it

    test: str
    value: float
    low: float | None
    high: float | None
    p_value: float
    null_hypothesis: str
    definition: str
    n_rows: int
    caution: str | None = None

    @classmethod
    def of(cls, name: str, found: TestResult, coefficient: Coefficient | None = None) -> "TestRow":
        """Return a test under a short name, with the coefficient that it tests, if any."""
        return cls(
            name,
            found.statistic if coefficient is None else coefficient.value,
            None if coefficient is None else coefficient.low,
            None if coefficient is None else coefficient.high,
            found.p_value,
            found.null_hypothesis,
            found.test,
            found.n_rows,
            None if found.caution is None else for_command_line(found.caution),
        )

    @property
    def name(self) -> str:
        """The name of the test, shortened if a class name in it is long."""
        return shortened(self.test, LONGEST_TEST)


def rooted(value: float) -> float:
    """Return the root of an estimated square, which noise can make negative."""
    return nan if value != value else sqrt(max(value, 0.0))


Tell = Callable[[float, float, str], object]

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
    table: Table, metrics: list[Metric], level: float, n_resamples: int | None, progress: Tell
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
    if is_positive_by_noise(metric):
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
    elif interval.note is not None and isnan(low):
        how = interval.note
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
        how = interval_for(len(y))
        line = calibration_slope_intercept(y, p, level=level, interval=how, **weights)
        lines, event = _lines(line), line.event
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


def interval_for(n_rows: int) -> IntervalMethod:
    """Return how to compute intervals of slope and intercept."""
    # With this many rows Wald intervals equal profile-likelihood intervals and take a tenth of the time.
    return "profile" if n_rows < ROWS_FOR_WALD else "wald"


def tested_sums(sums: TestSums, level: float) -> tuple[list[TestRow], list[str]]:
    """Return the tests that are functions of sums over rows, with notes on skipped tests."""
    notes, lines = [], []
    try:
        lines = _lines(sums.slope_intercept(level=level, interval=interval_for(sums.n_rows)))
    except PredictionError as error:
        notes.append(f"Slope and intercept were not computed: {error}")
    tests = [
        TestRow.of(f"Kuiper, {sums.event}", sums.cumulative()),
        TestRow.of("Spiegelhalter's z", sums.spiegelhalter()),
        *lines,
    ]
    if sums.has_classes:
        tests.insert(1, _worst_class(sums.classwise()))
    elif len(sums.classes) > 2:
        notes.append("Classwise tests were skipped: they would take longer than all metrics.")
    return tests, notes


def _lines(line: SlopeIntercept) -> list[TestRow]:
    return [
        TestRow.of("calibration slope", line.slope_test, line.slope),
        TestRow.of("calibration in the large", line.in_the_large_test, line.in_the_large),
    ]


def _worst_class(found: ClasswiseTests) -> TestRow:
    """Return the test of the class with the smallest p-value, adjusted for the number of classes."""
    worst = int(found.adjusted_p_values.argmin())
    row = TestRow.of(f"Kuiper by class, worst {class_text(found.classes[worst])}", found.results[worst])
    adjusted = float(found.adjusted_p_values[worst])
    return replace(row, p_value=adjusted, definition=f"{row.definition}, p-value adjusted with Holm's method")


class Streamed(NamedTuple):
    """Results of one pass over the rows."""

    measurements: list[Measurement]
    n_rows: int
    not_computed: list[str]
    tests: TestSums | None


class _StreamedMetric(NamedTuple):
    """A metric as it can be summed over rows, and as it is shown."""

    shown: Metric
    summed: Metric
    is_square: bool

    @classmethod
    def of(cls, metric: Metric) -> "_StreamedMetric":
        """Return the streaming form of a metric; raise ParameterError if there is none."""
        shown, is_square = metric, False
        if name_of(metric) == "debiased_ece":
            options = options_of(metric)
            if options["strategy"] == "quantile" and options["binning"] is None:
                shown = partial(metric, strategy="uniform")  # equal-mass bins need all scores
            # For good predictions the clipped root of a debiased square is zero, so the interval is that of the square.
            is_square = not options["signed"] and options["norm"] == 2
        summed = partial(shown, signed=True) if is_square else shown
        JackknifeSums([summed])  # raises
        return cls(shown, summed, is_square)

    def measurement(self, found: JackknifeEstimate, level: float, n_rows: int) -> Measurement:
        """Return the value with its interval."""
        ends = (found.value, *found.interval(level))
        if found.note is not None:
            how = f"no interval: {found.note.removeprefix('no interval, since ')}"
            return Measurement(
                name_of(self.shown), found.value, nan, nan, None, None, describe(self.shown), how, n_rows
            )
        how = f"jackknife over {found.n_parts} random parts of the rows"
        if self.is_square:
            ends = (rooted(ends[0]), rooted(ends[1]), rooted(ends[2]))
            how += ", square roots of the interval of the square"
        return Measurement(name_of(self.shown), *ends, None, None, describe(self.shown), how, n_rows)


class RowSums:
    """Visitor of the batches of a file that sums all metrics, and what tests need."""

    def __init__(
        self, predictions: PredictionFile, metrics: list[Metric], with_tests: bool, progress: Progress
    ) -> None:
        self.sums = JackknifeSums(metrics)
        self.tests: TestSums | None = None
        self._with_tests = with_tests
        self.n_rows = 0
        self._predictions, self._progress = predictions, progress
        self._generator = np.random.default_rng(0)

    def __call__(self, rows: CodedRows) -> None:
        """Add a batch."""
        if self.n_rows == 0 and rows.data is not None:
            check_declared(self._predictions.path, rows.data.predictions)
        self.n_rows += rows.n_rows
        self._progress.rows(self.n_rows)
        if rows.data is not None:
            data = rows.data.with_bounded_weights()
            self.sums.update(data, self._parts(rows, data.n_rows))
            if self._with_tests:
                found = TestSums.of(data)
                self.tests = found if self.tests is None else self.tests + found

    def _parts(self, rows: CodedRows, n_rows: int) -> NDArray[np.intp]:
        """Return the part of every row; rows of a group are in the same part, wherever they are in the file."""
        if rows.groups is None:
            return self._generator.integers(0, self.sums.n_parts, n_rows)
        hashes = [zlib.crc32(str(name).encode()) % self.sums.n_parts for name in rows.groups.values.tolist()]
        return np.array(hashes, dtype=np.intp)[rows.groups.codes]


def measured_in_batches(
    predictions: PredictionFile, metrics: list[Metric], level: float, with_tests: bool, progress: Progress
) -> Streamed:
    """Return every metric and test that is a function of sums over rows, in constant memory.

    Each row, or each group, is assigned at random to one of a hundred parts. Intervals come from the delete-a-group
    jackknife over these parts. Metrics that are positive by noise alone have none.
    """
    found, not_computed = [], []
    for metric in metrics:
        try:
            found.append(_StreamedMetric.of(metric))
        except ParameterError:
            not_computed.append(name_of(metric))
        else:
            if found[-1].shown is not metric:
                not_computed.append(f"equal-mass bins of {name_of(metric)} (equal-width bins instead)")
    summed = [one.summed for one in found]
    visitor = predictions.visit(lambda: RowSums(predictions, summed, with_tests, progress))
    assert isinstance(visitor, RowSums)
    if visitor.sums.n_rows == 0:
        raise WeightError(f"{predictions.path}: all weights are zero; at least one must be positive.")
    estimates = visitor.sums.results()
    measurements = [
        one.measurement(estimate, level, visitor.sums.n_rows)
        for one, estimate in zip(found, estimates, strict=True)
    ]
    return Streamed(measurements, visitor.n_rows, not_computed, visitor.tests)
