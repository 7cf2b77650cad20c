"""``calibrant multilabel`` and ``multioutput``: several labels per row."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import MultilabelCalibration
from calibrant.arrays import Float64Array, FloatArray
from calibrant.calibrators import MultioutputCalibration
from calibrant.cli.choices import make_calibrator
from calibrant.cli.commands.apply import in_order
from calibrant.cli.commands.report import chosen_output
from calibrant.cli.console import note, print_notes, printed, tell
from calibrant.cli.files import check_declared, check_writable, opened_source, shown_name
from calibrant.cli.progress import Progress
from calibrant.cli.rendering import Result, Section, deliver
from calibrant.errors import LabelError, ParameterError, PredictionError
from calibrant.label_matrix import LabelScores
from calibrant.persistence.replacing import replacing
from calibrant.predictions import Predictions
from calibrant.presentation.sentences import counted
from calibrant.remedies import NAME_OUTPUT_COLUMNS, for_command_line
from calibrant.report.labels import LabelAssessment, assess_labels
from calibrant.report.outputs import OutputAssessment, assess_outputs
from calibrant.space import Space
from calibrant.tables.array_source import ArraySource
from calibrant.tables.columns import ScoreColumns, listed
from calibrant.tables.file_set import open_source
from calibrant.tables.output_columns import Outputs, output_columns, read_outputs
from calibrant.tables.prediction_file import chosen_columns, read_side_columns
from calibrant.tables.rewriting import check_output, rewrite
from calibrant.tables.score_checks import ScoreParser
from calibrant.tables.source import Batch, CompleteRows, Source

__all__ = [
    "apply_labels",
    "apply_outputs",
    "evaluate_labels",
    "evaluate_outputs",
    "fit_labels",
    "fit_outputs",
    "report_labels",
    "report_outputs",
]

CHANGE = {"before": "before", "after": "after"}
"""Columns of a table with scores before and after calibration."""


def _deliver(
    file: Path,
    found: LabelAssessment | OutputAssessment,
    sections: tuple[Section, ...],
    format_name: str,
    output: Path | None,
) -> None:
    heading = f"{shown_name(file)}: {counted(found.n_rows, 'row')}, {counted(found.n_labels, 'label')}"
    facts = {"file": str(file), "method": found.method}
    deliver(Result(heading, sections, (found.headline,), facts), format_name, output)


def _report(found: LabelAssessment | OutputAssessment, kind: str, output: Path) -> None:
    """Write a report, and print its summary."""
    text = {"html": found.to_html, "json": found.to_json, "markdown": found.to_markdown}[kind]()
    with replacing(output) as stream:
        stream.write(text.encode())
    printed(for_command_line(str(found)).rstrip())
    printed(f"\nThe report is in {output}.", err=True)


def _tell_applied(output: Path, n_rows: int) -> None:
    tell(f"Wrote {output} ({counted(n_rows, 'row')}); score columns now hold calibrated probabilities.")


# Labels that are present or absent


def evaluate_labels(file: Path, format_name: str, output: Path | None, **choice: Any) -> None:
    """Measure labels before and after calibration."""
    check_writable(output, file)
    found = _assessed_labels(file, **choice)
    averages = [asdict(row) for row in found.averages]
    labels = [
        {**asdict(row), "difference": None if row.difference is None else row.difference.value}
        for row in found.labels
    ]
    of_labels = {
        "label": "label",
        "known": "n_known",
        "positive": "n_positive",
        "log-loss before": "before",
        "after": "after",
    }
    sections = (
        Section.of("averages", {"metric": "metric", "average": "average", **CHANGE}, averages, (0, 1)),
        Section.of("labels", of_labels, labels),
    )
    _deliver(file, found, sections, format_name, output)


def report_labels(file: Path, output: Path, **choice: Any) -> None:
    """Write a report on all labels."""
    _, kind = chosen_output(file, output, None)
    check_writable(output, file)
    _report(_assessed_labels(file, **choice), kind, output)


def fit_labels(
    file: Path, space: str, columns: str, labels: str, missing: str | None, method: str, output: Path
) -> None:
    """Fit the calibrators of all labels, and save them."""
    check_writable(output, file)
    names, scores, outcomes = _read_labels(file, columns, labels, missing)
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
    _tell_applied(output, n_rows)


def _assessed_labels(
    file: Path, space: str, columns: str, labels: str, missing: str | None, method: str, cv: int
) -> LabelAssessment:
    names, scores, outcomes = _read_labels(file, columns, labels, missing)
    named = LabelScores.parse(scores, space).named(names)
    return assess_labels(outcomes, named, method=method, space=space, cv=cv, title=file.name)


def _read_labels(
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


# Labels with classes of their own


def evaluate_outputs(file: Path, format_name: str, output: Path | None, **choice: Any) -> None:
    """Measure all labels before and after calibration."""
    check_writable(output, file)
    found = _assessed_outputs(file, **choice)
    means = [{"metric": one.metric, "before": one.before, "after": one.after} for one in found.means]
    labels = [
        {
            "label": row.output,
            "n_classes": row.n_classes,
            "n_known": row.n_known,
            **{"metric": one.metric, "before": one.before, "after": one.after},
        }
        for row in found.outputs
        for one in row.scores
    ]
    of_labels = {"label": "label", "classes": "n_classes", "known": "n_known", "metric": "metric", **CHANGE}
    sections = (
        Section.of("means", {"mean over labels": "metric", **CHANGE}, means),
        Section.of("labels", of_labels, labels, (0, 3)),
    )
    _deliver(file, found, sections, format_name, output)


def report_outputs(file: Path, output: Path, **choice: Any) -> None:
    """Write a report on all labels."""
    _, kind = chosen_output(file, output, None)
    check_writable(output, file)
    _report(_assessed_outputs(file, **choice), kind, output)


def fit_outputs(file: Path, method: str, output: Path, **choice: Any) -> None:
    """Fit the calibrators of all labels, and save them."""
    check_writable(output, file)
    make_calibrator(method)
    with Progress("reading") as progress:
        names, rows = _read_outputs(file, **choice)
        progress.update(0, None, f"fitting {method}")
        fitted = MultioutputCalibration(method).fit(rows.predictions, np.column_stack(rows.labels))
    fitted.names_ = names
    fitted.save(output)
    n_rows = rows.predictions[0].n_rows
    tell(f"Wrote {output} ({counted(len(names), 'label')}, {counted(n_rows, 'row')}).")


def apply_outputs(
    file: Path,
    calibrator_path: Path,
    output: Path,
    space: str | None,
    columns: str | None,
    normalise: bool,
    drop_missing: bool,
    **signs: str | None,
) -> None:
    """Replace the scores of all labels by calibrated probabilities."""
    check_writable(output, calibrator_path)
    fitted = MultioutputCalibration.load(calibrator_path)
    calibrators = fitted.calibrators_
    kind = Space(space or calibrators[0].space_)
    names = fitted.names_ or [str(number) for number in range(len(calibrators))]
    with _table(file, **signs) as source, Progress(f"calibrating {shown_name(file)}") as progress:
        check_output(source, output)
        progress.expected_rows = source.approximate_rows()
        chosen = []
        for name, calibrator, found in zip(
            names, calibrators, output_columns(source, names, columns, kind), strict=True
        ):
            expected = [str(one) for one in calibrator.classes_.tolist()]
            ordered = in_order(found, expected)
            if ordered is None:
                raise PredictionError(
                    f"{calibrator_path} was fitted for the classes {listed(expected)} of {name!r}, but the score columns of "
                    f"{source.path} are {listed(found.names)}; {NAME_OUTPUT_COLUMNS}."
                )
            chosen.append(ordered)
        parsers = [ScoreParser(one, kind, normalise) for one in chosen]

        def parsed(batch: Batch) -> list[Predictions]:
            return [parser(batch) for parser in parsers]

        def calibrated(parts: list[Predictions]) -> FloatArray:
            new = [
                np.asarray(calibrator.predict_proba(part))
                for calibrator, part in zip(calibrators, parts, strict=True)
            ]
            return np.column_stack(
                [
                    part[:, 1:] if len(one.classes) == 1 else part
                    for part, one in zip(new, chosen, strict=True)
                ]
            )

        every = tuple(name for one in chosen for name in one.names)
        complete = CompleteRows(every)
        n_rows = rewrite(
            source,
            output,
            ScoreColumns(every, every),
            parsed,
            calibrated,
            select=complete if drop_missing else None,
            progress=progress.rows,
        )
    print_notes(f"{name}: {one.note}" for name, one in zip(names, parsers, strict=True) if one.note)
    print_notes([complete.note] if complete.note else [])
    _tell_applied(output, n_rows)


def _assessed_outputs(file: Path, method: str, cv: int, **choice: Any) -> OutputAssessment:
    make_calibrator(method)
    with Progress("reading") as progress:
        names, rows = _read_outputs(file, **choice)
        progress.update(0, None, f"cross-validating {method}")
        labels, title = np.column_stack(rows.labels), shown_name(file)
        return assess_outputs(labels, rows.predictions, method=method, cv=cv, names=names, title=title)


def _read_outputs(
    file: Path,
    labels: str,
    space: str,
    columns: str | None,
    missing: str | None,
    normalise: bool,
    **signs: str | None,
) -> tuple[list[str], Outputs]:
    """Return the names of the labels, and the rows of the file."""
    names = [name.strip() for name in labels.split(",") if name.strip()]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ParameterError(
            f"--labels must name two or more columns, such as colour,size, not {labels!r}; for one, use 'calibrant fit'."
        )
    with _table(file, **signs) as source:
        for name in names:
            source.column(name, "label")
        chosen = output_columns(source, names, columns, Space(space))
        if columns is None:
            _tell_columns(names, chosen)
        rows = read_outputs(source, names, chosen, Space(space), missing, normalise)
    for predictions in rows.predictions:
        check_declared(file, predictions)
    print_notes(rows.notes)
    return names, rows


def _tell_columns(names: Sequence[str], chosen: Sequence[ScoreColumns]) -> None:
    for name, one in zip(names, chosen, strict=True):
        note(f"scores of {name!r} are from {listed(one.names, shown=4)}.")


@contextmanager
def _table(file: Path, separator: str | None = None, decimal: str | None = None) -> Iterator[Source]:
    """Open a file whose classes have columns of their own."""
    with opened_source(file, separator, decimal) as source:
        if isinstance(source, ArraySource):
            raise ParameterError(
                f"{file} is a file of arrays; several class labels per row need columns, such as CSV or Parquet."
            )
        yield source
