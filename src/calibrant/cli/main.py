"""The entry point of the command line, which says what is missing where its libraries are not installed."""

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
    """Run ``calibrant`` with these arguments, those of the process by default, and exit with its code."""
    _open_missing_streams()
    for name in SIGNALS:
        number = getattr(signal, name, None)  # not on every system
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets it
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
    """End as by an exception, so that what was half-written is removed."""
    sys.exit(128 + number)


def _open_missing_streams() -> None:
    """Give a process that was started with closed streams others that go nowhere.

    Otherwise the next file that is opened would take the number of a closed stream, and what is printed would end up in it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            stream = open(number, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
