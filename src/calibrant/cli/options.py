"""Options that several commands share."""

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
    "format_options",
    "level_option",
    "normalise_option",
    "prediction_options",
]

AS_DECLARED = "calibrant.as_declared"
"""Under which the context of a command keeps that scores are to be taken for what they were declared as."""

FORMAT_NAMES = ("table", "json", "csv", "markdown")
"""Ways to write a result, as :mod:`calibrant.cli.rendering` has them."""

Command = TypeVar("Command", bound=Callable[..., Any])


def normalise_option(command: Command) -> Command:
    """Add what to do with probabilities that were rounded."""
    return click.option(
        "--normalise",
        is_flag=True,
        help="Divide rows of probabilities by their sums, if within 0.05 of one.",
    )(command)


def prediction_options(command: Command) -> Command:
    """Add the file of predictions and how its columns are to be read, as :class:`PredictionFile` takes it."""
    options = [
        click.argument("file", type=click.Path(path_type=Path)),
        click.option(
            "--label", metavar="COLUMN", help="Column of the true classes [a column called label, y, ...]."
        ),
        click.option(
            "--space",
            type=click.Choice([space.value for space in Space]),
            required=True,
            help="What the scores are; never guessed.",
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
            help="Columns of scores: 'p_*', or names with commas [all other columns of numbers].",
        ),
        click.option("--weight", metavar="COLUMN", help="Column of weights."),
        click.option("--group", metavar="COLUMN", help="Column of groups of rows that depend on each other."),
        click.option(
            "--positive",
            metavar="LABEL",
            help="The class that a single column of scores is about [the last in sorted order].",
        ),
        normalise_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _remember(context: click.Context, _: click.Parameter, given: bool) -> None:
    context.meta[AS_DECLARED] = given


def format_options(command: Command) -> Command:
    """Add how and where the result is written."""
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
        help="How the result is written.",
    )(command)


def level_option(command: Command) -> Command:
    """Add the level of intervals."""
    return click.option(
        "--level",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.95,
        show_default=True,
        help="Level of the intervals.",
    )(command)


def check_writable(path: Path | None, *inputs: Path | None) -> None:
    """Refuse an output that cannot be written or that would destroy an input, before any work is done."""
    if path is None:
        return
    if path.is_dir():
        raise ParameterError(f"{path} is a folder; give the name of a file.")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ParameterError(f"{path}: the folder {folder.name!r} does not exist; make it first.")
    for given in inputs:
        if given is not None and _are_same(path, given):
            raise ParameterError(f"{path} would be written over {given}, which is read; give another output.")


def _are_same(one: Path, other: Path) -> bool:
    """Tell whether two paths are one file, also by a link or in another spelling."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one is not there
        return os.path.realpath(one) == os.path.realpath(other)
