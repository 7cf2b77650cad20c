"""``calibrant fit``: fit a calibrator to a file of predictions and save it."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.calibrators import Chain
from calibrant.cli.choices import Metric, make_calibrator, name_of
from calibrant.cli.console import print_notes
from calibrant.cli.files import (
    check_declared,
    check_writable,
    correctness_names,
    opened,
    output_file,
    shown_name,
)
from calibrant.cli.options import is_stream
from calibrant.cli.progress import Progress, messages_in
from calibrant.cli.rendering import Result, Section, deliver
from calibrant.distributed.fitting import fit_counts, fits_counts
from calibrant.errors import NoGraphError, WeightError
from calibrant.graph.description import described
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import brier_score, log_loss
from calibrant.objective.source import BatchSource
from calibrant.predictions import read_only
from calibrant.presentation import percent
from calibrant.presentation.sentences import LONGEST_NAME, counted, shortened
from calibrant.streaming import Accumulator
from calibrant.tables.prediction_file import CodedRows, PredictionFile

__all__ = ["RowSpool", "fit"]

LOSSES: tuple[Metric, ...] = (log_loss, brier_score)
SCORES_IN_MEMORY = 4_000_000  # 32 MB; more are read in batches


def fit(
    file: Path, method: str, settings: tuple[str, ...], output: Path, format_name: str, **choice: Any
) -> None:
    """Fit a calibrator to held-out predictions of the classifier, and save it."""
    check_writable(output, file)
    calibrator = make_calibrator(method, settings)
    if choice["group"] is not None and "groups" not in inspect.signature(calibrator.fit).parameters:
        raise click.UsageError(
            f"--group is for methods that cross-validate internally, such as auto; {method} does not."
        )
    with Progress("reading") as progress, opened(file, choice, progress) as predictions:
        is_large = predictions.approximate_scores() > SCORES_IN_MEMORY
        if is_large and hasattr(calibrator, "fit_rows") and choice["group"] is None:
            fitted = _fitted_in_batches(predictions, calibrator, method, progress)
        else:
            fitted = _fitted_in_memory(predictions, calibrator, method, progress)
        result = _result(file, method, calibrator, fitted, output)
        with output_file(output, ".npz") as path:
            calibrator.save(path)
    if is_stream(output):
        print_notes(result.notes)
    else:
        deliver(result, format_name, None)


class _Fitted(NamedTuple):
    """Mean losses of the calibration set before and after the fit, and the fraction of changed predictions."""

    n_rows: int
    losses: dict[str, tuple[float, float]]
    changed: float


def _fitted_in_memory(
    predictions: PredictionFile, calibrator: Calibrator, method: str, progress: Progress
) -> _Fitted:
    table = predictions.read(progress.rows)
    check_declared(predictions.path, table.predictions)
    print_notes(predictions.notes)
    progress.update(0, None, f"fitting {method}")
    groups: dict[str, Any] = {} if table.groups is None else {"groups": table.groups}
    with messages_in(progress, f"fitting {method}"):
        calibrator.fit(table.predictions, table.labels, table.weights, **groups)
    _remember_columns(calibrator, predictions)
    after = calibrator.transform(table.predictions)
    data = table.labelled()
    given = data.classes[data.labels]
    kept = slice(None) if table.weights is None else table.weights > 0
    losses = {
        name_of(metric): (
            metric(given, table.predictions.take(kept), sample_weight=data.weights),
            metric(given, after.take(kept), sample_weight=data.weights),
        )
        for metric in LOSSES
    }
    changed = float(np.mean(after.predicted != table.predictions.predicted))
    return _Fitted(table.predictions.n_rows, losses, changed)


def _fitted_in_batches(
    predictions: PredictionFile, calibrator: Any, method: str, progress: Progress
) -> _Fitted:
    """Fit rows that are read again for every pass, from a temporary file of numbers."""
    with ExitStack() as stack:
        spool = predictions.visit(lambda: stack.enter_context(closing(RowSpool(progress.rows))))
        assert isinstance(spool, RowSpool)
        if spool.n_counted == 0:
            raise WeightError(f"{predictions.path}: all weights are zero; at least one must be positive.")
        check_declared(predictions.path, next(spool.batches()).predictions)
        print_notes(predictions.notes)
        n_passes = 0

        def batches() -> Iterator[LabelledPredictions]:
            nonlocal n_passes
            n_passes += 1
            done, step = 0, f"fitting {method}, pass {n_passes}"
            for data in spool.batches():
                yield data
                done += data.n_rows
                progress.rows(done, step)

        source = BatchSource(batches)
        if fits_counts(calibrator):
            fit_counts(calibrator, source)
        else:
            calibrator.fit_rows(source)
        _remember_columns(calibrator, predictions)
        before, after = ([Accumulator(metric) for metric in LOSSES] for _ in range(2))
        n_changed = done = 0
        for data in spool.batches():
            labels, given = data.labels, replace(data.predictions, classes=None)
            calibrated = calibrator.transform(given)
            for both, scores in ((before, given), (after, calibrated)):
                for sums in both:
                    sums.update(labels, replace(scores, classes=None), data.weights)
            n_changed += int((calibrated.predicted != given.predicted).sum())
            done += data.n_rows
            progress.rows(done, "applying")
    losses = {
        name_of(metric): (first.result(), second.result())
        for metric, first, second in zip(LOSSES, before, after, strict=True)
    }
    return _Fitted(spool.n_rows, losses, n_changed / spool.n_counted)


def _remember_columns(calibrator: Calibrator, predictions: PredictionFile) -> None:
    """Store column names that differ from the class names, so that apply and export can find the columns."""
    assert predictions.match is not None
    names = predictions.columns.names
    is_single = len(names) == 1 and len(calibrator.classes_) == 2
    if is_single or (predictions.match.by_order and len(names) == len(calibrator.classes_)):
        calibrator.column_names_ = np.array(names)


def _result(file: Path, method: str, calibrator: Calibrator, fitted: _Fitted, output: Path) -> Result:
    records = [
        {"metric": name, "before": before, "after": after} for name, (before, after) in fitted.losses.items()
    ]
    losses = Section.of("losses", {"metric": "metric", "before": "before", "after": "after"}, records)
    notes = (
        *fitted_map(calibrator, LONGEST_NAME),
        f"The predicted class changes in {percent(fitted.changed)} of the rows. Scores are from the calibration set "
        "itself; use 'calibrant compare' for cross-validated ones.",
        f"Saved to {'standard output' if is_stream(output) else output}.",
    )
    heading = (
        f"{shown_name(file)}: {method} fitted to {counted(fitted.n_rows, 'row')}, {len(calibrator.classes_)} classes, "
        f"{calibrator.space_}"
    )
    facts = {
        "file": str(file),
        "method": method,
        "calibrator": str(output),
        "n_rows": fitted.n_rows,
        "classes": calibrator.classes_,
        "space": calibrator.space_,
        "changed": fitted.changed,
        "learnt": fitted_map(calibrator),
    }
    return Result(heading, (losses,), notes, facts)


# With more operations than this, a graph is only summarised.
MOST_SENTENCES = 8


def fitted_map(calibrator: Calibrator, longest_name: int | None = None) -> list[str]:
    """Return sentences on a fitted calibrator, with class names shortened to a given length."""
    explanation = getattr(calibrator, "explanation_", None)
    if explanation:
        return [str(explanation)]
    names = correctness_names() or [str(label) for label in calibrator.classes_.tolist()]
    if longest_name is not None:
        names = [shortened(name, longest_name) for name in names]
    try:
        graph = calibrator.graph()
    except NoGraphError:
        return _chosen(calibrator)
    sentences = described(graph, names)
    if not 0 < len(sentences) <= MOST_SENTENCES:
        sentences = [f"A map of {len(graph.nodes)} operations; graph() lists them."]
    return [*sentences, *_chosen(calibrator)]


def _chosen(calibrator: Calibrator) -> list[str]:
    """Return the parameters given as a grid or "auto", with the values selected by the fit."""
    parts = calibrator.calibrators_ if isinstance(calibrator, Chain) else [calibrator]
    found = [
        f"{name} {value:.4g}"
        for part in parts
        for name, given in part.get_params(deep=False).items()
        if not isinstance(given, int | float)
        and isinstance(value := getattr(part, f"{name}_", None), int | float)
        and not isinstance(value, bool)
    ]
    return [f"Chosen by cross-validation: {', '.join(found)}."] if found else []


class RowSpool:
    """Visitor that writes the checked rows of a file to a temporary file of numbers, which is read again quickly.

    Text is parsed and checked once, whatever the number of passes of a fit. Memory holds one batch at a time. The
    temporary file takes 8 bytes per score (4 for float32) and has no name, so that it never outlives the process.
    """

    def __init__(self, progress: Callable[[int], object]) -> None:
        self._progress = progress
        self._file = TemporaryFile()  # noqa: SIM115 (open until the fit ends)
        self._sizes: list[int] = []
        self._template: LabelledPredictions | None = None
        self.n_rows = 0

    def __call__(self, rows: CodedRows) -> None:
        """Write a batch."""
        self.n_rows += rows.n_rows
        if rows.data is not None:
            data = rows.data
            self._template = self._template or data.take(slice(0, 1))
            self._sizes.append(data.n_rows)
            for array in (data.predictions.scores, data.labels, data.weights):
                if array is not None:
                    self._file.write(np.ascontiguousarray(array).data)
        self._progress(self.n_rows)

    @property
    def n_counted(self) -> int:
        """Number of rows of positive weight."""
        return sum(self._sizes)

    def batches(self) -> Iterator[LabelledPredictions]:
        """Yield all rows in the batches in which they were written."""
        self._file.flush()
        start = 0
        for n_rows in self._sizes:
            assert self._template is not None
            one = self._template
            scores, start = self._array(start, (n_rows, one.n_classes), one.predictions.scores.dtype)
            labels, start = self._array(start, (n_rows,), one.labels.dtype)
            weights = None
            if one.weights is not None:
                weights, start = self._array(start, (n_rows,), one.weights.dtype)
            predictions = replace(one.predictions, scores=read_only(scores))
            yield LabelledPredictions(predictions, labels, one.classes, weights)

    def _array(self, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[NDArray[Any], int]:
        array = np.empty(shape, dtype)
        self._file.seek(start)
        self._file.readinto(array.reshape(-1).view(np.uint8).data)
        return array, start + array.nbytes

    def close(self) -> None:
        """Remove the temporary file."""
        self._file.close()
