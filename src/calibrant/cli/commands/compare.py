"""``calibrant compare``: compare methods by cross-validation or on a test set."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.choices import make_calibrator
from calibrant.cli.console import print_notes
from calibrant.cli.files import check_declared, check_writable, opened, opened_source, shown_name
from calibrant.cli.options import is_stream
from calibrant.cli.progress import Progress
from calibrant.cli.rendering import Result, Section, deliver, interval_header, number_text
from calibrant.comparison import Comparison, MethodResult
from calibrant.comparison import compare as compared
from calibrant.errors import LabelError
from calibrant.presentation import percent
from calibrant.presentation.sentences import counted
from calibrant.remedies import for_command_line
from calibrant.tables.prediction_file import Table

__all__ = ["compare"]


def compare(
    file: Path,
    methods: str,
    cv: int,
    test_file: Path | None,
    test_label: str | None,
    metrics: str | None,
    level: float,
    format_name: str,
    output: Path | None,
    **choice: Any,
) -> None:
    """Compare calibration methods by cross-validation or on a test set."""
    check_writable(output, file, test_file)
    if test_label is not None and test_file is None:
        raise click.UsageError("--test-label is for --test; give the file with the test set.")
    names = _names(methods)
    for name in names:
        make_calibrator(name)
    with Progress("reading") as progress:
        rows, found = _read(file, choice, progress)
        test = None
        if test_file is not None:
            test = _read_test(test_file, test_label, {**choice, **found, "group": None}, progress)
        comparison = compared(
            rows.labels,
            rows.predictions,
            names,
            sample_weight=rows.weights,
            groups=rows.groups,
            cv=cv,
            test=None if test is None else (test.labels, test.predictions, test.weights),
            metrics=None if metrics is None else _names(metrics),
            level=level,
            refit=False,
            progress=progress.update,
        )
    deliver(_result(comparison, file), format_name, output)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _read(path: Path, choice: dict[str, Any], progress: Progress) -> tuple[Table, dict[str, Any]]:
    """Return the rows, and the label, columns and space that were given or found."""
    with opened(path, choice, progress) as file:
        table = file.read(progress.rows)
        check_declared(path, table.predictions)
        print_notes(file.notes)
        return table, {"label": file.label, "columns": file.columns, "space": file.space.value}


def _read_test(path: Path, label: str | None, choice: dict[str, Any], progress: Progress) -> Table:
    """Return the test set: its columns have the names of the first file, or are found in the same way."""
    if not is_stream(path):  # which can be read only once
        with opened_source(path, choice["separator"], choice["decimal"]) as source:
            available = source.columns
        choice["label"] = choice["label"] if choice["label"] in available else None
        choice["columns"] = choice["columns"] if set(choice["columns"].names) <= set(available) else None
    choice["label"] = label or choice["label"]
    try:
        return _read(path, choice, progress)[0]
    except LabelError as error:
        with_option = str(error).replace("say which", "say with --test-label which")
        raise LabelError(with_option) from error


def _result(comparison: Comparison, file: Path) -> Result:
    best = comparison.best.name
    notes = [f"{comparison.how}. {comparison.base_sentence}"]
    near = [result.name for result in comparison.equally_good()]
    notes.append(
        f"Lowest log-loss: {best}."
        + (
            f" Within two standard errors of it: {', '.join(near)}."
            if near
            else " All others are significantly worse."
        )
    )
    for result in comparison.results:
        notes.extend(f"{result.name}: {message}" for message in result.notes)
        if result.failed:
            notes.append(f"{result.name} failed: {result.error}.")
    section = Section(
        "methods",
        ("method", "log-loss", "difference", interval_header(comparison.level), "Brier", "changed"),
        [_row(result) for result in comparison.results],
        [_record(result) for result in comparison.results],
    )
    classes = comparison.data.classes.tolist()
    facts = {
        "file": str(file),
        "n_rows": comparison.n_rows,
        "n_test_rows": comparison.n_test_rows,
        "classes": classes,
        "level": comparison.level,
        "how": comparison.how,
        "base": comparison.base,
        "best": best,
    }
    heading = f"{shown_name(file)}: {counted(comparison.n_rows, 'row')}, {len(classes)} classes"
    return Result(heading, (section,), tuple(notes), facts)


def _row(result: MethodResult) -> tuple[str, ...]:
    if result.failed:
        return (result.name, "failed", "", "", "", "")
    gap = result.differences.get("log_loss")
    return (
        result.name,
        number_text(result.scores["log_loss"]),
        "" if gap is None else f"{gap.estimate:+.4f}",
        "" if gap is None else f"{gap.low:+.4f} to {gap.high:+.4f}",
        number_text(result.scores["brier_score"]),
        percent(result.changed or 0.0),
    )


def _record(result: MethodResult) -> dict[str, Any]:
    record: dict[str, Any] = {"method": result.name, **result.scores}
    for name, gap in result.differences.items():
        record |= {f"{name}_difference": gap.estimate, f"{name}_low": gap.low, f"{name}_high": gap.high}
        record[f"{name}_p_value"] = gap.p_value
    return record | {
        "changed": result.changed,
        "seconds": result.seconds,
        "notes": [for_command_line(message) for message in result.notes],
        "error": result.error,
    }
