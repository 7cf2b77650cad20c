"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from calibrant.cli.rendering import FORMATS
from calibrant.errors import ParameterError
from calibrant.space import Space

__all__ = ["check_writable", "format_options", "level_option", "prediction_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


def prediction_options(command: Command) -> Command:
    """Add the file of predictions and how its columns are to be read."""
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
            "--columns",
            metavar="PATTERN",
            help="Columns of scores: 'p_*', or names with commas [all other columns of numbers].",
        ),
        click.option("--weight", metavar="COLUMN", help="Column of weights."),
        click.option("--group", metavar="COLUMN", help="Column of groups of rows that depend on each other."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


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
        type=click.Choice(list(FORMATS)),
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


def check_writable(path: Path | None) -> None:
    """Refuse an output that cannot be written, before any work is done."""
    if path is None:
        return
    if path.is_dir():
        raise ParameterError(f"{path} is a folder; give the name of a file.")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise ParameterError(f"{path}: the folder {folder.name!r} does not exist; make it first.")
