"""``calibrant apply``: a file with calibrated probabilities in the place of its scores."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.lazily import worker
from calibrant.cli.options import normalise_option
from calibrant.space import Space

__all__ = ["apply"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--calibrator",
    "calibrator_path",
    type=click.Path(path_type=Path),
    required=True,
    help="What 'calibrant fit' saved.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The file to write; may be FILE."
)
@click.option("--columns", metavar="PATTERN", help="Columns of scores [those called as in the fit].")
@click.option(
    "--space",
    type=click.Choice([space.value for space in Space]),
    help="What the scores are [as in the fit].",
)
@normalise_option
@click.option("--append", is_flag=True, help="Add columns instead of replacing the scores.")
@click.option("--prefix", default="calibrated_", show_default=True, help="Before the names of added columns.")
def apply(**options: Any) -> None:
    """Write a file in which calibrated probabilities take the place of the scores.

    The format stays, and so does every other column. Files larger than memory go
    through in batches.
    """
    worker("apply", "apply")(**options)
