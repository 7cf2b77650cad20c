"""``calibrant compare``: compare methods by cross-validation or on a test set."""

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
    help="Methods, separated by commas.",
)
@click.option("--cv", type=click.IntRange(2), default=5, show_default=True, help="Number of folds.")
@click.option(
    "--test",
    "test_file",
    type=click.Path(path_type=Path),
    help="File with a test set, instead of cross-validation.",
)
@click.option("--metrics", metavar="NAMES", help="Further metrics, separated by commas.")
@level_option
@format_options
def compare(**options: Any) -> None:
    """Compare calibration methods by cross-validation or on a test set.

    Differences are to the uncalibrated predictions, paired by row; negative is
    better.
    """
    worker("compare", "compare")(**options)
