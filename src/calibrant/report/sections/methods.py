"""Sections "Comparison of methods" and "Learning curve": held-out scores, and the gain from more rows."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant.calibrator import Calibrator
from calibrant.calibrators import AutoCalibration
from calibrant.comparison.compare import random_folds
from calibrant.errors import CalibrationWarning
from calibrant.notices import held_back
from calibrant.plots.learning_curve import LearningCurve, learning_curve
from calibrant.presentation.document import Block, Figure, OnPage, Paragraph, Section, SideBySide
from calibrant.presentation.html import as_html
from calibrant.presentation.markup import Markup, element, joined
from calibrant.presentation.sentences import counted, shortened
from calibrant.presentation.table import Cell, Column, Table
from calibrant.presentation.values import (
    TYPOGRAPHIC,
    Range,
    Value,
    count,
    has_value,
    number,
    percent,
    significant,
)
from calibrant.report.contents import Estimate, LearningNumbers, MethodRow, Recommendation
from calibrant.report.evaluation_set import EvaluationSet, plain_floats, random_rows
from calibrant.report.method_selection import NEGLIGIBLE_GAIN, MethodSelection, baseline_of
from calibrant.report.sections import Assessment, section_at
from calibrant.report.sections.axes import (
    Plot,
    bounds,
    chart,
    legend,
    marker,
    series_swatch,
    tick_text,
    ticks_between,
)
from calibrant.report.sections.scores import INFINITE, difference_cell

__all__ = ["learning_numbers", "learning_sentence"]

ROW = 40.0
LONGEST_LABEL = 26
GAP, VALUE_WIDTH = 9.0, 58.0  # in units of the drawing, for the text beside an interval

# Limit of the rows of a learning curve, whose intervals are bootstrapped.
MOST_ROWS = 50_000

CLOSEST = 46.0
"""Smallest distance in pixels between labels of the horizontal axis."""


@section_at(140)
def methods_section(assessment: Assessment) -> Section | None:
    """Return the section with the differences of all methods to the uncalibrated predictions, and a table of scores."""
    advice = assessment.recommendation
    if not advice.methods:
        return None
    figures = []
    for name, field, baseline in (
        ("Log-loss", "log_loss_difference", advice.baseline),
        ("Brier score", "brier_difference", "the uncalibrated predictions"),
    ):
        entries: list[tuple[str, Estimate, bool]] = [
            (row.name, estimate, row.name == advice.method)
            for row in advice.methods
            if (estimate := getattr(row, field)) is not None and estimate.value is not None
        ]
        if entries:
            caption = f"{name}: difference to {baseline}"
            picture = _forest_chart(caption, f"Difference of the {name} (negative is better)", entries)
            figures.append(Figure(f"forest-{field.replace('_', '-')}", caption, picture))
    marks = (
        "Filled marks: the interval excludes zero. Hollow marks: the difference may be noise. ★ and the diamond: the recommended "
        "method."
    )
    blocks: list[Block] = [Paragraph(advice.how, "lead")] if advice.how else []
    if figures:
        blocks += [SideBySide(tuple(figures)), OnPage(element("p", marks, class_="note"))]
    return Section("methods", "Comparison of methods", (*blocks, _methods_table(advice)))


def _methods_table(advice: Recommendation) -> Table:
    """Return the table of methods; the recommended one is highlighted."""
    chosen = [index for index, row in enumerate(advice.methods) if row.name == advice.method]
    notes = []
    if any(row.log_loss_difference is not None for row in advice.methods):
        notes.append(
            f"Changes of the log-loss are relative to {advice.baseline}. Intervals are for each method separately; the interval "
            "of the gain above is wider, since it is adjusted for the choice among the methods."
        )
    notes += [f"{row.name}: {note}" for row in advice.methods for note in row.notes]
    notes += [f"{row.name} could not be fitted: {row.error}" for row in advice.methods if row.error]
    if any(row.log_loss == float("inf") for row in advice.methods):
        notes.append(INFINITE)
    return Table.of(
        "methods",
        f"{count(len(advice.methods))} methods, evaluated on held-out rows",
        advice.methods,
        (
            Column("Method", is_numeric=False),
            lambda row: Cell(row.name, (_remarks(row, row.name == advice.method),)),
        ),
        (Column("Log-loss"), lambda row: Value(row.log_loss, tiny=False)),
        (Column("Change of log-loss"), lambda row: difference_cell(row.log_loss_difference)),
        (Column("Brier score"), lambda row: Value(row.brier_score, tiny=False)),
        (Column("Change of Brier score"), lambda row: difference_cell(row.brier_difference)),
        (Column("Accuracy"), lambda row: Value(row.accuracy, "percent", 2)),
        (Column("Changed decisions"), _changed_cell),
        (Column("ECE, confidence"), lambda row: Value(row.confidence_ece, tiny=False)),
        (Column("ECE, classwise"), lambda row: Value(row.classwise_ece, tiny=False)),
        (Column("Fit time"), lambda row: Value(row.seconds, "duration")),
        notes=tuple(notes),
        is_sortable=True,
        highlighted=chosen[0] if chosen else None,
    )


def _changed_cell(row: MethodRow) -> Cell:
    """Return the fraction of changed decisions: "never" for arg-max-preserving methods, missing for the uncalibrated row."""
    if row.log_loss_difference is None and not row.changed_decisions:
        return Cell(Value(None), value=row.changed_decisions)
    if row.keeps_argmax and not row.changed_decisions:
        return Cell("never", value=row.changed_decisions)
    return Cell(Value(row.changed_decisions, "percent", 2))


def _remarks(row: MethodRow, is_recommended: bool) -> str:
    return ", ".join([*(["recommended"] if is_recommended else []), *(["failed"] if row.error else [])])


@section_at(150)
def learning_section(assessment: Assessment) -> Section | None:
    """Return the section with the loss of the chosen method by the size of the calibration set."""
    numbers = assessment.learning
    if numbers is None or not numbers.sizes:
        return None

    def loss(place: int) -> Cell:
        interval = Range(numbers.low[place], numbers.high[place], digits=3, tiny=False)
        return Cell(Value(numbers.loss[place]), (interval,))

    def change(place: int) -> Value:
        loss = numbers.loss[place]
        return Value(None if loss is None else loss - numbers.uncalibrated, signed=True)

    table = Table.of(
        "learning-numbers",
        f"Loss of {numbers.method} by size of the calibration set",
        range(len(numbers.sizes)),
        (Column("Calibration set", is_numeric=False), lambda place: Value(numbers.sizes[place], "count")),
        (Column("Log-loss"), loss),
        (Column("Minus uncalibrated"), change),
    )
    figure = Figure("learning-curve", f"Log-loss of {numbers.method}", _learning_chart(numbers))
    drawn = OnPage(element("div", as_html(figure), _learning_legend(numbers)))
    return Section(
        "learning", "Learning curve", (Paragraph(numbers.sentence, "lead"), SideBySide((drawn, table)))
    )


def learning_numbers(
    selection: MethodSelection, n_rows: int, cv: Any, level: float, random_state: int
) -> tuple[LearningNumbers | None, str]:
    """Return the learning curve of the chosen method with a summary in words, or the reason why there is none.

    Rows and folds are those of the comparison, so the last point equals the log-loss in the table of methods. Large data are
    subsampled, which the summary mentions.
    """
    if selection.chosen is None or selection.calibrator is None:
        return None, ""
    name = selection.chosen.name
    if is_slow(selection):
        return (
            None,
            f"The learning curve of {name} takes long and was not computed; use calibrant.plots.learning_curve.",
        )
    if not isinstance(cv, int):
        return (
            None,
            "There is no learning curve, because cv is a splitter or a list of splits; pass a number of folds.",
        )
    drawn = random_rows(selection.rows, MOST_ROWS, MOST_ROWS * selection.rows.n_classes, random_state)
    sample = selection.rows.take(drawn)
    method = (
        clone(selection.calibrator) if isinstance(selection.calibrator, Calibrator) else selection.calibrator
    )
    try:
        with held_back(), warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # about degenerate or infinite intervals
            curve = learning_curve(
                sample.labels,
                sample.predictions,
                method=method,
                cv=[
                    (fold.train_rows, fold.test_rows) for fold in random_folds(cv, sample.data, random_state)
                ],
                sample_weight=sample.weights,
                groups=sample.groups,
                level=level,
                random_state=random_state,
            )
    except ValueError as error:
        return None, f"There is no learning curve: {error}"
    if np.isfinite(curve.loss).sum() < 2:
        return None, _too_few(curve, sample)
    # The loss of the table, which raises zeros only if a true class had one.
    curve = replace(curve, uncalibrated=sample.data.log_loss(baseline_of(sample)))
    sentence = learning_sentence(curve, n_rows, name, selection.is_recommended)
    if drawn is not None:
        sentence += (
            f" The curve is from a random sample of {sample.n_rows:,} rows, so it differs from the table."
        )
    points = {field: plain_floats(getattr(curve, field)) for field in ("loss", "low", "high")}
    sizes, uncalibrated = tuple(curve.sizes.tolist()), float(curve.uncalibrated)
    return LearningNumbers(name, sizes, **points, uncalibrated=uncalibrated, sentence=sentence), sentence


def _too_few(curve: LearningCurve, sample: EvaluationSet) -> str:
    if curve.notes:
        return f"There is no learning curve, since fits to subsets of the rows failed: {curve.notes[0].rstrip('.')}."
    return (
        f"There is no learning curve: the training folds have {counted(int(curve.sizes[-1]), 'row')} of {sample.n_rows}, too "
        "few for smaller subsets."
    )


def is_slow(selection: MethodSelection) -> bool:
    """Return whether the chosen method cross-validates internally, so that the many fits of a curve would take minutes."""
    return selection.calibrator == "auto" or isinstance(selection.calibrator, AutoCalibration)


def learning_sentence(curve: LearningCurve, n_rows: int, name: str, is_recommended: bool) -> str:
    """Return the predicted gain from twice and ten times ``n_rows``, if the points support the fitted curve."""
    now = float(curve.loss[-1])
    by_twice, by_tenfold = (
        curve.expected(n_rows)[0] - curve.expected(times * n_rows)[0] for times in (2, 10)
    )
    if not curve.trend.is_supported or not np.isfinite(now) or by_tenfold > now:
        return f"The learning curve of {name} is too irregular for an extrapolation to more rows."
    if by_tenfold < NEGLIGIBLE_GAIN * now:
        return (
            f"More rows would hardly improve {name}: ten times as many would lower its log-loss of {significant(now)} by at most "
            f"{percent(by_tenfold / now, 2)}."
            if by_tenfold > 0
            else f"The log-loss of {name}, {significant(now)}, does not decrease with the size of the calibration set."
        )
    # The law holds for a fixed number of parameters. Methods that regularise less with more rows gain more.
    law = "according to a rough fit of a + b / n"
    if is_recommended:
        return (
            f"More rows would improve {name}: twice as many would lower its log-loss of {significant(now)} by about "
            f"{significant(by_twice, 2)}, ten times as many by {significant(by_tenfold, 2)}, {law}."
        )
    if now - by_tenfold < (1 - NEGLIGIBLE_GAIN) * curve.uncalibrated:
        return (
            f"With ten times as many rows {name} may help: its log-loss may fall from {significant(now)} to "
            f"{significant(now - by_tenfold)}, below the {significant(curve.uncalibrated)} of the uncalibrated predictions, "
            f"{law}."
        )
    return f"Even with ten times as many rows {name} would not beat the uncalibrated predictions, {law}."


def _forest_chart(title: str, axis: str, entries: Sequence[tuple[str, Estimate, bool]]) -> Markup:
    """Return the chart; an entry is the name of a method, its difference, and whether it is the recommended one.

    Names are above their intervals, not beside them, so that long names fit on a phone.
    """
    values = [value for _, estimate, _ in entries for value in (estimate.value, estimate.low, estimate.high)]
    x_bounds = bounds(values, [0.0])
    height = ROW * len(entries) + 6
    plot = Plot.of(x_bounds, (0.0, 1.0), left=18, top=2, height=height)
    zero = plot.x(0.0)
    tops = [4 + ROW * index for index in range(len(entries))]
    rows = [_forest_row(entry, plot, top) for entry, top in zip(entries, tops, strict=True)]
    return chart(
        title,
        " ".join(
            f"{name}: {number(estimate.value, signed=True, style=TYPOGRAPHIC)} ({estimate.interval().text(TYPOGRAPHIC)})."
            for name, estimate, _ in entries
        ),
        height + 54,
        plot.frame(ticks_between(*x_bounds, at_most=7), [], axis, ""),
        # Only next to the intervals, so that the line does not cross text.
        element("path", class_="zero", d="".join(f"M{zero:.1f} {top + 16:.1f}v18" for top in tops)),
        *rows,
        class_="forest",
    )


def _forest_row(entry: tuple[str, Estimate, bool], plot: Plot, top: float) -> Markup:
    name, estimate, chosen = entry
    shown = shortened(name, LONGEST_LABEL)
    low, high, middle = estimate.low, estimate.high, top + 25
    pieces: list[str] = [
        element(
            "title",
            f"{name}: {number(estimate.value, signed=True, style=TYPOGRAPHIC)} ({estimate.interval().text(TYPOGRAPHIC)})",
        ),
        element(
            "text",
            f"{shown} ★" if chosen else shown,
            class_="label strong" if chosen else "label",
            x=plot.x.start,
            y=top + 13,
        ),
    ]
    if has_value(low) and has_value(high):
        pieces.append(element("path", class_="line", d=f"M{plot.x(low):.1f} {middle:.1f}H{plot.x(high):.1f}"))
    if has_value(estimate.value):
        pieces.append(marker("diamond" if chosen else "circle", plot.x(estimate.value), middle, 5.0, "mark"))
        pieces.append(_value_beside(estimate, plot, middle))
    return element("g", joined(*pieces), class_=f"row {_side(estimate)}")


def _value_beside(estimate: Estimate, plot: Plot, middle: float) -> Markup:
    """Return the value next to its interval: on the side that is farther from zero if it fits, else on the other."""
    value = estimate.value or 0.0
    ends = [plot.x(end) for end in (value, estimate.low, estimate.high) if has_value(end)]
    left, right, zero = min(ends) - GAP, max(ends) + GAP, plot.x(0.0)
    is_left = left - VALUE_WIDTH >= plot.x.start and (
        value < 0 or right + VALUE_WIDTH > plot.x.end or left <= zero <= right + VALUE_WIDTH
    )
    return element(
        "text",
        number(value, signed=True, style=TYPOGRAPHIC),
        class_="tick",
        x=f"{left if is_left else right:.1f}",
        y=middle + 4,
        text_anchor="end" if is_left else "start",
    )


def _side(estimate: Estimate) -> str:
    """Return the side of zero of the interval; marks are filled if it excludes zero, else hollow."""
    if estimate.high is not None and estimate.high < 0:
        return "better"
    return "worse" if estimate.low is not None and estimate.low > 0 else "open"


def _learning_chart(numbers: LearningNumbers) -> Markup:
    """Return the chart: loss with its interval by size, and the uncalibrated loss as a horizontal line."""
    y_bounds = bounds(numbers.loss, numbers.low, numbers.high, [numbers.uncalibrated])
    smallest, largest = min(numbers.sizes), max(numbers.sizes)
    plot = Plot.of((smallest / 1.1, max(largest, smallest + 1) * 1.1), y_bounds, logarithmic=True)
    level = plot.place((largest, numbers.uncalibrated))
    points = list(zip(numbers.sizes, numbers.loss, strict=True))
    marks = [marker("circle", *place, 4.0, "mark") for point in points if (place := plot.place(point))]
    return chart(
        f"Loss on held-out rows by size of the calibration set, {numbers.method}",
        numbers.sentence,
        290,
        plot.band(numbers.sizes, numbers.low, numbers.high, "band tinted"),
        plot.frame(
            _spaced(numbers.sizes, plot),
            ticks_between(*y_bounds),
            "Size of the calibration set",
            "Log-loss",
            write_x=lambda tick: tick_text(tick, 0),
        ),
        element("path", class_="before-line", d=f"M{plot.x.start:.0f} {level[1]:.1f}H{plot.x.end:.0f}")
        if level
        else Markup(),
        element("g", plot.line(points, "line"), *marks, class_="series series-1"),
    )


def _spaced(sizes: tuple[int, ...], plot: Plot) -> list[float]:
    """Return the sizes whose labels do not overlap, always including the largest."""
    kept: list[float] = []
    for size in sorted(sizes, reverse=True):
        if not kept or plot.x(kept[-1]) - plot.x(size) >= CLOSEST:
            kept.append(float(size))
    return kept[::-1]


def _learning_legend(numbers: LearningNumbers) -> Markup:
    """Return the legend."""
    line = series_swatch("circle", "series series-1")
    return legend(
        (
            joined(element("rect", class_="band tinted", x=0, y=1, width=28, height=12), line),
            f"{numbers.method}, with interval",
        ),
        (element("path", class_="before-line", d="M0 7H28"), "uncalibrated"),
    )
