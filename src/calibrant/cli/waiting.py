"""Waiting: a progress bar on stderr for long steps, in terminals only."""

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
LONGEST = 40  # characters of a message, so that the bar stays in place

SECONDS_UNTIL_SHOWN = 1.0


class Waiting:
    """Context manager with a progress bar that appears after a second and disappears at the end.

    Parameters
    ----------
    what : str
        Name of the step.

    Notes
    -----
    Until :meth:`update` is called the bar is indeterminate.
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
        """Update the progress."""
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
    """Show log messages of the library next to the bar."""

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
