"""``calibrant demo``: calibrate three classifiers with every method."""

from pathlib import Path

from calibrant.demo.run import main

__all__ = ["demo"]


def demo(output: Path) -> None:
    """Train three classifiers on handwritten digits and calibrate them with every method."""
    main(["--output", str(output)])
