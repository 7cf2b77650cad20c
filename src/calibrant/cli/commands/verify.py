"""``calibrant verify``: whether an exported file computes what the calibrator does."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.lazily import worker

__all__ = ["verify"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    required=True,
    help="What 'calibrant fit' saved.",
)
def verify(**options: Any) -> None:
    """Compare an exported file with the calibrator on test rows.

    Ends with exit code 1 if probabilities or predicted classes differ.
    """
    worker("verify", "verify")(**options)
