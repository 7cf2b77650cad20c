"""Files of a command: predictions to read, and outputs that are checked before any computation."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from click.core import ParameterSource

from calibrant.cli.console import named, note
from calibrant.cli.definitions import PROJECT_FILE, SPACES, is_stream
from calibrant.cli.progress import Progress
from calibrant.errors import ParameterError
from calibrant.presentation import listed as listed_options
from calibrant.space import Space
from calibrant.tables.columns import ScoreColumns, listed
from calibrant.tables.file_set import open_source
from calibrant.tables.formats import ending_of_content
from calibrant.tables.formats.csv import Dialect
from calibrant.tables.prediction_file import PredictionFile
from calibrant.tables.roles import Roles, find_roles
from calibrant.tables.source import Source

__all__ = [
    "check_writable",
    "opened",
    "opened_source",
    "output_file",
    "shown_name",
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
