"""``calibrant fit``: learn a calibrator from a file and save it."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.lazily import worker
from calibrant.cli.options import prediction_options

__all__ = ["fit"]


@click.command()
@prediction_options
@click.option(
    "--method",
    default="auto",
    show_default=True,
    help="A name of 'calibrant methods', or several joined by +.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A parameter of the method; can be repeated.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Where to save it, such as calibrator.npz.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "json", "markdown", "csv"]),
    default="table",
    show_default=True,
    help="How what was learnt is printed.",
)
def fit(**options: Any) -> None:
    """Learn a calibrator from rows that the classifier was not trained on, and save it."""
    worker("fit", "fit")(**options)
