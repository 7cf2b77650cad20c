"""``calibrant demo``: three classifiers, calibrated by every method."""

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
    help="Folder for what the demo makes.",
)
def demo(**options: Any) -> None:
    """Train three classifiers on handwritten digits and calibrate them with every method."""
    worker("demo", "demo")(**options)
