"""``calibrant verify``: whether an exported file computes what the calibrator does."""

from pathlib import Path

from calibrant import load
from calibrant.cli.notes import said
from calibrant.export import verify as compared

__all__ = ["verify"]


def verify(file: Path, against: Path) -> None:
    """Compare an exported file with the calibrator that it was made of."""
    parity = compared(file, load(against))
    said(f"{file} ({parity.backend}) computes what {against} does; {parity}.")
