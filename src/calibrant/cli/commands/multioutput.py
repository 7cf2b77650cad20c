"""``calibrant multioutput``: several class labels per row, such as colour and size."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.arrays import FloatArray
from calibrant.calibrators import MultioutputCalibration
from calibrant.cli.choices import make_calibrator
from calibrant.cli.commands.apply import in_order
from calibrant.cli.commands.report import chosen_output
from calibrant.cli.console import note, print_notes, printed, tell
from calibrant.cli.files import check_writable, opened_source, shown_name
from calibrant.cli.progress import Progress
from calibrant.cli.rendering import Result, Section, deliver, number_text
from calibrant.cli.score_space import check_declared
from calibrant.errors import ParameterError, PredictionError
from calibrant.persistence.replacing import replacing
from calibrant.predictions import Predictions
from calibrant.presentation.sentences import counted
from calibrant.remedies import NAME_OUTPUT_COLUMNS, for_command_line
from calibrant.report.outputs import OutputAssessment, assess_outputs
from calibrant.space import Space
from calibrant.tables.array_source import ArraySource
from calibrant.tables.columns import ScoreColumns, listed
from calibrant.tables.complete_rows import CompleteRows
from calibrant.tables.output_columns import Outputs, output_columns, read_outputs
from calibrant.tables.rewriting import check_output, rewrite
from calibrant.tables.score_checks import ScoreParser
from calibrant.tables.source import Batch, Source

__all__ = ["apply_outputs", "evaluate_outputs", "fit_outputs", "report_outputs"]


def evaluate_outputs(file: Path, format_name: str, output: Path | None, **choice: Any) -> None:
    """Measure all labels before and after calibration."""
    check_writable(output, file)
    found = _assessed(file, **choice)
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
    sections = (
        Section(
            "means",
            ("mean over labels", "before", "after"),
            [(one.metric, number_text(one.before), number_text(one.after)) for one in found.means],
            means,
        ),
        Section(
            "labels",
            ("label", "classes", "known", "metric", "before", "after"),
            [
                (
                    row.output,
                    str(row.n_classes),
                    str(row.n_known),
                    one.metric,
                    number_text(one.before),
                    number_text(one.after),
                )
                for row in found.outputs
                for one in row.scores
            ],
            labels,
            (0, 3),
        ),
    )
    heading = f"{shown_name(file)}: {counted(found.n_rows, 'row')}, {counted(found.n_labels, 'label')}"
    facts = {"file": str(file), "method": found.method}
    deliver(Result(heading, sections, (found.headline,), facts), format_name, output)


def report_outputs(file: Path, output: Path, **choice: Any) -> None:
    """Write a report on all labels."""
    _, kind = chosen_output(file, output, None)
    check_writable(output, file)
    found = _assessed(file, **choice)
    text = {"html": found.to_html, "json": found.to_json, "markdown": found.to_markdown}[kind]()
    with replacing(output) as stream:
        stream.write(text.encode())
    printed(for_command_line(str(found)).rstrip())
    printed(f"\nThe report is in {output}.", err=True)


def fit_outputs(file: Path, method: str, output: Path, **choice: Any) -> None:
    """Fit the calibrators of all labels, and save them."""
    check_writable(output, file)
    make_calibrator(method)
    with Progress("reading") as progress:
        names, rows = _read(file, **choice)
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
    tell(f"Wrote {output} ({counted(n_rows, 'row')}); score columns now hold calibrated probabilities.")


def _assessed(file: Path, method: str, cv: int, **choice: Any) -> OutputAssessment:
    make_calibrator(method)
    with Progress("reading") as progress:
        names, rows = _read(file, **choice)
        progress.update(0, None, f"cross-validating {method}")
        labels, title = np.column_stack(rows.labels), shown_name(file)
        return assess_outputs(labels, rows.predictions, method=method, cv=cv, names=names, title=title)


def _read(
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
