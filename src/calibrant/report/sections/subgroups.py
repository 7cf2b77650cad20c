"""Section "Subgroups": calibration within segments of side columns, adjusted for the search."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.arrays import AnyArray
from calibrant.hypothesis_tests import SubgroupCalibration, subgroup_calibration
from calibrant.presentation import Cell, Column, Paragraph, Section, Table, Value, count, counted
from calibrant.presentation.document import Block
from calibrant.presentation.values import Range
from calibrant.report.contents import SegmentRow, SubgroupNumbers
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.sections import Assessment, section_at

__all__ = ["subgroup_numbers"]

SHOWN = 15  # segments

# With more side columns, crossings of two would be very many.
CROSSED_COLUMNS = 6


@section_at(80)
def subgroup_section(assessment: Assessment) -> Section | None:
    """Return the section with a row per segment."""
    numbers = assessment.subgroups
    if numbers is None:
        return None
    after = numbers.n_rejected_after is not None
    lead = (
        f"{numbers.n_rejected} of {counted(numbers.n_segments, 'segment')} of {', '.join(numbers.columns)} "
        f"{'is' if numbers.n_rejected == 1 else 'are'} miscalibrated at the {100 * (1 - numbers.level):.3g} % level, adjusted "
        "for the search over all segments"
    )
    lead += f"; after calibration {numbers.n_rejected_after}." if after else "."

    def difference(row: SegmentRow) -> Cell:
        interval = Range(row.low, row.high, signed=True)
        return Cell(Value(row.observed - row.predicted, signed=True), (interval,))

    later = (
        (Column("Predicted after"), lambda row: Value(row.predicted_after)),
        (Column("p after"), lambda row: Value(row.p_value_after)),
    )
    definitions = (
        ("Predicted, observed", f"mean probability and frequency of the event that {numbers.event}."),
        ("Difference", f"with intervals that hold for all segments together at {100 * numbers.level:g} %."),
        ("p", "adjusted for the search over segments, by simulated outcomes."),
    )
    table = Table.of(
        "subgroups",
        "Segments",
        numbers.rows,
        (Column("Segment", is_numeric=False), lambda row: row.segment),
        (Column("Rows"), lambda row: Cell(count(row.n_rows), value=row.n_rows)),
        (Column("Predicted"), lambda row: Value(row.predicted)),
        (Column("Observed"), lambda row: Value(row.observed)),
        (Column("Difference", hint="observed − predicted"), difference),
        (Column("p"), lambda row: Value(row.p_value)),
        *(later if after else ()),
        definitions=definitions,
    )
    parts: list[Block] = [Paragraph(lead, "lead"), table]
    hidden = numbers.n_segments - len(numbers.rows)
    notes = []
    if hidden > 0:
        notes.append(f"{counted(hidden, 'further segment')} with weaker evidence not shown.")
    if numbers.n_left_out:
        notes.append(f"{counted(numbers.n_left_out, 'segment')} left out for too few rows.")
    if notes:
        parts.append(Paragraph(" ".join(notes)))
    return Section("subgroups", "Subgroups", tuple(parts))


def subgroup_numbers(
    rows: EvaluationSet,
    after: EvaluationSet | None,
    side: Mapping[str, AnyArray] | None,
    level: float,
    random_state: int,
) -> SubgroupNumbers | None:
    """Return the calibration of every segment; None without side columns."""
    if side is None:
        return None
    options: dict[str, Any] = {
        "depth": 2 if 1 < len(side) <= CROSSED_COLUMNS else 1,
        "level": level,
        "random_state": random_state,
    }
    before = _tested(rows, side, options)
    later = None if after is None else _tested(after, side, options)
    places = {} if later is None else {name: i for i, name in enumerate(later.segment)}
    found = []
    for i in range(min(SHOWN, len(before.segment))):
        j = places.get(before.segment[i])
        found.append(
            SegmentRow(
                before.segment[i],
                int(before.n_rows[i]),
                float(before.predicted[i]),
                float(before.observed[i]),
                float(before.low[i]),
                float(before.high[i]),
                float(before.p_value[i]),
                None if later is None or j is None else float(later.predicted[j]),
                None if later is None or j is None else float(later.p_value[j]),
            )
        )
    limit = 1 - level
    return SubgroupNumbers(
        columns=tuple(side),
        event=before.event,
        n_segments=len(before.segment),
        n_left_out=before.n_left_out,
        n_rejected=int(np.sum(before.p_value <= limit)),
        n_rejected_after=None if later is None else int(np.sum(later.p_value <= limit)),
        level=level,
        rows=tuple(found),
    )


def _tested(
    rows: EvaluationSet, side: Mapping[str, AnyArray], options: dict[str, Any]
) -> SubgroupCalibration:
    return subgroup_calibration(rows.labels, rows.predictions, side, sample_weight=rows.weights, **options)
