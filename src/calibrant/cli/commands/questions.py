"""``calibrant subgroups`` and ``decisions``: where predictions are miscalibrated, and what that costs."""

from pathlib import Path
from typing import Any

import numpy as np

from calibrant import load
from calibrant.cli.console import print_notes
from calibrant.cli.files import check_declared, check_writable, cost_matrix, opened, side_columns_of
from calibrant.cli.progress import Progress
from calibrant.cli.rendering import Result, Section, deliver, interval_header, interval_text
from calibrant.hypothesis_tests import subgroup_calibration
from calibrant.presentation import to_plain
from calibrant.presentation.sentences import counted
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.sections.decisions import decision_numbers, decision_sentences
from calibrant.tables.columns import listed

__all__ = ["decisions", "subgroups"]

SHOWN = 20


def subgroups(
    file: Path,
    by: str,
    depth: int,
    quantiles: int,
    min_rows: int,
    kind: Any,
    show_all: bool,
    level: float,
    format_name: str,
    output: Path | None,
    **choice: Any,
) -> None:
    """Test calibration in subgroups of side columns."""
    check_writable(output, file)
    with Progress("reading") as progress, opened(file, choice, progress) as predictions:
        table = predictions.read(progress.rows)
        check_declared(file, table.predictions)
        side = side_columns_of(predictions, by)
    found = subgroup_calibration(
        table.labels,
        table.predictions,
        side,
        sample_weight=table.weights,
        kind=kind,
        depth=depth,
        n_quantiles=quantiles,
        min_rows=min_rows,
        level=level,
    )
    print_notes(predictions.notes)
    columns = {name: [_plain(value) for value in values] for name, values in found.columns().items()}
    records = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    n_shown = len(records) if show_all or format_name != "table" else min(SHOWN, len(records))
    section = Section.of(
        "segments",
        {
            "segment": "segment",
            "rows": "n_rows",
            "predicted": "predicted",
            "observed": "observed",
            "difference": "difference",
            interval_header(level): interval_text,
            "p": "p_value",
        },
        records,
        shown=n_shown,
    )
    n_rejected = len(found.rejected)
    notes = [
        f"{n_rejected} of {counted(len(records), 'segment')} {'is' if n_rejected == 1 else 'are'} miscalibrated at the 5 % "
        f"level, adjusted for the search; event: {found.event}."
    ]
    if n_shown < len(records):
        notes.append(f"{counted(len(records) - n_shown, 'further segment')}; give --all for all.")
    if found.n_left_out:
        notes.append(f"{counted(found.n_left_out, 'segment')} with fewer than {min_rows} rows left out.")
    facts = {
        "file": str(file),
        "event": found.event,
        "level": level,
        "n_left_out": found.n_left_out,
        "p_value": found.test.p_value,
    }
    heading = (
        f"{file.name}: {counted(table.predictions.n_rows, 'row')}, segments of {listed(list(side or {}))}"
    )
    deliver(Result(heading, (section,), tuple(notes), facts), format_name, output)


def decisions(
    file: Path,
    costs: str,
    calibrator: Path | None,
    level: float,
    format_name: str,
    output: Path | None,
    **choice: Any,
) -> None:
    """Cost of decisions, and net benefit for two classes."""
    check_writable(output, file)
    matrix = cost_matrix(costs)
    fitted = None if calibrator is None else load(calibrator)
    with Progress("reading") as progress, opened(file, choice, progress) as predictions:
        table = predictions.read(progress.rows)
        check_declared(file, table.predictions)
    rows = EvaluationSet.parse(table.labels, table.predictions, table.weights, table.groups)
    after = None if fitted is None else rows.with_predictions(fitted.transform(rows.predictions))
    numbers = decision_numbers(rows, after, matrix, level)
    assert numbers is not None
    print_notes(predictions.notes)
    interval: dict[str, Any] = {interval_header(level): interval_text}
    estimates = {
        "cost, as given": numbers.before,
        "cost, calibrated": numbers.after,
        "difference": numbers.difference,
    }
    of_costs = [
        {"cost": name, "value": estimate.value, "low": estimate.low, "high": estimate.high}
        for name, estimate in estimates.items()
        if estimate is not None
    ]
    sections = [Section.of("costs", {"cost per row": "cost", "value": "value", **interval}, of_costs)]
    if numbers.thresholds:
        of_thresholds = [
            {
                "threshold": row.threshold,
                "net_benefit": row.before.value,
                "low": row.before.low,
                "high": row.before.high,
                **({} if row.after is None else {"calibrated": row.after.value}),
                "act_on_all": row.everyone,
            }
            for row in numbers.thresholds
        ]
        columns = {
            "threshold": lambda one: f"{one['threshold']:g}",
            "net benefit": "net_benefit",
            **interval,
            **({} if after is None else {"calibrated": "calibrated"}),
            "act on all": "act_on_all",
        }
        sections.append(Section.of("net_benefit", columns, of_thresholds))
    facts = {"file": str(file), "level": level, **{k: v for k, v in to_plain(numbers).items() if k in FACTS}}
    heading = f"{file.name}: {counted(rows.n_rows, 'row')}, {rows.n_classes} classes"
    deliver(Result(heading, tuple(sections), tuple(decision_sentences(numbers)), facts), format_name, output)


FACTS = ("costs", "threshold", "predicted", "predicted_after", "fixed")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
