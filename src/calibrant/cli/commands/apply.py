"""``calibrant apply``: write calibrated probabilities to a file."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.lazily import engine_worker
from calibrant.cli.options import engine_options, normalise_option
from calibrant.space import Space

__all__ = ["apply"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--calibrator",
    "calibrator_path",
    type=click.Path(path_type=Path),
    required=True,
    help="File saved by 'calibrant fit'.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Output file; may be FILE itself."
)
@click.option("--columns", metavar="PATTERN", help="Score columns [named as in the fit].")
@click.option(
    "--space",
    type=click.Choice([space.value for space in Space]),
    help="Space of the scores [as in the fit].",
)
@normalise_option
@click.option("--append", is_flag=True, help="Add columns instead of replacing the scores.")
@click.option("--prefix", default="calibrated_", show_default=True, help="Prefix of added columns.")
@engine_options
def apply(engine: str, address: str | None, **options: Any) -> None:
    """Replace the scores of a file by calibrated probabilities.

    The file format and all other columns are kept. Files larger than memory are
    processed in batches.
    """
    engine_worker("apply", engine, address)(**options)
