"""``calibrant report``: write a report with verdict, recommendation and evidence."""

import shlex
import webbrowser
import zlib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from calibrant.cli.choices import make_calibrator
from calibrant.cli.console import print_notes, printed, tell
from calibrant.cli.files import (
    by_correctness,
    check_declared,
    check_writable,
    cost_matrix,
    opened,
    output_file,
    shown_name,
    side_columns_of,
)
from calibrant.cli.measurement import RowSums
from calibrant.cli.options import ARGUMENTS, check_exists, is_stream
from calibrant.cli.progress import Progress
from calibrant.distributed.evaluation import metrics_by_name
from calibrant.distributed.source import Smallest
from calibrant.errors import FileFormatError, WeightError
from calibrant.persistence.replacing import replacing
from calibrant.predictions import Predictions, read_only
from calibrant.remedies import for_command_line
from calibrant.report import Assessment, assess
from calibrant.report.all_rows import METRICS_OF_ALL_ROWS, with_all_rows
from calibrant.report.contents import Origin
from calibrant.report.sections.data import date_now
from calibrant.tables.columns import ScoreColumns
from calibrant.tables.file_set import FileSet
from calibrant.tables.formats import known_ending
from calibrant.tables.prediction_file import CodedRows, PredictionFile

__all__ = [
    "SAMPLE_ROWS",
    "assessed_in_batches",
    "chosen_output",
    "earlier_report",
    "names_of",
    "report",
    "written",
]

SCORES_IN_MEMORY = 20_000_000  # of more, a report in memory would draw a sample too

SUFFIXES = {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown"}
BLOCK = 2**20
MOST_NAMES = 8
ENDINGS = {"html": ".html", "json": ".json", "markdown": ".md"}


def report(
    file: Path,
    output: Path | None,
    format_name: str | None,
    is_opened: bool,
    baseline: Path | None,
    methods: str | None,
    cv: int,
    level: float,
    title: str | None,
    by: str | None = None,
    costs: str | None = None,
    **choice: Any,
) -> None:
    """Write a report on the calibration of predictions."""
    path, chosen = chosen_output(file, output, format_name)
    check_writable(path, file, baseline)
    earlier = earlier_report(baseline, chosen)
    names = names_of(methods)
    options: dict[str, Any] = {"methods": names, "cv": cv, "title": title or shown_name(file)}
    matrix = cost_matrix(costs)
    with Progress("reading") as progress, opened(file, choice, progress) as predictions:
        if predictions.approximate_scores() > SCORES_IN_MEMORY and matrix is None and by is None:
            assessment = assessed_in_batches(predictions, level, progress, **options)
        else:
            table = predictions.read(progress.rows)
            check_declared(file, table.predictions)
            table = by_correctness(table)
            assessment = assess(
                table.labels,
                table.predictions,
                sample_weight=table.weights,
                groups=table.groups,
                side_columns=side_columns_of(predictions, by),
                costs=matrix,
                level=level,
                progress=progress.update,
                **options,
            )
        assessment = replace(assessment, origin=_origin(file, predictions, choice))
    print_notes(predictions.notes)
    written(assessment, chosen, path, is_opened=is_opened, earlier=earlier)


def chosen_output(file: Path, output: Path | None, format_name: str | None) -> tuple[Path, str]:
    """Return path and format of a report, by default a page next to the input.

    >>> chosen_output(Path("data/test.csv.gz"), None, None)[1], chosen_output(Path("a.csv"), Path("b.md"), None)[1]
    ('html', 'markdown')
    """
    if output is not None:
        chosen = format_name or ("html" if is_stream(output) else SUFFIXES.get(output.suffix.lower()))
        if chosen is None:
            raise click.UsageError(f"the extension of {output} is not .html, .json or .md; give --format.")
        return output, chosen
    chosen = format_name or "html"
    if is_stream(file):
        return Path(f"report{ENDINGS[chosen]}"), chosen
    name = file.name
    if any(sign in str(file) for sign in "*?["):  # a pattern, whose folder may be one, too
        return Path(f"report{ENDINGS[chosen]}"), chosen
    return file.with_name(f"{name.removesuffix(known_ending(file))}-report{ENDINGS[chosen]}"), chosen


def names_of(methods: str | None) -> list[str] | None:
    """Return the names of the methods to try, all of which exist."""
    names = None if methods is None else [name.strip() for name in methods.split(",")]
    for name in names or []:
        make_calibrator(name)
    return names


def earlier_report(path: Path | None, format_name: str) -> Assessment | None:
    """Read an earlier report."""
    if path is None:
        return None
    if format_name == "json":
        raise click.UsageError(
            "--baseline is for HTML and Markdown reports; a JSON report has the numbers of one file."
        )
    check_exists(path)
    try:
        return Assessment.from_json(path.read_text(encoding="utf-8"))
    except (FileFormatError, UnicodeDecodeError) as error:
        raise FileFormatError(
            f"{path} is not a report in JSON, which 'calibrant report --format json' writes."
        ) from error


def _origin(file: Path, predictions: PredictionFile, choice: dict[str, Any]) -> Origin:
    """Return date, hash and command, and the options that read the same rows."""
    options = {"label": predictions.label, "space": predictions.space.value}
    columns = choice["columns"] or _pattern(predictions.columns)
    if columns is not None:
        options["columns"] = columns
    for name in ("weight", "group", "positive", "separator", "decimal"):
        if choice.get(name):
            options[name] = choice[name]
    options |= {name.replace("_", "-"): "" for name in ("normalise", "drop_missing") if choice.get(name)}
    files = predictions.source.files if isinstance(predictions.source, FileSet) else [predictions.path]
    digest = sha256()
    for one in files:
        with one.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
    context = click.get_current_context(silent=True)
    arguments = [] if context is None else context.meta.get(ARGUMENTS, [])
    return Origin(
        date_now(),
        digest.hexdigest(),
        "" if is_stream(file) else str(file),
        shlex.join(["calibrant", *arguments]) if arguments else "",
        options,
    )


def _pattern(columns: ScoreColumns) -> str | None:
    """Return the text that chooses the same columns, if there is a short one."""
    if len(columns.names) == 1:
        return columns.names[0]
    before, _, after = columns.names[0].partition(columns.classes[0])
    if (before or after) and all(
        name == f"{before}{one}{after}" for name, one in zip(columns.names, columns.classes, strict=True)
    ):
        return f"{before}*{after}"
    fits = len(columns.names) <= MOST_NAMES and not any("," in name for name in columns.names)
    return ",".join(columns.names) if fits else None


def written(
    assessment: Assessment,
    format_name: str,
    output: Path,
    *,
    is_opened: bool = False,
    earlier: Assessment | None = None,
) -> None:
    """Write a report and print its summary."""
    if format_name == "json":
        text = assessment.to_json()
    else:
        write = assessment.to_html if format_name == "html" else assessment.to_markdown
        text = write() if earlier is None else write(baseline=earlier)
    with output_file(output, ENDINGS[format_name]) as path, replacing(path) as stream:
        stream.write(text.encode())
    text = for_command_line(str(assessment)).rstrip()
    if is_stream(output):
        return
    printed(text)
    printed(f"\nThe report is in {output}.", err=True)
    if is_opened and not webbrowser.open(output.resolve().as_uri()):
        tell("Note: no browser was found; open the file yourself.")


SAMPLE_ROWS = 100_000
"""Rows that are drawn for what a report computes of rows in memory."""


def assessed_in_batches(
    predictions: PredictionFile, level: float, progress: Progress, **options: Any
) -> Assessment:
    """Return the report of a sample, with metrics and tests of all rows; ``options`` are those of ``assess``."""
    metrics = metrics_by_name(METRICS_OF_ALL_ROWS)

    def visitor() -> _SummedAndDrawn:
        return _SummedAndDrawn(RowSums(predictions, list(metrics.values()), True, progress), SAMPLE_ROWS)

    found = predictions.visit(visitor)
    assert isinstance(found, _SummedAndDrawn)
    sums, tests = found.rows.sums, found.rows.tests
    if tests is None:
        raise WeightError(f"{predictions.path}: all weights are zero; at least one must be positive.")
    exact = {
        name: estimate.described(definition, level, sums.n_rows)
        for name, definition, estimate in zip(metrics, sums.definitions, sums.results(), strict=True)
    }
    given, labels, weights, groups = found.sample()
    assessment = assess(
        labels, given, sample_weight=weights, groups=groups, level=level, progress=progress.update, **options
    )
    unit = "rows" if groups is None else "groups of rows"
    return with_all_rows(assessment, exact, tests, sums.n_rows, f"A random choice of {unit}")


class _SummedAndDrawn:
    """Visitor that sums up all rows, and keeps those with the smallest random numbers.

    Rows of a group have one random number, so that groups are kept together.
    """

    def __init__(self, rows: RowSums, size: int) -> None:
        self.rows, self._size = rows, size
        self._generator = np.random.default_rng(0)
        self._drawn: Smallest | None = None
        self._predictions: Predictions | None = None
        self._n_seen = 0

    def __call__(self, rows: CodedRows) -> None:
        """Add a batch."""
        self.rows(rows)
        if rows.data is None:
            return
        data, groups = rows.data, rows.groups
        self._predictions = self._predictions or data.predictions.take(slice(0, 1))
        if groups is None:
            keys, names = self._generator.random(data.n_rows), None
        else:
            of_group = [zlib.crc32(f"sample {name}".encode()) for name in groups.values.tolist()]
            keys, names = np.array(of_group, dtype=np.float64)[groups.codes], groups.array
        places = np.arange(self._n_seen, self._n_seen + data.n_rows)
        self._n_seen += data.n_rows
        columns = (data.predictions.scores, data.classes[data.labels], data.weights, names, places)
        part = Smallest(self._size, keys, columns).kept()
        self._drawn = part if self._drawn is None else self._drawn + part

    def sample(self) -> tuple[Predictions, NDArray[Any], Any, Any]:
        """Return predictions, labels, weights and groups of the rows that were drawn, in the order of the file."""
        drawn = self._drawn
        assert drawn is not None
        assert self._predictions is not None
        if len(drawn.keys) < self.rows.sums.n_rows and drawn.columns[3] is not None:
            # The last group may have lost some of its rows.
            complete = drawn.keys < drawn.keys.max()
            drawn = drawn.taken(complete) if complete.any() else drawn
        *_, places = drawn.columns
        assert places is not None
        scores, labels, weights, groups, _ = drawn.taken(np.argsort(places)).columns
        assert scores is not None
        assert labels is not None
        given = Predictions(read_only(scores), self._predictions.space, self._predictions.classes)
        return given, labels, weights, groups
