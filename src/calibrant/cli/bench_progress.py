"""Progress of a study: a progress bar in a terminal, occasional lines elsewhere."""

import sys
import threading
import time
from dataclasses import replace
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from calibrant.cli.printing import in_one_line, printed
from calibrant.presentation import duration as duration_text
from calibrant.studies import Progress

__all__ = ["StudyProgress", "progress_text"]

FIRST_SECONDS = 60.0
SECONDS_BETWEEN_FIRST_LINES = 10.0
SECONDS_BETWEEN_LINES = 30.0
BAR_WIDTH = 16


class StudyProgress:
    """Context manager that shows the progress of a study on stderr.

    Notes
    -----
    In a terminal a progress bar stays at the bottom. Elsewhere, as in the log of a batch system, a line is printed after the
    first unit, every ten seconds during the first minute, and then every 30 seconds, even if no unit has finished.
    """

    def __init__(self) -> None:
        self._bar: Bar | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._latest: tuple[Progress, float] | None = None
        self._started = self._said = time.monotonic()
        self._first = True
        if sys.stderr.isatty():
            columns = BarColumn(BAR_WIDTH), TextColumn("{task.description}")
            self._console = Console(stderr=True)
            self._bar = Bar(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("", total=None)

    def update(self, progress: Progress) -> None:
        """Show the progress."""
        text = progress_text(progress)
        if self._bar is not None:
            # The unit that finished last is shown if there is room.
            room = self._console.width - BAR_WIDTH - len(text) - 4
            label = progress.label if len(progress.label) <= room else ""
            self._bar.update(
                self._task,
                completed=progress.done + progress.failed,
                total=progress.total,
                description=escape(in_one_line(f"{text}  {label}".rstrip())),
            )
            return
        with self._lock:
            self._latest = progress, time.monotonic()
            if self._due() or (self._first and progress.label):
                self._say(text)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        else:
            self._thread = threading.Thread(target=self._keep_saying, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        else:
            self._ended.set()
            self._thread.join()

    def _due(self) -> bool:
        now = time.monotonic()
        early = now - self._started < FIRST_SECONDS
        return now - self._said >= (SECONDS_BETWEEN_FIRST_LINES if early else SECONDS_BETWEEN_LINES)

    def _say(self, text: str) -> None:
        self._first, self._said = False, time.monotonic()
        printed(text, err=True)

    def _keep_saying(self) -> None:
        """Print the progress at intervals while units are running."""
        while not self._ended.wait(SECONDS_BETWEEN_FIRST_LINES / 20):
            with self._lock:
                if self._latest is not None and self._due():
                    progress, then = self._latest
                    passed = time.monotonic() - then
                    left = progress.seconds_left
                    self._say(
                        progress_text(
                            replace(
                                progress,
                                seconds=progress.seconds + passed,
                                seconds_left=None if left is None else max(left - passed, 0.0),
                            )
                        )
                    )


def progress_text(progress: Progress) -> str:
    """Return the progress in one line.

    >>> progress_text(Progress(120, 3, 2000, "", 75.0, 7500.0))
    '123 of 2000 units, 3 failed, 1 min 15 s so far, about 2 h 5 min left'
    """
    parts = [f"{progress.done + progress.failed} of {progress.total} units"]
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    parts.append(f"{duration_text(progress.seconds)} so far")
    if progress.seconds_left is not None:
        parts.append(f"about {duration_text(progress.seconds_left)} left")
    return ", ".join(parts)
