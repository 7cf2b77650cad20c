"""Section "Changes since an earlier report": two assessments of different rows, compared."""

from collections.abc import Iterator
from math import hypot, isfinite

from calibrant.presentation.document import Paragraph, Section
from calibrant.presentation.sentences import class_named
from calibrant.presentation.table import Cell, Column, Table, Tag
from calibrant.presentation.values import Range, Value, count, has_value
from calibrant.report.contents import ClassRow, Estimate
from calibrant.report.sections import Assessment
from calibrant.report.sections.overview import STATUS
from calibrant.report.sections.scores import metric_title

__all__ = ["changes_section"]

MOST_CLASSES = 20

TAGS = {
    "better": Tag("better", "better", "✓"),
    "worse": Tag("worse", "worse", "✗"),
    "open": Tag("open", "within sampling error"),
}


def changes_section(assessment: Assessment, earlier: Assessment) -> Section:
    """Return a table of the uncalibrated predictions then and now.

    Intervals of differences are for independent data sets: squared half-widths add up.
    """
    rows = tuple(_rows(assessment, earlier))
    columns = (
        Column("Quantity", is_numeric=False),
        Column("Earlier", hint=_date(earlier)),
        Column("Now", hint=_date(assessment)),
        Column("Change", hint="now − earlier"),
    )
    notes = [
        "Differences have intervals for two independent data sets. If both reports have the same rows, the intervals are too "
        "wide."
    ]
    if earlier.data.classes != assessment.data.classes:
        notes.append("The classes of the two reports differ; classes of both are compared by name.")
    table = Table("changes", "Uncalibrated predictions, earlier and now", columns, rows, notes=tuple(notes))
    return Section(
        "changes",
        "Changes since the earlier report",
        (Paragraph(_summary(assessment, earlier), "lead"), table),
    )


def _date(assessment: Assessment) -> str:
    return "" if assessment.origin is None else assessment.origin.date[:10]


def _summary(assessment: Assessment, earlier: Assessment) -> str:
    """Return whether the verdict and the recommendation have changed."""
    before, now = STATUS[earlier.verdict.status].lower(), STATUS[assessment.verdict.status].lower()
    verdict = (
        f"The verdict is still: {now}." if before == now else f"The verdict was: {before}. It is: {now}."
    )
    methods = earlier.recommendation.method, assessment.recommendation.method
    if methods[0] == methods[1]:
        return f"{verdict} The recommended method is still {methods[1]}."
    return f"{verdict} The recommended method was {methods[0]} and is {methods[1]}."


def _rows(assessment: Assessment, earlier: Assessment) -> Iterator[tuple[Cell, ...]]:
    counts = earlier.data.n_rows, assessment.data.n_rows
    yield (Cell("Rows"), *(Cell(count(number)) for number in counts), Cell(""))
    for name, values in (
        ("Mean confidence", (earlier.data.mean_confidence, assessment.data.mean_confidence)),
        ("Accuracy", (earlier.data.accuracy, assessment.data.accuracy)),
    ):
        cells = (Cell(Value(value, "percent")) for value in values)
        change = Value(values[1] - values[0], "points", signed=True)
        yield (Cell(name), *cells, Cell(change, ("points",)))
    old = {row.before.name: row.before for row in (*earlier.scores, *earlier.errors)}
    for row in (*assessment.scores, *assessment.errors):
        # The accuracy is above in percent.
        if row.before.name in old and row.before.name != "accuracy":
            yield _row(metric_title(row.before.name), old[row.before.name], row.before)
    known = {row.label: row for row in earlier.classes}
    both = [(known[row.label], row) for row in assessment.classes if row.label in known]
    both.sort(key=lambda pair: -_shift(*pair))
    for before, now in both[:MOST_CLASSES]:
        yield _row(
            f"{class_named(now.label)}: probability − frequency", before.in_the_large, now.in_the_large, True
        )


def _shift(before: ClassRow, now: ClassRow) -> float:
    return abs((now.in_the_large.value or 0.0) - (before.in_the_large.value or 0.0))


def _row(name: str, before: Estimate, now: Estimate, is_bias: bool = False) -> tuple[Cell, ...]:
    """Return a row; a bias is better if it is closer to zero."""
    cells = (Cell(Value(one.value, signed=is_bias), (one.interval(signed=is_bias),)) for one in (before, now))
    return (Cell(name), *cells, _change(before, now, is_bias))


def _change(before: Estimate, now: Estimate, is_bias: bool) -> Cell:
    if not (has_value(before.value) and has_value(now.value)):
        return Cell("")
    change = now.value - before.value
    halves = [_half_width(one) for one in (before, now)]
    if halves[0] is None or halves[1] is None:
        return Cell(Value(change, signed=True))
    half = hypot(halves[0], halves[1])
    if abs(change) <= half:
        tag = TAGS["open"]
    elif is_bias:
        tag = TAGS["better" if abs(now.value) < abs(before.value) else "worse"]
    else:
        tag = TAGS["better" if (change > 0) == now.higher_is_better else "worse"]
    return Cell(Value(change, signed=True), (Range(change - half, change + half, signed=True),), tag)


def _half_width(estimate: Estimate) -> float | None:
    if estimate.low is None or estimate.high is None or not isfinite(estimate.high - estimate.low):
        return None
    return (estimate.high - estimate.low) / 2
