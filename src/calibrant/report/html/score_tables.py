"""Tables of scores, calibration errors, decompositions, slopes and tests."""

from collections.abc import Sequence
from math import isinf

from calibrant.report.contents import Decomposition, Estimate, ScoreRow, TestRow
from calibrant.report.html.number_text import count, number, p_value, percent, plain_name, sentence
from calibrant.report.html.table import Cell, Column, Table, difference_cell, estimate_cell, number_cell

__all__ = ["decomposition_table", "score_table", "slope_table", "tests_table"]

INFINITE = "∞ means that the true class of at least one row had probability exactly zero; the data summary counts such rows."


def score_table(name: str, caption: str, rows: Sequence[ScoreRow], before: str, after: str | None) -> Table:
    """Return scores before and after calibration with paired differences; without a method, only those before."""
    columns = [Column("Score", numeric=False), Column("Before", hint=before)]
    if after is not None:
        columns += [Column("After", hint=after), Column("Difference", hint="after − before")]
    body = []
    for row in rows:
        cells = [
            Cell(plain_name(row.before.name), numeric=False, detail=preference(row.before)),
            estimate_cell(row.before),
        ]
        if after is not None:
            cells += [estimate_cell(row.after), difference_cell(row.difference)]
        body.append(tuple(cells))
    estimates = [estimate for row in rows for estimate in (row.before, row.after) if estimate is not None]
    return Table(
        name,
        caption,
        tuple(columns),
        tuple(body),
        definitions=definitions_of([row.before for row in rows]),
        notes=notes_of(estimates),
    )


def preference(estimate: Estimate) -> str:
    return "higher is better" if estimate.higher_is_better else "lower is better"


def definitions_of(estimates: Sequence[Estimate]) -> tuple[tuple[str, str], ...]:
    """Return the definitions of all numbers that have one."""
    return tuple(
        (plain_name(estimate.name), sentence(estimate.definition))
        for estimate in estimates
        if estimate.definition
    )


def notes_of(estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """Return the distinct notes of all numbers, and the meaning of infinity if it occurs."""
    notes = [
        f"{plain_name(estimate.name)}: {sentence(estimate.note)}" for estimate in estimates if estimate.note
    ]
    infinite = any(estimate.value is not None and isinf(estimate.value) for estimate in estimates)
    return tuple(dict.fromkeys([*notes, *([INFINITE] if infinite else [])]))


def decomposition_table(rows: Sequence[Decomposition]) -> Table:
    """Return the decompositions of all scores."""
    columns = (
        Column("Score", numeric=False),
        Column("Value"),
        Column("Miscalibration"),
        Column("Fraction of the score"),
        Column("Discrimination"),
        Column("Uncertainty"),
        Column("Removable"),
        Column("Refinement"),
    )
    body = tuple(
        (
            Cell(plain_name(row.loss), detail=row.stage, numeric=False),
            number_cell(row.score),
            number_cell(row.miscalibration),
            number_cell(share := row.miscalibration / row.score if row.score > 0 else None, percent(share)),
            number_cell(row.discrimination),
            number_cell(row.uncertainty),
            estimate_cell(row.removable),
            number_cell(row.refinement),
        )
        for row in rows
    )
    fixed = (
        (
            "Miscalibration",
            "reduction of the score by recalibration (for two classes: the best monotone one on the same rows).",
        ),
        (
            "Discrimination",
            "improvement of the recalibrated predictions over the class frequencies.",
        ),
        ("Uncertainty", "score of always predicting the class frequencies; a property of the data."),
        (
            "Removable",
            "reduction of the score by cross-validated recalibration; a lower bound on the miscalibration.",
        ),
        ("Refinement", "score after this recalibration."),
    )
    own = tuple(
        dict.fromkeys((plain_name(row.loss), sentence(row.definition)) for row in rows if row.definition)
    )
    return Table(
        "decompositions",
        "Decomposition: score = miscalibration − discrimination + uncertainty",
        columns,
        body,
        definitions=own + fixed,
        notes=notes_of_parts(rows),
    )


def notes_of_parts(rows: Sequence[Decomposition]) -> tuple[str, ...]:
    negative = any(
        row.miscalibration < 0
        or (row.removable is not None and row.removable.value is not None and row.removable.value < 0)
        for row in rows
    )
    notes = (
        ["A negative component is an estimate of a non-negative quantity: no miscalibration was found."]
        if negative
        else []
    )
    return (*notes, *([INFINITE] if any(isinf(row.score) for row in rows) else []))


def slope_table(estimates: Sequence[Estimate]) -> Table:
    """Return calibration-in-the-large and slope."""
    return Table(
        "slopes",
        "Slope and intercept, uncalibrated predictions",
        (Column("Quantity", numeric=False), Column("Estimate")),
        tuple(
            (Cell(plain_name(estimate.name), numeric=False), estimate_cell(estimate))
            for estimate in estimates
        ),
        definitions=definitions_of(estimates),
        notes=notes_of(estimates),
    )


def tests_table(rows: Sequence[TestRow]) -> Table:
    """Return all tests, with an explanation below each name."""
    columns = (
        Column("Test", numeric=False),
        Column("Event", numeric=False),
        Column("Statistic"),
        Column("p-value"),
        Column("p-value, adjusted"),
    )
    body = tuple(
        (
            Cell(plain_name(row.name), detail=row.sentence, numeric=False),
            Cell(row.event, numeric=False),
            number_cell(row.statistic, number(row.statistic)),
            number_cell(row.p_value, p_value(row.p_value)),
            Cell(
                p_value(row.adjusted_p_value),
                row.adjusted_p_value,
                tag="objects" if row.adjusted_p_value < 0.05 else "passes",
            ),
        )
        for row in rows
    )
    return Table("tests", f"{count(len(rows))} tests of the uncalibrated predictions", columns, body)
