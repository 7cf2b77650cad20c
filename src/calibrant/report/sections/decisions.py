"""Section "Decisions": cost of decisions before and after calibration, and net benefit by threshold."""

from typing import Any

from calibrant.arrays import Float64Array
from calibrant.errors import ParameterError
from calibrant.intervals import decision_curve
from calibrant.metrics import bayes_decisions, expected_cost
from calibrant.options import real_array
from calibrant.presentation import Cell, Column, Paragraph, Section, Table, Value
from calibrant.presentation.document import Block
from calibrant.presentation.values import decimals
from calibrant.report.contents import DecisionNumbers, Estimate, ThresholdRow
from calibrant.report.evaluation_set import EvaluationSet, mean_estimate
from calibrant.report.sections import Assessment, section_at
from calibrant.report.sections.scores import difference_cell, estimate_cell

__all__ = ["decision_numbers", "decision_sentences"]

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@section_at(70)
def decision_section(assessment: Assessment) -> Section | None:
    """Return the section with costs, and with net benefits for two classes."""
    numbers = assessment.decisions
    if numbers is None:
        return None
    columns = [Column("", is_numeric=False), Column("Before")]
    realised, predicted = (
        [Cell("Realised cost per row"), estimate_cell(numbers.before)],
        [Cell("Predicted cost per row"), Cell(Value(numbers.predicted))],
    )
    if numbers.after is not None:
        columns += [Column("After"), Column("Difference", hint="after − before")]
        realised += [estimate_cell(numbers.after), difference_cell(numbers.difference)]
        predicted += [Cell(Value(numbers.predicted_after)), Cell("")]
    body = (tuple(realised), tuple(predicted))
    definitions = (
        ("Realised cost", "mean cost of the decisions of least expected cost, with the true classes."),
        ("Predicted cost", "mean cost that the probabilities predict for these decisions."),
    )
    parts: list[Block] = [
        Paragraph(" ".join(decision_sentences(numbers)), "lead"),
        Table("costs", "Cost of decisions", tuple(columns), body, definitions=definitions),
    ]
    if numbers.thresholds:
        parts.append(_net_benefits(numbers))
    return Section("decisions", "Decisions", tuple(parts))


def decision_sentences(numbers: DecisionNumbers) -> list[str]:
    """Return what the costs say: from which probability to act, the best single decision, and what calibration changes."""
    sentences = []
    if numbers.threshold is not None:
        sentences.append(
            f"Under these costs the second decision is cheaper from a calibrated probability of {decimals(numbers.threshold)} on."
        )
    sentences.append(f"The best single decision for all rows costs {decimals(numbers.fixed)} per row.")
    found = numbers.difference
    if found is not None and found.value is not None:
        word = {"better": "saves", "worse": "costs"}.get(found.direction)
        sentences.append(
            "These rows do not show that calibration changes the cost."
            if word is None
            else f"Calibration {word} {abs(1000 * found.value):.4g} per 1,000 rows."
        )
    return sentences


def _net_benefits(numbers: DecisionNumbers) -> Table:
    later = (Column("After"), lambda row: estimate_cell(row.after))
    definitions = (
        (
            "Net benefit",
            "fraction of true positives minus that of false positives, times the odds of the threshold; acting on no row has 0.",
        ),
    )
    return Table.of(
        "benefit",
        "Net benefit by threshold",
        numbers.thresholds,
        (Column("Threshold"), lambda row: Value(row.threshold)),
        (Column("Before"), lambda row: estimate_cell(row.before)),
        *((later,) if numbers.after is not None else ()),
        (Column("Act on all rows"), lambda row: Value(row.everyone, signed=True)),
        definitions=definitions,
    )


def decision_numbers(
    rows: EvaluationSet, after: EvaluationSet | None, costs: Any, level: float
) -> DecisionNumbers | None:
    """Return costs and net benefits; None without a cost matrix."""
    if costs is None:
        return None
    matrix = real_array(costs)
    if matrix is None or matrix.ndim != 2 or matrix.shape[1] != rows.n_classes or len(matrix) < 2:
        raise ParameterError(
            f"costs must have two or more rows, one per decision, and {rows.n_classes} columns, one per class, not {costs!r}."
        )
    before, values = _costs(rows, matrix, level, "realised cost")
    later = difference = None
    if after is not None:
        later, of_after = _costs(after, matrix, level, "realised cost after calibration")
        difference = mean_estimate(
            "saving", of_after - values, rows, level, "realised cost after minus before calibration"
        )
    labels = rows.data.labels
    fixed = min(rows.mean(row[labels]) for row in matrix)
    threshold = _threshold(matrix)
    return DecisionNumbers(
        costs=tuple(tuple(row) for row in matrix.tolist()),
        threshold=threshold,
        before=before,
        predicted=expected_cost(rows.predictions, matrix, sample_weight=rows.weights),
        after=later,
        predicted_after=(
            None if after is None else expected_cost(after.predictions, matrix, sample_weight=after.weights)
        ),
        difference=difference,
        fixed=float(fixed),
        thresholds=_threshold_rows(rows, after, threshold, level) if rows.n_classes == 2 else (),
    )


def _costs(
    rows: EvaluationSet, matrix: Float64Array, level: float, name: str
) -> tuple[Estimate, Float64Array]:
    decisions = bayes_decisions(rows.predictions, matrix)
    values = matrix[decisions, rows.data.labels]
    return mean_estimate(
        name, values, rows, level, "mean cost of the decisions of least expected cost"
    ), values


def _threshold(matrix: Float64Array) -> float | None:
    """Return the probability of the second class from which on the second decision is cheaper, if there is one."""
    if matrix.shape != (2, 2):
        return None
    without, with_event = matrix[1, 0] - matrix[0, 0], matrix[0, 1] - matrix[1, 1]
    if without <= 0 or with_event <= 0:
        return None
    return float(without / (without + with_event))


def _threshold_rows(
    rows: EvaluationSet, after: EvaluationSet | None, threshold: float | None, level: float
) -> tuple[ThresholdRow, ...]:
    at = sorted({*THRESHOLDS, *([] if threshold is None else [threshold])})
    curves = [
        None
        if each is None
        else decision_curve(
            each.labels, each.predictions, thresholds=at, sample_weight=each.weights, level=level
        )
        for each in (rows, after)
    ]
    before, later = curves
    assert before is not None
    found = []
    for i, t in enumerate(at):
        estimates = [
            None
            if curve is None
            else Estimate(
                f"net benefit at {t:g}",
                float(curve.net_benefit[i]),
                float(curve.low[i]),
                float(curve.high[i]),
                level,
                "net benefit; MOVER interval of the two fractions",
                higher_is_better=True,
            )
            for curve in (before, later)
        ]
        assert estimates[0] is not None
        found.append(ThresholdRow(float(t), estimates[0], estimates[1], float(before.treat_all[i])))
    return tuple(found)
