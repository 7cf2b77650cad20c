"""``calibrant fit``: fit a calibrator to a file of predictions and save it."""

import inspect
from pathlib import Path
from typing import Any

import click
import numpy as np

from calibrant.calibrator import Calibrator
from calibrant.cli.fitted_map import fitted_map
from calibrant.cli.method_choice import made
from calibrant.cli.notes import noted
from calibrant.cli.options import check_writable
from calibrant.cli.rendering import delivered, number_text, percent_text
from calibrant.cli.result import Result, Section
from calibrant.cli.score_meaning import check_declared
from calibrant.cli.waiting import Waiting, messages_in
from calibrant.metrics import brier_score, log_loss
from calibrant.tables.file_set import open_source
from calibrant.tables.prediction_file import PredictionFile, Table
from calibrant.wording import LONGEST_NAME, counted

__all__ = ["fit"]


def fit(
    file: Path,
    method: str,
    settings: tuple[str, ...],
    output: Path,
    format_name: str,
    **choice: Any,
) -> None:
    """Fit a calibrator to held-out predictions of the classifier, and save it."""
    check_writable(output, file)
    calibrator = made(method, settings)
    if choice["group"] is not None and "groups" not in inspect.signature(calibrator.fit).parameters:
        raise click.UsageError(
            f"--group is for methods that cross-validate internally, such as auto; {method} does not."
        )
    with Waiting("reading") as waiting, open_source(file) as source:
        predictions = PredictionFile(source, **choice)
        table = predictions.read()
        check_declared(file, table.predictions)
        noted(predictions.notes)
        waiting.update(0, None, f"fitting {method}")
        groups: dict[str, Any] = {} if table.groups is None else {"groups": table.groups}
        with messages_in(waiting, f"fitting {method}"):
            calibrator.fit(table.predictions, table.labels, table.weights, **groups)
        _remember_columns(calibrator, predictions)
        result = _result(file, method, calibrator, table, output)
        calibrator.save(output)
    delivered(result, format_name, None)


def _remember_columns(calibrator: Calibrator, predictions: PredictionFile) -> None:
    """Store column names that differ from the class names, so that apply can find the columns."""
    assert predictions.match is not None
    names = predictions.columns.names
    if predictions.match.by_order and len(names) == len(calibrator.classes_):
        calibrator.column_names_ = np.array(names)


def _result(file: Path, method: str, calibrator: Calibrator, table: Table, output: Path) -> Result:
    after = calibrator.transform(table.predictions)
    data = table.labelled()
    given = data.classes[data.labels]
    rows, records = [], []
    kept = slice(None) if table.weights is None else table.weights > 0
    for metric in (log_loss, brier_score):
        values = [
            metric(given, predictions.take(kept), sample_weight=data.weights)
            for predictions in (table.predictions, after)
        ]
        rows.append((metric.__name__, *map(number_text, values)))
        records.append({"metric": metric.__name__, "before": values[0], "after": values[1]})
    changed = float(np.mean(after.predicted != table.predictions.predicted))
    notes = (
        *fitted_map(calibrator, LONGEST_NAME),
        f"The predicted class changes in {percent_text(changed)} of the rows. Scores are from the calibration set itself; use "
        "'calibrant compare' for cross-validated ones.",
        f"Saved to {output}.",
    )
    heading = (
        f"{file.name}: {method} fitted to {counted(table.predictions.n_rows, 'row')}, {len(calibrator.classes_)} classes, "
        f"{calibrator.space_}"
    )
    facts = {
        "file": str(file),
        "method": method,
        "calibrator": str(output),
        "n_rows": table.predictions.n_rows,
        "classes": calibrator.classes_,
        "space": calibrator.space_,
        "changed": changed,
        "learnt": fitted_map(calibrator),
    }
    return Result(heading, (Section("losses", ("metric", "before", "after"), rows, records),), notes, facts)
