"""Entry point of the command line, with a clear error if its libraries are not installed."""

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType

from calibrant.errors import MissingExtraError

__all__ = ["main"]

LIBRARIES = ("click", "rich")
EXIT_USAGE = 2
SIGNALS = ("SIGTERM", "SIGHUP")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``calibrant`` with these arguments (by default those of the process) and exit with its exit code."""
    _open_missing_streams()
    for name in SIGNALS:
        number = getattr(signal, name, None)  # missing on some systems
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, _leave)
    for library in LIBRARIES:
        try:
            import_module(library)
        except ModuleNotFoundError:
            print(f"Error: {MissingExtraError(library, 'cli')}", file=sys.stderr)
            sys.exit(EXIT_USAGE)
    program = import_module("calibrant.cli.program")
    program.calibrant.main(args=None if arguments is None else list(arguments), prog_name="calibrant")


def _leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """Exit by an exception, so that temporary files are removed."""
    sys.exit(128 + number)


def _open_missing_streams() -> None:
    """Redirect closed standard streams to the null device.

    Otherwise the next file opened would get the descriptor of a closed stream, and printed text would be written to it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            stream = open(number, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
