"""``calibrant evaluate``: metrics with intervals, and tests of calibration."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from calibrant.cli.choices import chosen_metrics
from calibrant.cli.console import print_notes, tell
from calibrant.cli.exit_codes import ExitCode
from calibrant.cli.files import check_declared, check_writable, opened, shown_name
from calibrant.cli.measurement import (
    LONGEST_TEST,
    TEST_LEVEL,
    Measurement,
    TestRow,
    measured,
    measured_in_batches,
    tested,
    tested_sums,
)
from calibrant.cli.progress import Progress
from calibrant.cli.rendering import Result, Section, deliver, interval_header, interval_text, number_text
from calibrant.metrics.declaration import traits_of
from calibrant.presentation import p_value
from calibrant.presentation.sentences import counted, shortened
from calibrant.tables.columns import listed
from calibrant.tables.prediction_file import PredictionFile

__all__ = [
    "TESTS_IGNORE_GROUPS",
    "check_limits",
    "evaluate",
    "limits_of",
    "sections_of",
    "sentences_of",
    "verdict_of",
]

BYTES_PER_SCORE = 48  # approximate memory, with copies
SCORES_TO_STREAM = 5_000_000  # beyond, a bootstrap takes minutes

TESTS_IGNORE_GROUPS = "Intervals are those of groups; tests assume independent rows."


def evaluate(
    context: click.Context,
    /,
    file: Path,
    metrics: str,
    bins: int | None,
    level: float,
    resamples: int | None,
    with_tests: bool,
    stream: bool | None,
    fail_above: tuple[str, ...],
    definitions: bool,
    format_name: str,
    output: Path | None,
    **choice: Any,
) -> None:
    """Measure the calibration of predictions."""
    check_writable(output, file)
    limits = limits_of(fail_above)
    chosen = chosen_metrics(metrics, bins)
    with Progress("reading") as progress, opened(file, choice, progress) as predictions:
        in_batches = _is_large(predictions) if stream is None else stream
        tests: list[TestRow] = []
        notes: list[str] = []
        if in_batches:
            found = measured_in_batches(predictions, chosen, level, with_tests, progress)
            measurements, n_rows = found.measurements, found.n_rows
            missing = [*found.not_computed, "expected values under calibration"]
            notes.append(f"Not computed, since they need all rows in memory: {', '.join(missing)}.")
            if found.tests is not None:
                tests, more = tested_sums(found.tests, level)
                notes += more
            if tests and predictions.group is not None:
                notes.append(TESTS_IGNORE_GROUPS)
        else:
            table = predictions.read(progress.rows)
            check_declared(file, table.predictions)
            table.labelled()  # for its warnings about labels
            n_rows = table.predictions.n_rows
            measurements = measured(table, chosen, level, resamples, progress.update)
            progress.update(1, 1, "tests")
            if with_tests:
                tests, notes = tested(table, level)
            if predictions.group is not None:
                notes.append("Intervals resample groups; tests and expected values assume independent rows.")
    print_notes(predictions.notes)
    result = _result(file, predictions, n_rows, level, measurements, tests, notes, definitions)
    deliver(result, format_name, output)
    check_limits(context, limits, measurements)


def check_limits(context: click.Context, limits: dict[str, float], measurements: list[Measurement]) -> None:
    """Exit with a code of its own if a metric is beyond its limit."""
    exceeded = _exceeded(limits, measurements)
    for sentence in exceeded:
        tell(f"Limit exceeded: {sentence}")
    if exceeded:
        context.exit(ExitCode.LIMIT_EXCEEDED)


def _is_large(predictions: PredictionFile) -> bool:
    """Return whether a bootstrap would take minutes, or the rows more than half of the memory."""
    n_scores = predictions.approximate_scores()
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # missing on some systems
        memory = 4 * 2**30
    return n_scores > SCORES_TO_STREAM or n_scores * BYTES_PER_SCORE > memory / 2


def _result(
    file: Path,
    predictions: PredictionFile,
    n_rows: int,
    level: float,
    measurements: list[Measurement],
    tests: list[TestRow],
    notes: list[str],
    definitions: bool,
) -> Result:
    assert predictions.match is not None
    classes = predictions.match.classes
    facts: dict[str, Any] = {
        "file": str(file),
        "n_rows": n_rows,
        "classes": classes,
        "columns": list(predictions.columns.names),
        "space": predictions.space.value,
        "label": predictions.label,
        "weight": predictions.weight,
        "group": predictions.group,
        "level": level,
    }
    heading = (
        f"{shown_name(file)}: {counted(n_rows, 'row')}, {len(classes)} classes ({_shown(classes)}), "
        f"{predictions.space.value}"
    )
    sentences = [*sentences_of(measurements, tests, definitions), *notes, *verdict_of(tests)]
    return Result(heading, sections_of(measurements, tests, level), tuple(sentences), facts)


# How the reason starts why a metric has no interval.
WITHHELD = "no interval, since"


def sections_of(measurements: list[Measurement], tests: list[TestRow], level: float) -> tuple[Section, ...]:
    """Return the tables of metrics and tests, those that have rows."""
    value: dict[str, Any] = {"value": "value", interval_header(level): interval_text}
    noise = {"if calibrated": "noise"} if any(one.noise is not None for one in measurements) else {}
    of_tests = {
        "test of calibration": lambda one: shortened(one["test"], LONGEST_TEST),
        **value,
        "p": lambda one: p_value(one["p_value"], level=TEST_LEVEL),
    }
    sections = (
        Section.of("metrics", {"metric": "metric", **value, **noise}, list(map(asdict, measurements))),
        Section.of("tests", of_tests, list(map(asdict, tests))),
    )
    return tuple(section for section in sections if section.rows)


def _shown(classes: Any) -> str:
    return listed(classes.tolist(), shown=5)


def verdict_of(tests: list[TestRow]) -> list[str]:
    """Return how many tests reject calibration; nothing without tests."""
    if not tests:
        return []
    against = sum(one.p_value <= TEST_LEVEL for one in tests)
    return [
        f"{against} of {counted(len(tests), 'test')} {'rejects' if against == 1 else 'reject'} calibration at the "
        f"{100 * TEST_LEVEL:g} % level."
    ]


def sentences_of(measurements: list[Measurement], tests: list[TestRow], definitions: bool) -> list[str]:
    """Return what a reader of the tables must know."""
    sentences = []
    if any(one.noise is not None for one in measurements):
        sentences.append(
            "If calibrated: the expected value of the metric for calibrated predictions with these scores. Noise alone makes it "
            "positive, so there is no interval."
        )
    if any(one.value == float("inf") for one in measurements):
        sentences.append(
            "inf: a true class had probability zero; log_loss:floor=1e-6 replaces zeros by one in a million."
        )
    withheld = [one for one in measurements if one.noise is None and one.method.startswith(WITHHELD)]
    for reason in dict.fromkeys(one.method for one in withheld):
        names = ", ".join(one.metric for one in withheld if one.method == reason)
        sentences.append(f"{names}: {reason}.")
    sentences += [f"{one.name}: {one.caution}." for one in tests if one.caution]
    defined = ", ".join(one.definition for one in measurements if not one.definition.endswith("()"))
    if definitions and defined:
        sentences.append(f"Definitions: {defined}.")
    return sentences


def limits_of(texts: tuple[str, ...]) -> dict[str, float]:
    """Return the limits of ``--fail-above`` by metric."""
    limits = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            limits[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise click.UsageError(f"--fail-above takes METRIC=VALUE, such as log_loss=0.5, not {text!r}.")
    return limits


def _exceeded(limits: dict[str, float], measurements: list[Measurement]) -> list[str]:
    values = {one.metric: one.value for one in measurements}
    sentences = []
    for name, limit in limits.items():
        if name not in values:
            raise click.UsageError(f"--fail-above {name}: not one of the metrics {', '.join(values)}.")
        higher = traits_of(chosen_metrics(name)[0]).higher_is_better
        # Written so that NaN exceeds every limit.
        fine = values[name] >= limit if higher else values[name] <= limit
        if not fine:
            sentences.append(
                f"{name} is {number_text(values[name])}, {'below' if higher else 'above'} {limit:g}."
            )
    return sentences
