"""``calibrant fit``: fit a calibrator to a file of predictions and save it."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.lazily import engine_worker
from calibrant.cli.options import engine_options, prediction_options

__all__ = ["fit"]


@click.command()
@prediction_options
@click.option(
    "--method",
    default="auto",
    show_default=True,
    help="A method from 'calibrant methods', or several joined by +.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Parameter of the method. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Output file, such as calibrator.npz.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "json", "markdown", "csv"]),
    default="table",
    show_default=True,
    help="Format of the printed summary.",
)
@engine_options
def fit(engine: str, address: str | None, **options: Any) -> None:
    """Fit a calibrator to held-out predictions of the classifier, and save it."""
    engine_worker("fit", engine, address)(**options)
