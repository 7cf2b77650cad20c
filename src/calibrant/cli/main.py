"""The entry point of the command line, which says what is missing where its libraries are not installed."""

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType

from calibrant.errors import MissingExtraError

__all__ = ["main"]

LIBRARIES = ("click", "rich")
EXIT_USAGE = 2
EXIT_TERMINATED = 143


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``calibrant`` with these arguments, those of the process by default, and exit with its code."""
    signal.signal(signal.SIGTERM, _leave)
    for library in LIBRARIES:
        try:
            import_module(library)
        except ModuleNotFoundError:
            print(f"Error: {MissingExtraError(library, 'cli')}", file=sys.stderr)
            sys.exit(EXIT_USAGE)
    program = import_module("calibrant.cli.program")
    program.calibrant.main(args=None if arguments is None else list(arguments), prog_name="calibrant")


def _leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """End as by an exception, so that what was half-written is removed."""
    sys.exit(EXIT_TERMINATED)
