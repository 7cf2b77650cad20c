"""``calibrant report``: write a report with verdict, recommendation and evidence."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.lazily import engine_worker
from calibrant.cli.options import engine_options, level_option, prediction_options

__all__ = ["report"]


@click.command()
@prediction_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Output file, such as report.html.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["html", "json", "markdown"]),
    help="Format of the report [from the file extension].",
)
@click.option("--methods", metavar="NAMES", help="Methods to try, separated by commas [a default set].")
@click.option("--cv", type=click.IntRange(2), default=5, show_default=True, help="Number of folds.")
@level_option
@click.option("--title", help="Title of the page [the name of the file].")
@engine_options
def report(engine: str, address: str | None, **options: Any) -> None:
    """Report whether predictions are calibrated, and which method to use.

    The report is one self-contained HTML file.
    """
    engine_worker("report", engine, address)(**options)
