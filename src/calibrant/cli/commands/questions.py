"""``calibrant subgroups``, ``decisions`` and ``multilabel``."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import MultilabelCalibration, load
from calibrant.arrays import Float64Array
from calibrant.cli.commands.questions_input import cost_matrix, side_columns_of
from calibrant.cli.commands.report import chosen_output
from calibrant.cli.console import print_notes, printed, tell
from calibrant.cli.files import check_writable, opened
from calibrant.cli.progress import Progress
from calibrant.cli.rendering import Result, Section, deliver, number_text
from calibrant.cli.score_space import check_declared
from calibrant.errors import LabelError, ParameterError
from calibrant.hypothesis_tests import subgroup_calibration
from calibrant.label_matrix import LabelScores
from calibrant.persistence.replacing import replacing
from calibrant.presentation import to_plain
from calibrant.presentation.sentences import counted
from calibrant.remedies import for_command_line
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.labels import LabelAssessment, assess_labels
from calibrant.report.sections.decisions import decision_numbers, decision_sentences
from calibrant.space import Space
from calibrant.tables.columns import listed
from calibrant.tables.file_set import open_source
from calibrant.tables.rewriting import check_output, rewrite
from calibrant.tables.score_checks import ScoreParser
from calibrant.tables.side_columns import chosen_columns, read_side_columns

__all__ = [
    "apply_labels",
    "decisions",
    "evaluate_labels",
    "fit_labels",
    "report_labels",
    "subgroups",
]

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
    columns = found.columns()
    records = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    percent = f"{100 * level:g} % interval"
    shown = records if show_all or format_name != "table" else records[:SHOWN]
    rows = [
        (
            record["segment"],
            str(record["n_rows"]),
            number_text(record["predicted"]),
            number_text(record["observed"]),
            number_text(record["difference"]),
            f"{number_text(record['low'])} to {number_text(record['high'])}",
            number_text(record["p_value"]),
        )
        for record in shown
    ]
    headers = ("segment", "rows", "predicted", "observed", "difference", percent, "p")
    n_rejected = len(found.rejected)
    notes = [
        f"{n_rejected} of {counted(len(records), 'segment')} {'is' if n_rejected == 1 else 'are'} miscalibrated at the 5 % "
        f"level, adjusted for the search; event: {found.event}."
    ]
    if len(shown) < len(records):
        notes.append(f"{counted(len(records) - len(shown), 'further segment')}; give --all for all.")
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
    plain = [{name: _plain(value) for name, value in record.items()} for record in records]
    deliver(
        Result(heading, (Section("segments", headers, rows, plain),), tuple(notes), facts),
        format_name,
        output,
    )


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
    fitted = None
    if calibrator is not None:
        fitted = load(calibrator)
    with Progress("reading") as progress, opened(file, choice, progress) as predictions:
        table = predictions.read(progress.rows)
        check_declared(file, table.predictions)
    rows = EvaluationSet.parse(table.labels, table.predictions, table.weights, table.groups)
    after = None if fitted is None else rows.with_predictions(fitted.transform(rows.predictions))
    numbers = decision_numbers(rows, after, matrix, level)
    assert numbers is not None
    print_notes(predictions.notes)
    percent = f"{100 * level:g} % interval"
    of_costs: list[dict[str, Any]] = []
    for name, estimate in (
        ("cost, as given", numbers.before),
        ("cost, calibrated", numbers.after),
        ("difference", numbers.difference),
    ):
        if estimate is not None:
            of_costs.append(
                {"cost": name, "value": estimate.value, "low": estimate.low, "high": estimate.high}
            )
    sections = [
        Section(
            "costs",
            ("cost per row", "value", percent),
            [
                (one["cost"], number_text(one["value"]), _interval(one["low"], one["high"]))
                for one in of_costs
            ],
            of_costs,
        )
    ]
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
        headers = (
            "threshold",
            "net benefit",
            percent,
            *(["calibrated"] if after is not None else []),
            "act on all",
        )
        sections.append(
            Section(
                "net_benefit",
                headers,
                [
                    (
                        f"{one['threshold']:g}",
                        number_text(one["net_benefit"]),
                        _interval(one["low"], one["high"]),
                        *([number_text(one["calibrated"])] if after is not None else []),
                        number_text(one["act_on_all"]),
                    )
                    for one in of_thresholds
                ],
                of_thresholds,
            )
        )
    facts = {"file": str(file), "level": level, **{k: v for k, v in to_plain(numbers).items() if k in FACTS}}
    heading = f"{file.name}: {counted(rows.n_rows, 'row')}, {rows.n_classes} classes"
    deliver(Result(heading, tuple(sections), tuple(decision_sentences(numbers)), facts), format_name, output)


FACTS = ("costs", "threshold", "predicted", "predicted_after", "fixed")


def evaluate_labels(file: Path, format_name: str, output: Path | None, **choice: Any) -> None:
    """Measure labels before and after calibration."""
    check_writable(output, file)
    found = _assessed(file, **choice)
    averages = [asdict(row) for row in found.averages]
    labels = [
        {**asdict(row), "difference": None if row.difference is None else row.difference.value}
        for row in found.labels
    ]
    sections = (
        Section(
            "averages",
            ("metric", "average", "before", "after"),
            [
                (a["metric"], a["average"], number_text(a["before"]), number_text(a["after"]))
                for a in averages
            ],
            averages,
            (0, 1),
        ),
        Section(
            "labels",
            ("label", "known", "positive", "log-loss before", "after"),
            [
                (
                    one["label"],
                    str(one["n_known"]),
                    str(one["n_positive"]),
                    number_text(one["before"]),
                    number_text(one["after"]),
                )
                for one in labels
            ],
            labels,
        ),
    )
    heading = f"{file.name}: {counted(found.n_rows, 'row')}, {counted(found.n_labels, 'label')}"
    deliver(
        Result(heading, sections, (found.headline,), {"file": str(file), "method": found.method}),
        format_name,
        output,
    )


def report_labels(file: Path, output: Path, **choice: Any) -> None:
    """Write a report on all labels."""
    _, kind = chosen_output(file, output, None)
    check_writable(output, file)
    found = _assessed(file, **choice)
    text = {"html": found.to_html, "json": found.to_json, "markdown": found.to_markdown}[kind]()
    with replacing(output) as stream:
        stream.write(text.encode())
    printed(for_command_line(str(found)).rstrip())
    printed(f"\nThe report is in {output}.", err=True)


def fit_labels(
    file: Path, space: str, columns: str, labels: str, missing: str | None, method: str, output: Path
) -> None:
    """Fit the calibrators of all labels, and save them."""
    check_writable(output, file)
    names, scores, outcomes = _read(file, columns, labels, missing)
    fitted = MultilabelCalibration(method, space=space).fit(scores, outcomes)
    fitted.names_ = names
    fitted.save(output)
    strength = "" if fitted.strength_ is None else f" Regularisation strength {fitted.strength_:g}."
    tell(f"Wrote {output} ({counted(len(names), 'label')}, {counted(len(scores), 'row')}).{strength}")


def apply_labels(file: Path, space: str, columns: str, calibrator_path: Path, output: Path) -> None:
    """Replace the scores of all labels by calibrated probabilities."""
    check_writable(output, calibrator_path)
    fitted = MultilabelCalibration.load(calibrator_path)
    if space != fitted.space:
        raise ParameterError(f"{calibrator_path} was fitted to {fitted.space}; give --space {fitted.space}.")
    with open_source(file) as source, Progress(f"calibrating {file.name}") as progress:
        check_output(source, output)
        progress.expected_rows = source.approximate_rows()
        chosen = source.score_columns(columns, (), Space.LOGITS)
        if len(chosen.names) != len(fitted.calibrators_):
            raise ParameterError(
                f"{file} has {counted(len(chosen.names), 'score column')}, but {calibrator_path} was fitted to "
                f"{counted(len(fitted.calibrators_), 'label')}; give the columns of the fit."
            )
        n_rows = rewrite(
            source,
            output,
            chosen,
            ScoreParser(chosen, Space.LOGITS, False),
            lambda rows: fitted.predict_proba(np.asarray(rows.scores)),
            progress=progress.rows,
        )
    tell(f"Wrote {output} ({counted(n_rows, 'row')}); score columns now hold calibrated probabilities.")


def _assessed(
    file: Path, space: str, columns: str, labels: str, missing: str | None, method: str, cv: int
) -> LabelAssessment:
    names, scores, outcomes = _read(file, columns, labels, missing)
    named = LabelScores.parse(scores, space).named(names)
    return assess_labels(outcomes, named, method=method, space=space, cv=cv, title=file.name)


def _read(
    file: Path, columns: str, labels: str, missing: str | None
) -> tuple[list[str], Float64Array, Float64Array]:
    """Return names, scores and outcomes of all labels."""
    of_scores, of_labels = chosen_columns(file, columns), chosen_columns(file, labels)
    if len(of_scores) != len(of_labels):
        raise LabelError(
            f"{file} has {counted(len(of_scores), 'score column')} and {counted(len(of_labels), 'outcome column')}; give one of "
            "each per label, in the same order."
        )
    overlap = set(of_scores) & set(of_labels)
    if overlap:
        raise LabelError(
            f"{file}: column {min(overlap)!r} is both a score and an outcome; choose other columns."
        )
    values = read_side_columns(file, [*of_scores, *of_labels])
    text = [name for name in of_scores if values[name].dtype.kind not in "iuf"]
    if text:
        raise ParameterError(
            f"{file}: the score column {text[0]!r} has values that are not numbers; repair them."
        )
    scores = np.column_stack([values[name].astype(np.float64) for name in of_scores])
    outcomes = np.column_stack([_outcomes(file, name, values[name], missing) for name in of_labels])
    return list(of_labels), scores, outcomes


OUTCOMES = {"1": 1.0, "0": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}


def _outcomes(file: Path, name: str, values: Any, missing: str | None) -> Float64Array:
    found = []
    for value in values.tolist():
        is_missing = value is None or value != value
        word = "" if is_missing else str(int(value) if value in (0, 1) else value)
        if is_missing or word == missing:
            found.append(np.nan)
        elif word.lower() in OUTCOMES:
            found.append(OUTCOMES[word.lower()])
        else:
            raise LabelError(
                f"{file}: the outcome column {name!r} has the value {word!r}; outcomes are 1 and 0, empty cells are missing, "
                "and --missing names another value for these."
            )
    return np.array(found)


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{number_text(low)} to {number_text(high)}"


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
