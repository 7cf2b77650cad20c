"""Common options of several commands."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from calibrant.errors import ParameterError
from calibrant.space import Space

__all__ = [
    "AS_DECLARED",
    "FORMAT_NAMES",
    "check_writable",
    "engine_options",
    "format_options",
    "level_option",
    "normalise_option",
    "prediction_options",
]

AS_DECLARED = "calibrant.as_declared"
"""Key in the context of a command for --as-declared."""

FORMAT_NAMES = ("table", "json", "csv", "markdown")
"""Output formats of :mod:`calibrant.cli.rendering`."""

Command = TypeVar("Command", bound=Callable[..., Any])


def normalise_option(command: Command) -> Command:
    """Add the option for rounded probabilities."""
    return click.option(
        "--normalise",
        is_flag=True,
        help="Renormalise rows of probabilities whose sums are within 0.05 of one.",
    )(command)


def prediction_options(command: Command) -> Command:
    """Add the file of predictions and the options for its columns, as in :class:`PredictionFile`."""
    options = [
        click.argument("file", type=click.Path(path_type=Path)),
        click.option(
            "--label", metavar="COLUMN", help="Column with the true class [a column named label, y, ...]."
        ),
        click.option(
            "--space",
            type=click.Choice([space.value for space in Space]),
            required=True,
            help="Space of the scores; it is never guessed.",
        ),
        click.option(
            "--as-declared",
            is_flag=True,
            expose_value=False,
            callback=_remember,
            help="Accept logits that look like probabilities.",
        ),
        click.option(
            "--columns",
            metavar="PATTERN",
            help="Score columns: 'p_*', or names separated by commas [all other numeric columns].",
        ),
        click.option("--weight", metavar="COLUMN", help="Column with sample weights."),
        click.option(
            "--group", metavar="COLUMN", help="Column with groups of dependent rows, such as patients."
        ),
        click.option(
            "--positive",
            metavar="LABEL",
            help="Class of a single score column [the last in sorted order].",
        ),
        normalise_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _remember(context: click.Context, _: click.Parameter, given: bool) -> None:
    context.meta[AS_DECLARED] = given


def engine_options(command: Command) -> Command:
    """Add who reads the rows."""
    command = click.option(
        "--address",
        metavar="URL",
        help="Scheduler of Dask or master of Spark [workers on this machine].",
    )(command)
    return click.option(
        "--engine",
        type=click.Choice(["local", "dask", "spark"]),
        default="local",
        show_default=True,
        help="Where the rows are read; a cluster takes patterns such as 'folder/*.parquet'.",
    )(command)


def format_options(command: Command) -> Command:
    """Add format and file of the result."""
    command = click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="Write to a file instead of the terminal.",
    )(command)
    return click.option(
        "--format",
        "format_name",
        type=click.Choice(FORMAT_NAMES),
        default="table",
        show_default=True,
        help="Format of the result.",
    )(command)


def level_option(command: Command) -> Command:
    """Add the confidence level of intervals."""
    return click.option(
        "--level",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.95,
        show_default=True,
        help="Confidence level of intervals.",
    )(command)


def check_writable(path: Path | None, *inputs: Path | None) -> None:
    """Reject an output that cannot be written or would overwrite an input, before any computation."""
    if path is None:
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
