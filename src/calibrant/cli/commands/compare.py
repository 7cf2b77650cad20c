"""``calibrant compare``: several methods on rows that they were not fitted to."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.lazily import worker
from calibrant.cli.options import format_options, level_option, prediction_options

__all__ = ["compare"]

DEFAULT_METHODS = "temperature,vector,isotonic,beta,shared-map,auto"


@click.command()
@prediction_options
@click.option(
    "--methods",
    default=DEFAULT_METHODS,
    show_default=True,
    metavar="NAMES",
    help="Methods, with commas between.",
)
@click.option("--cv", type=click.IntRange(2), default=5, show_default=True, help="Number of folds.")
@click.option(
    "--test", "test_file", type=click.Path(path_type=Path), help="Measure on the rows of this file instead."
)
@click.option("--metrics", metavar="NAMES", help="Further metrics, with commas between.")
@level_option
@format_options
def compare(**options: Any) -> None:
    """Compare calibration methods on rows that they were not fitted to.

    Differences are those from the uncalibrated predictions, row by row;
    negative is better.
    """
    worker("compare", "compare")(**options)
