"""Files of a command: predictions and side columns to read, their space, and outputs to check."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
from click.core import ParameterSource
from numpy.typing import NDArray

from calibrant.arrays import Float64Array
from calibrant.calibrator import Calibrator
from calibrant.cli.console import named, note
from calibrant.cli.options import AS_DECLARED, CORRECTNESS, PROJECT_FILE, SPACES, is_stream
from calibrant.cli.progress import Progress
from calibrant.errors import ParameterError, PredictionError
from calibrant.predictions import Predictions
from calibrant.presentation import listed as listed_options
from calibrant.space import Space, log_odds_look_like_probabilities, look_like_probabilities
from calibrant.tables.columns import ScoreColumns, listed
from calibrant.tables.file_set import open_source
from calibrant.tables.formats import ending_of_content
from calibrant.tables.formats.csv import Dialect
from calibrant.tables.prediction_file import PredictionFile, Table, chosen_columns
from calibrant.tables.roles import Roles, find_roles, space_in_name
from calibrant.tables.source import Source

__all__ = [
    "by_correctness",
    "check_declared",
    "check_meaning",
    "check_writable",
    "correctness_names",
    "cost_matrix",
    "noting_probabilities",
    "opened",
    "opened_source",
    "output_file",
    "shown_name",
    "side_columns_of",
]

STANDARD_INPUT = "standard input"


def shown_name(path: Path) -> str:
    """Return the name of an input for headings."""
    return STANDARD_INPUT if is_stream(path) else path.name


@contextmanager
def opened_source(path: Path, separator: str | None = None, decimal: str | None = None) -> Iterator[Source]:
    """Open the file, folder or pattern of a command, or standard input, which is first copied to a file."""
    with ExitStack() as stack:
        if is_stream(path):
            path = stack.enter_context(_copied_input())
        dialect = None if separator is None and decimal is None else Dialect.of(separator, decimal)
        yield stack.enter_context(open_source(path, dialect))


@contextmanager
def opened(path: Path, choice: dict[str, Any], progress: Progress) -> Iterator[PredictionFile]:
    """Open labelled predictions; ``choice`` are the options of its columns, of which missing ones are found by name.

    Every command that reads labelled predictions gets them here.
    """
    options = dict(choice)
    with opened_source(path, options.pop("separator", None), options.pop("decimal", None)) as source:
        _tell_project()
        declared = {name: options.pop(name) for name in ("label", "columns", "space")}
        roles = find_roles(source, **declared, others=(options["weight"], options["group"]))
        space = roles.space
        if space is None:
            with progress.paused():
                space = _asked_space(path, roles)
        predictions = PredictionFile(
            source, label=roles.label, columns=roles.columns, space=space.value, **options
        )
        if declared["label"] is None or declared["columns"] is None or roles.reason:
            note(_told(predictions, roles))
        progress.expected_rows = source.approximate_rows()
        yield predictions


def _tell_project() -> None:
    """Tell which options are from a project file."""
    context = click.get_current_context(silent=True)
    if context is None or PROJECT_FILE not in context.meta:
        return
    named_so = [
        parameter.name
        for parameter in context.command.params
        if parameter.name and context.get_parameter_source(parameter.name) is ParameterSource.DEFAULT_MAP
    ]
    if named_so:
        options = listed_options([f"--{name.replace('_', '-')}" for name in named_so])
        verb = "is" if len(named_so) == 1 else "are"
        note(f"{options} {verb} from {os.path.relpath(context.meta[PROJECT_FILE])}.")


def _told(predictions: PredictionFile, roles: Roles) -> str:
    """Return a sentence on the columns that were found."""
    columns: ScoreColumns = predictions.columns
    what = "array" if len(columns.names) < len(columns.classes) else "column"
    several = f"{what}s" if len(columns.names) > 1 else what
    why = f" ({roles.reason})" if roles.reason else ""
    return (
        f"labels are from {what} {predictions.label!r}, {predictions.space.value} from {several} "
        f"{listed(columns.names, shown=4)}{why}."
    )


def _asked_space(path: Path, roles: Roles) -> Space:
    """Ask for the space on a terminal; in a script it is required."""
    between = (
        "" if roles.limits is None else f", which are between {roles.limits[0]:.4g} and {roles.limits[1]:.4g}"
    )
    if sys.stdin.isatty() and sys.stderr.isatty() and not is_stream(path):
        question = f"Are the scores of {shown_name(path)}{between}, probabilities or logits?"
        return Space(click.prompt(question, type=click.Choice(SPACES), err=True))
    raise click.UsageError(
        f"say --space probabilities or --space logits; nothing in {shown_name(path)} tells what its scores are{between}."
    )


@contextmanager
def _copied_input() -> Iterator[Path]:
    """Copy standard input to a temporary file, whose extension its first bytes tell."""
    with TemporaryDirectory() as folder:
        raw = Path(folder, "input")
        with raw.open("wb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream)
        path = raw.with_name(f"{STANDARD_INPUT}{ending_of_content(raw)}")
        raw.rename(path)
        with named(str(path), STANDARD_INPUT):
            yield path


@contextmanager
def output_file(path: Path, ending: str) -> Iterator[Path]:
    """Yield the path to write: that of the output, or a temporary one that is copied to standard output at the end."""
    if not is_stream(path):
        yield path
        return
    with TemporaryDirectory() as folder:
        inside = Path(folder, f"output{ending}")
        yield inside
        with inside.open("rb") as stream:
            shutil.copyfileobj(stream, sys.stdout.buffer)


def check_writable(path: Path | None, *inputs: Path | None) -> None:
    """Reject an output that cannot be written or would overwrite an input, before any computation."""
    if path is None or is_stream(path):
        return
    if path.is_dir():
        raise ParameterError(f"{path} is a folder, not a file; give a file name.")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ParameterError(f"{path}: the folder {folder.name!r} does not exist; create it first.")
    for given in inputs:
        if given is not None and _are_same(path, given):
            raise ParameterError(f"the output {path} would overwrite the input {given}; give another output.")


def _are_same(one: Path, other: Path) -> bool:
    """Return whether two paths refer to the same file, including links."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one does not exist
        return os.path.realpath(one) == os.path.realpath(other)


def check_declared(path: Path, predictions: Predictions) -> None:
    """Reject scores declared as logits that look like probabilities, unless the user insists."""
    context = click.get_current_context(silent=True)
    if predictions.space is not Space.LOGITS or (context is not None and context.meta.get(AS_DECLARED)):
        return
    if look_like_probabilities(predictions.scores):
        raise PredictionError(
            f"{path}: these look like probabilities, all between 0 and 1 with rows that sum to 1; say --space probabilities, "
            "or add --as-declared if they are logits."
        )
    if log_odds_look_like_probabilities(predictions.scores):
        note("all log-odds are between 0 and 1, like probabilities; say --space probabilities if they are.")


def check_meaning(path: Path, calibrator: Calibrator, columns: ScoreColumns, space: str | None) -> None:
    """Reject columns, or an array, whose names indicate another space than that of the fit."""
    if space is not None:
        return  # the user has declared it
    expected = Space(calibrator.space_)
    other = Space.PROBABILITIES if expected is Space.LOGITS else Space.LOGITS
    for name in columns.names:
        if space_in_name(name) is other:
            raise PredictionError(
                f"{path}: the name {name!r} suggests {other.value}, but the calibrator was fitted to {expected.value}; say "
                f"--space {other.value} or --space {expected.value}."
            )


def noting_probabilities(calibrator: Calibrator) -> Callable[[Predictions], NDArray[np.floating]]:
    """Return the function that calibrates rows; it prints a note if logits look like probabilities."""
    is_first = calibrator.space_ == Space.LOGITS.value

    def calibrated(predictions: Predictions) -> NDArray[np.floating]:
        nonlocal is_first
        if is_first and look_like_probabilities(predictions.scores):
            note(
                "these look like probabilities, but the calibrator was fitted to logits; say --space probabilities if "
                "they are."
            )
        is_first = False
        return np.asarray(calibrator.predict_proba(predictions))

    return calibrated


OUTCOMES = ("wrong", "correct")


def side_columns_of(predictions: PredictionFile, names: str | None) -> dict[str, Any] | None:
    """Return the side columns of a file by their names, separated by commas."""
    if names is None:
        return None
    return predictions.side_columns(chosen_columns(predictions.path, names))


def cost_matrix(text: str | None) -> Float64Array | None:
    """Return a matrix from rows separated by semicolons.

    >>> cost_matrix("0,9;1,0")
    array([[0., 9.], [1., 0.]])
    """
    if text is None:
        return None
    try:
        rows = [[float(number) for number in row.split(",")] for row in text.split(";")]
        return np.array(rows, dtype=np.float64)
    except ValueError as error:
        raise ParameterError(
            f"--costs must be numbers such as '0,9;1,0', a row per decision and a column per class, not {text!r}."
        ) from error


def correctness_names() -> tuple[str, str] | None:
    """Return the names of the two classes if the command line has --correct."""
    context = click.get_current_context(silent=True)
    return OUTCOMES if context is not None and context.meta.get(CORRECTNESS) else None


def by_correctness(table: Table) -> Table:
    """Return the rows with the classes "wrong" and "correct", if the command line named them by --correct."""
    found, classes = correctness_names(), table.predictions.classes
    if found is None or classes is None or len(classes) != 2:
        return table
    is_correct = table.labels.astype(str) == str(classes[1])
    names = np.array(found)
    predictions = Predictions(
        table.predictions.scores, table.predictions.space, names, table.predictions.declared_floor
    )
    return replace(table, predictions=predictions, labels=names[is_correct.astype(np.intp)])
