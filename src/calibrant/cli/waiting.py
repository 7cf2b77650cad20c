"""Waiting: a progress bar on stderr for what takes more than a moment, and nothing where nobody looks."""

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from calibrant.cli.printing import in_one_line

__all__ = ["Waiting", "messages_in"]

LOGGER = logging.getLogger("calibrant")
LONGEST = 40  # of a message, so that the bar keeps its place

SECONDS_UNTIL_SHOWN = 1.0


class Waiting:
    """A bar that appears after a second and vanishes at the end; a context manager.

    Parameters
    ----------
    what : str
        What is being done, in a few words.

    Notes
    -----
    Without a call of :meth:`update` it only moves, for work that does not tell how far it is.
    """

    def __init__(self, what: str) -> None:
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(30), TimeRemainingColumn()
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(escape(in_one_line(what)), total=None)
            self._timer = threading.Timer(SECONDS_UNTIL_SHOWN, self._bar.start)
            self._timer.daemon = True

    def update(self, done: float, total: float | None, what: str | None = None) -> None:
        """Say how much is done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
            if what:
                self._bar.update(self._task, description=escape(in_one_line(what)))

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._timer.cancel()
            self._timer.join()
            self._bar.stop()


@contextmanager
def messages_in(waiting: Waiting, what: str) -> Iterator[None]:
    """Show beside the bar what the library logs on its way."""

    class Shown(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            waiting.update(0, None, f"{what}: {record.getMessage()[:LONGEST]}")

    handler, level, propagates = Shown(), LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        LOGGER.propagate = propagates
