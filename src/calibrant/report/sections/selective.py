"""Section "Selective prediction": accuracy of the most confident rows, before and after calibration."""

import numpy as np

from calibrant.metrics import risk_coverage_curve
from calibrant.metrics.selective import ranking_scores
from calibrant.presentation import Column, Paragraph, Section, Table, Value
from calibrant.report.contents import Estimate, SelectiveRow
from calibrant.report.evaluation_set import EvaluationSet, proportion_estimate
from calibrant.report.sections import Assessment, section_at
from calibrant.report.sections.scores import estimate_cell, stages_of

__all__ = ["selective_rows", "selective_section"]

COVERAGES = (0.5, 0.7, 0.8, 0.9, 0.95, 1.0)


@section_at(60)
def selective_section(assessment: Assessment) -> Section | None:
    """Return the section with a row per coverage."""
    rows = assessment.selective
    if not rows:
        return None
    before, after = stages_of(assessment)
    lead = (
        "Accuracy if only the most confident rows are decided and the others are referred. Calibration changes the threshold; it "
        "changes the accuracy only if it reorders rows."
    )
    definitions = (
        ("Coverage", "fraction of rows that are decided."),
        ("Threshold", "smallest confidence among them. Rows of equal confidence are decided together."),
    )
    later = (
        (Column("Threshold after", hint=after or ""), lambda row: Value(row.threshold_after, tiny=False)),
        (Column("Accuracy after"), lambda row: estimate_cell(row.after)),
    )
    table = Table.of(
        "selective",
        "Accuracy by coverage",
        rows,
        (Column("Coverage", is_numeric=False), lambda row: f"{100 * row.coverage:g} %"),
        (Column("Threshold before", hint=before), lambda row: Value(row.threshold, tiny=False)),
        (Column("Accuracy before"), lambda row: estimate_cell(row.before)),
        *(later if after is not None else ()),
        definitions=definitions,
    )
    return Section("selective", "Selective prediction", (Paragraph(lead, "lead"), table))


def selective_rows(
    rows: EvaluationSet, after: EvaluationSet | None, level: float
) -> tuple[SelectiveRow, ...]:
    """Return the accuracy at every coverage that ties allow before calibration."""
    found = []
    later = None if after is None else _Accepted(after, level)
    earlier = _Accepted(rows, level)
    for coverage in COVERAGES:
        accuracy, threshold = earlier.at(coverage)
        if accuracy is None:
            continue
        accuracy_after, threshold_after = (None, None) if later is None else later.at(coverage)
        found.append(SelectiveRow(coverage, threshold, accuracy, threshold_after, accuracy_after))
    return tuple(found)


class _Accepted:
    """The most confident rows of a set, for any coverage."""

    def __init__(self, rows: EvaluationSet, level: float) -> None:
        self.rows, self.level = rows, level
        self.curve = risk_coverage_curve(rows.labels, rows.predictions, sample_weight=rows.weights)
        self.scores = ranking_scores(rows.predictions)
        self.levels = np.unique(self.scores)[::-1]  # of the points of the curve

    def at(self, coverage: float) -> tuple[Estimate | None, float | None]:
        """Return the accuracy of at most this fraction of rows, and the threshold; None if ties allow no such fraction."""
        reached = np.flatnonzero(self.curve.coverage <= coverage + 1e-9)
        if len(reached) == 0:
            return None, None
        threshold = float(self.curve.threshold[reached[-1]])
        accepted = np.flatnonzero(self.scores >= self.levels[reached[-1]])
        name = f"accuracy of the most confident {100 * coverage:g} %"
        definition = f"accuracy of the rows with a confidence of at least {threshold:.4g}"
        estimate = proportion_estimate(
            name, self.rows.hits[accepted], self.rows.take(accepted), self.level, definition
        )
        return estimate, threshold
