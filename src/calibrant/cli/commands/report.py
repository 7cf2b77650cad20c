"""``calibrant report``: one page with a verdict, what to do, and the evidence."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.lazily import worker
from calibrant.cli.options import level_option, prediction_options

__all__ = ["report"]


@click.command()
@prediction_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The file to write, such as report.html.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["html", "json", "markdown"]),
    help="How it is written [by the ending of the output].",
)
@click.option("--methods", metavar="NAMES", help="Methods to try, with commas between [a sensible few].")
@click.option("--cv", type=click.IntRange(2), default=5, show_default=True, help="Number of folds.")
@level_option
@click.option("--title", help="Title of the page [the name of the file].")
def report(**options: Any) -> None:
    """Say in one page whether predictions are calibrated, how sure that is, and what to do.

    The page is one HTML file that needs nothing from outside.
    """
    worker("report", "report")(**options)
