"""Section "Tests, slope and intercept": hypothesis tests, calibration in the large and calibration slope."""

import numpy as np
from scipy.special import expit

from calibrant.hypothesis_tests import SlopeIntercept
from calibrant.hypothesis_tests.slope_intercept import Coefficient, LogOdds
from calibrant.presentation.document import Paragraph, Section
from calibrant.presentation.sentences import class_named, counted, in_points
from calibrant.presentation.table import Cell, Column, Table, Tag
from calibrant.presentation.values import Value, count, percent
from calibrant.report.contents import Detectable, Estimate, TestRow
from calibrant.report.evaluation_set import EvaluationSet, gap_estimate, plain_float
from calibrant.report.power import KINDS_OF_MAIN_EVENT
from calibrant.report.sections import Assessment, section_at
from calibrant.report.sections.scores import definitions_of, estimate_cell, metric_title, notes_of
from calibrant.space import Space

__all__ = ["mean_gap", "slope_estimates"]

REJECTS, DOES_NOT_REJECT = Tag("objects", "rejects", "✗"), Tag("passes", "does not reject", "✓")


@section_at(100)
def tests_section(assessment: Assessment) -> Section | None:
    """Return the section with the tests, and the slope and intercept."""
    if not (assessment.tests or assessment.slopes):
        return None
    lead = (
        "A small p-value means that calibrated predictions would rarely give such data. A large one means only that these rows "
        "give no evidence against calibration."
    )
    tables = [_tests_table(assessment.tests)] if assessment.tests else []
    detectable = assessment.verdict.detectable
    tables += [_detectable_table(detectable)] if detectable else []
    tables += [_slopes_table(assessment.slopes)] if assessment.slopes else []
    return Section("tests", "Tests, slope and intercept", (Paragraph(lead, "lead"), *tables))


def _tests_table(rows: tuple[TestRow, ...]) -> Table:
    def adjusted(row: TestRow) -> Cell:
        tag = REJECTS if row.adjusted_p_value < 0.05 else DOES_NOT_REJECT
        return Cell(Value(row.adjusted_p_value, "p-value"), tag=tag)

    return Table.of(
        "tests",
        f"{count(len(rows))} tests of the uncalibrated predictions",
        rows,
        (Column("Test", is_numeric=False), lambda row: Cell(metric_title(row.name), (row.sentence,))),
        (Column("Event", is_numeric=False), lambda row: row.event),
        (Column("Statistic"), lambda row: Value(row.statistic)),
        (Column("p-value"), lambda row: Value(row.p_value, "p-value")),
        (Column("p-value, adjusted"), adjusted),
    )


def _detectable_table(kinds: tuple[Detectable, ...]) -> Table:
    columns = (
        Column("Kind of error", is_numeric=False),
        Column("Size", is_numeric=False),
        Column("Power"),
        Column("Detected with a power of 80 %"),
    )
    body = tuple(
        (
            Cell(one.kind),
            Cell(_size(one, size), (one.unit,) if place == 0 else ()),
            Cell(Value(power, "percent", digits=0)),
            Cell(
                "" if place else "at no size" if one.smallest is None else f"from {_size(one, one.smallest)}"
            ),
        )
        for one in kinds
        for place, (size, power) in enumerate(zip(one.sizes, one.powers, strict=True))
    )
    caption = "What the tests would have found, simulated from these predictions"
    return Table("detectable", caption, columns, body)


def _size(one: Detectable, size: float) -> str:
    return in_points(size) if one.kind in KINDS_OF_MAIN_EVENT else percent(size, 0)


def _slopes_table(estimates: tuple[Estimate, ...]) -> Table:
    return Table.of(
        "slopes",
        "Slope and intercept, uncalibrated predictions",
        estimates,
        (Column("Quantity", is_numeric=False), lambda one: metric_title(one.name)),
        (Column("Estimate"), estimate_cell),
        definitions=definitions_of(estimates),
        notes=notes_of(estimates),
    )


def mean_gap(rows: EvaluationSet, level: float) -> Estimate:
    """Return the mean probability of the main event minus its observed frequency, with an interval."""
    if rows.n_classes == 2:
        scores, is_event = rows.predictions.probabilities[:, 1].astype(np.float64), rows.data.labels == 1
        definition = f"mean probability of {class_named(rows.class_names[1])} minus its observed frequency"
    else:
        scores, is_event = rows.confidence, rows.hits
        definition = "mean confidence in the predicted class minus accuracy"
    return gap_estimate("mean probability minus frequency", scores, is_event, rows, level, definition)


def slope_estimates(rows: EvaluationSet, line: SlopeIntercept | None, level: float) -> tuple[Estimate, ...]:
    """Return the mean gap, and slope and intercept of the log-odds if they can be fitted."""
    found = [mean_gap(rows, level)]
    if line is not None:
        independent = "" if rows.groups is None else " for independent rows"
        about = f"{line.event}{_replacement_note(rows)}; profile-likelihood interval{independent}"
        found += [
            _estimate(
                "calibration slope",
                line.slope,
                line.level,
                f"slope of the log-odds: below 1 over-confident, above 1 under-confident; {about}",
            ),
            _estimate(
                "intercept",
                line.in_the_large,
                line.level,
                f"intercept of the log-odds with slope fixed at 1: positive if events are more frequent than predicted; {about}",
            ),
        ]
    return tuple(found)


def _replacement_note(rows: EvaluationSet) -> str:
    """Return the replacements of exact zeros and ones, which have no log-odds; empty if there are none."""
    given = rows.predictions
    if given.space is not Space.PROBABILITIES or given.declared_floor is not None:
        return ""
    every = np.arange(rows.n_rows)
    column = np.ones(rows.n_rows, dtype=np.intp) if rows.n_classes == 2 else given.predicted
    score = given.scores[every, column]
    n_certain = int(np.count_nonzero((score == 0) | (np.count_nonzero(given.scores, axis=1) == (score != 0))))
    if n_certain == 0:
        return ""
    log_odds = LogOdds(given)
    reach = np.abs(log_odds.of_class(1, "") if rows.n_classes == 2 else log_odds.of_predicted()).max()
    least = f"{expit(-reach):.3g}"
    return f"; exact zeros and ones in {counted(n_certain, 'row')} are replaced by {least} and 1 - {least}"


def _estimate(name: str, coefficient: Coefficient, level: float, definition: str) -> Estimate:
    value = plain_float(coefficient.value)
    note = None if value is not None and np.isfinite(value) else "not identifiable from these rows"
    return Estimate(
        name, value, plain_float(coefficient.low), plain_float(coefficient.high), level, definition, note=note
    )
