"""Progress bar on stderr for long steps, in terminals only, with rows per second."""

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from calibrant.presentation.text import in_one_line

__all__ = ["Progress", "messages_in"]

LOGGER = logging.getLogger("calibrant")
LONGEST = 40  # characters of a message, so that the bar stays in place

SECONDS_UNTIL_SHOWN = 1.0


class Progress:
    """Context manager with a progress bar that appears after a second and disappears at the end.

    Parameters
    ----------
    what : str
        Name of the step.

    Attributes
    ----------
    expected_rows : float or None
        Approximate number of rows, for the length of the bar.

    Notes
    -----
    Until :meth:`update` is called the bar is indeterminate.
    """

    def __init__(self, what: str) -> None:
        self._what, self._started = what, time.monotonic()
        self.expected_rows: float | None = None
        self._bar: Bar | None = None
        if sys.stderr.isatty():
            columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(30), TimeRemainingColumn()
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(escape(in_one_line(what)), total=None)
            self._timer = self._new_timer(self._bar)

    def update(self, done: float, total: float | None, what: str | None = None) -> None:
        """Update the progress."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
            if what:
                self._bar.update(self._task, description=escape(in_one_line(what)))

    def rows(self, done: int, what: str | None = None) -> None:
        """Update the number of rows read, and show rows per second; ``what`` names a new step."""
        if what is not None and what != self._what:
            self._what, self._started = what, time.monotonic()
        if self._bar is not None:
            speed = done / max(time.monotonic() - self._started, 1e-3)
            total = None if self.expected_rows is None else max(self.expected_rows, done)
            self.update(done, total, f"{self._what}: {done:,} rows, {speed:,.0f} rows/s")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the bar while the user is asked."""
        self.__exit__()
        yield
        if self._bar is not None:
            self._timer = self._new_timer(self._bar)
        self.__enter__()

    @staticmethod
    def _new_timer(bar: Bar) -> threading.Timer:
        timer = threading.Timer(SECONDS_UNTIL_SHOWN, bar.start)
        timer.daemon = True
        return timer

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
def messages_in(progress: Progress, what: str) -> Iterator[None]:
    """Show log messages of the library next to the bar, and the time left if they count steps."""

    class Shown(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            done, total = getattr(record, "done", 0), getattr(record, "total", None)
            progress.update(done, total, f"{what}: {record.getMessage()[:LONGEST]}")

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
