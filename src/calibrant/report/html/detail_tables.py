"""Tables of classes and methods, and of the data of the plots."""

from collections.abc import Sequence
from math import isinf

from calibrant.report.contents import (
    BinSensitivityNumbers,
    ClassRow,
    CumulativeNumbers,
    Curve,
    LearningNumbers,
    MethodRow,
)
from calibrant.report.html.number_text import (
    DASH,
    count,
    has_value,
    number,
    p_value,
    percent,
    plain_name,
    seconds,
    span,
)
from calibrant.report.html.score_tables import INFINITE
from calibrant.report.html.table import Cell, Column, Table, difference_cell, estimate_cell, number_cell

__all__ = [
    "bin_sensitivity_table",
    "bins_table",
    "classes_table",
    "cumulative_table",
    "learning_table",
    "methods_table",
]

FIRST_CLASSES = 25
"""Number of classes that are shown before "Show all"."""

ARROWS = {"too high": "↑ ", "too low": "↓ ", "too extreme": "‹› ", "too timid": "›‹ ", "none": ""}


def classes_table(rows: Sequence[ClassRow]) -> Table:
    """Return the classes, the worst first."""
    columns = (
        Column("Class", numeric=False),
        Column("Rows", hint="class frequency"),
        Column("Mean probability"),
        Column("In the large", hint="mean probability − frequency"),
        Column("Slope", hint="1 is ideal"),
        Column("ECE", hint="if calibrated"),
        Column("ECE after"),
        Column("Error, lower bound"),
        Column("p-value", hint="adjusted"),
        Column("Probabilities are", numeric=False),
    )
    body = tuple(
        (
            Cell(row.label, numeric=False),
            number_cell(row.n_rows, count(row.n_rows), percent(row.share)),
            number_cell(row.mean_probability, percent(row.mean_probability)),
            estimate_cell(row.in_the_large, signed=True),
            estimate_cell(row.slope),
            number_cell(row.ece, detail=number(row.ece_noise)),
            number_cell(row.after_ece),
            number_cell(row.lower_bound),
            number_cell(row.adjusted_p_value, p_value(row.adjusted_p_value)),
            Cell(
                DASH if row.direction == "none" else f"{ARROWS[row.direction]}{row.direction}", numeric=False
            ),
        )
        for row in rows
    )
    return Table(
        "classes",
        "Classes, the worst calibrated first"
        if len(rows) < 3
        else f"{count(len(rows))} classes, the worst calibrated first",
        columns,
        body,
        sortable=True,
        filterable=len(rows) > 5,
        limit=FIRST_CLASSES if len(rows) > FIRST_CLASSES else None,
        definitions=(
            ("ECE", "expected calibration error of the probability of this class, with bins."),
            (
                "ECE if calibrated",
                "expected value of the ECE for the same probabilities and number of rows, if they were calibrated.",
            ),
            ("Error, lower bound", "one-sided lower confidence bound on the L1 error."),
            (
                "p-value, adjusted",
                "of the hypothesis that this class is calibrated, adjusted for the number of classes.",
            ),
            (
                "Slope",
                "logistic regression of the outcome on the log-odds: below 1 the probabilities are too extreme, above 1 not "
                "extreme enough. Exact zeros and ones count as half the smallest and twice the largest other odds.",
            ),
        ),
    )


def methods_table(rows: Sequence[MethodRow], recommended: str, baseline: str) -> Table:
    """Return the table of methods; the recommended one is highlighted."""
    columns = (
        Column("Method", numeric=False),
        Column("Log-loss"),
        Column("Change of log-loss"),
        Column("Brier score"),
        Column("Change of Brier score"),
        Column("Accuracy"),
        Column("Changed decisions"),
        Column("ECE, confidence"),
        Column("ECE, classwise"),
        Column("Fit time"),
    )
    body = tuple(
        (
            Cell(row.name, detail=remarks(row, row.name == recommended), numeric=False),
            number_cell(row.log_loss),
            difference_cell(row.log_loss_difference),
            number_cell(row.brier_score),
            difference_cell(row.brier_difference),
            number_cell(row.accuracy, percent(row.accuracy, 2)),
            number_cell(row.changed_decisions, changed_text(row)),
            number_cell(row.confidence_ece),
            number_cell(row.classwise_ece),
            number_cell(row.seconds, seconds(row.seconds)),
        )
        for row in rows
    )
    chosen = [index for index, row in enumerate(rows) if row.name == recommended]
    notes = []
    if any(row.log_loss_difference is not None for row in rows):
        notes.append(
            f"Changes of the log-loss are relative to {baseline}. Intervals are for each method separately; the interval of the "
            "gain above is wider, since it is adjusted for the choice among the methods."
        )
    notes += [f"{row.name}: {note}" for row in rows for note in row.notes]
    notes += [f"{row.name} could not be fitted: {row.error}" for row in rows if row.error]
    notes += [INFINITE] if any(row.log_loss is not None and isinf(row.log_loss) for row in rows) else []
    return Table(
        "methods",
        f"{count(len(rows))} methods, evaluated on held-out rows",
        columns,
        body,
        notes=tuple(notes),
        sortable=True,
        highlighted=chosen[0] if chosen else None,
    )


def changed_text(row: MethodRow) -> str:
    """Return the fraction of changed decisions, or "never" for arg-max-preserving methods."""
    if row.log_loss_difference is None and not row.changed_decisions:
        return DASH  # the uncalibrated predictions
    never = row.keeps_argmax and not row.changed_decisions
    return "never" if never else percent(row.changed_decisions, 2)


def remarks(row: MethodRow, recommended: bool) -> str:
    said = ["recommended"] if recommended else []
    said += ["failed"] if row.error else []
    return ", ".join(said)


def bins_table(curve: Curve, name: str) -> Table:
    """Return the non-empty bins of a reliability chart."""
    columns = (
        Column("Scores", numeric=False),
        Column("Rows"),
        Column("Mean score"),
        Column("Observed"),
        Column("If calibrated"),
    )
    body = tuple(
        (
            Cell(f"{edge_text(curve.edges[index])}–{edge_text(curve.edges[index + 1])}", numeric=False),
            Cell(count(rows)),
            Cell(number(curve.mean_score[index], digits=3)),
            Cell(
                number(curve.mean_outcome[index], digits=3),
                detail=range_text(curve.low[index], curve.high[index]),
            ),
            Cell(range_text(curve.consistency_low[index], curve.consistency_high[index]) or DASH),
        )
        for index, rows in enumerate(curve.count)
        if rows
    )
    return Table(name, f"Bins of {curve.method}, {curve.event}", columns, body)


def edge_text(edge: float | None) -> str:
    return f"{edge:.3g}" if edge is not None else DASH


def range_text(low: float | None, high: float | None) -> str:
    """Return a range; empty if an end is missing."""
    known = has_value(low) and has_value(high)
    return span(number(low, digits=3, tiny=False), number(high, digits=3, tiny=False)) if known else ""


def cumulative_table(numbers: CumulativeNumbers, name: str) -> Table:
    """Return the curve at about every tenth of the rows."""
    m = len(numbers.share)
    picked = sorted({round(step * (m - 1) / 10) for step in range(11)}) if m else []
    body = tuple(
        (
            Cell(percent(numbers.share[index], 0), numeric=False),
            Cell(number(numbers.score[index])),
            Cell(number(numbers.difference[index], signed=True)),
        )
        for index in picked
    )
    columns = (
        Column("Fraction of rows", numeric=False),
        Column("Score"),
        Column("Cumulative outcomes − scores"),
    )
    return Table(name, f"Cumulative differences of {numbers.method}, {numbers.event}", columns, body)


def bin_sensitivity_table(numbers: BinSensitivityNumbers, name: str) -> Table:
    """Return the errors for each number of bins."""
    columns = (
        Column("Bins", numeric=False),
        Column("Equal width"),
        Column("Equal mass"),
        Column("Debiased"),
        Column("If calibrated, mean"),
        Column("If calibrated, 95 % quantile"),
    )
    series = (numbers.equal_width, numbers.equal_mass, numbers.debiased, numbers.noise, numbers.noise_high)
    body = tuple(
        (Cell(count(bins), numeric=False), *(Cell(number(values[index])) for values in series))
        for index, bins in enumerate(numbers.n_bins)
    )
    return Table(
        name, f"{plain_name(numbers.metric)} of {numbers.method} by the number of bins", columns, body
    )


def learning_table(numbers: LearningNumbers) -> Table:
    """Return the loss by size."""
    body = tuple(
        (
            Cell(count(size), numeric=False),
            Cell(number(loss), detail=range_text(low, high)),
            Cell(number(loss - numbers.uncalibrated if loss is not None else None, signed=True)),
        )
        for size, loss, low, high in zip(numbers.sizes, numbers.loss, numbers.low, numbers.high, strict=True)
    )
    columns = (Column("Calibration set", numeric=False), Column("Log-loss"), Column("Minus uncalibrated"))
    return Table(
        "learning-numbers", f"Loss of {numbers.method} by size of the calibration set", columns, body
    )
