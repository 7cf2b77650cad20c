"""``calibrant demo``: three classifiers, calibrated by every method."""

from pathlib import Path

import click

from calibrant.demo.run import main

__all__ = ["demo"]


@click.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("calibrant-demo"),
    show_default=True,
    help="Folder for what the demo makes.",
)
def demo(output: Path) -> None:
    """Train three classifiers on handwritten digits and calibrate them with every method."""
    main(["--output", str(output)])
