"""Common options of the ``bench`` commands."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["jobs_option", "output_option", "study_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

jobs_option = click.option(
    "--jobs", type=click.IntRange(-1), default=1, show_default=True, help="Processes; -1 for all processors."
)


def study_options(command: Command) -> Command:
    """Add the recipe, its data folder and its results file."""
    options = [
        click.argument("recipe", type=click.Path(path_type=Path)),
        click.option("--form", metavar="NAME", help="A smaller or larger form of the recipe [complete]."),
        click.option(
            "--data",
            type=click.Path(path_type=Path),
            metavar="FOLDER",
            help="Data folder [CALIBRANT_DATA, or next to the recipe].",
        ),
        click.option(
            "--store",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="File of all results [named after the recipe].",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def output_option(command: Command) -> Command:
    """Add the output folder of the report."""
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="FOLDER",
        help="Folder for the report [named after the recipe].",
    )(command)
