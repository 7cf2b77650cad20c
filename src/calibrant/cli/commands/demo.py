"""``calibrant demo``: calibrate three classifiers with every method."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.lazily import worker

__all__ = ["demo"]


@click.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("calibrant-demo"),
    show_default=True,
    help="Output folder.",
)
def demo(**options: Any) -> None:
    """Train three classifiers on handwritten digits and calibrate them with every method."""
    worker("demo", "demo")(**options)
