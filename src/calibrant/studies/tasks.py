"""Tasks: what a worker is given, and what it answers."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import parent_process
from types import FrameType
from typing import Any

from calibrant.errors import StoreError, StudyError
from calibrant.numerics.row_blocks import one_blas_thread, one_thread
from calibrant.studies.limits import TimeIsUpError, limited
from calibrant.studies.outputs import OutputsRequest
from calibrant.studies.record import DONE, FAILED, TOO_SLOW, Outcome
from calibrant.studies.units import Context, PartFailedError, Work, outputs_of, rows_text
from calibrant.studies.warning_counts import counted_warnings

__all__ = ["Answer", "Pause", "Task", "Training", "UnitTask", "perform"]

PAUSE_SECONDS = 0.03


@dataclass(frozen=True)
class Training:
    """Train a classifier and keep its outputs; ``key`` is that of the training, ``outputs`` that of its outputs."""

    key: str
    request: OutputsRequest
    outputs: str

    @property
    def subject(self) -> str:
        """The classifier and the data set."""
        return rows_text(self.request)

    def run(self, context: Context) -> Outcome:
        """Train, unless the outputs are there."""
        outputs_of(self.request, self.outputs, context)
        return Outcome({})


@dataclass(frozen=True)
class UnitTask:
    """Run the unit of a key."""

    key: str
    work: Work

    @property
    def subject(self) -> str:
        """What the work is of."""
        return self.work.subject

    def run(self, context: Context) -> Outcome:
        """Do the work."""
        return self.work.run(context)


@dataclass(frozen=True)
class Pause:
    """Wait a moment, where all that is left waits for a training that is under way elsewhere."""


Task = Training | UnitTask | Pause


@dataclass(frozen=True)
class Answer:
    """What came of a task; numbers and details only if it is done."""

    task: Task
    status: str = DONE
    values: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    seconds: float = 0.0


def perform(task: Task, context: Context) -> Answer:
    """Do a task and say what came of it; only a store that cannot be written is an error, and a signal from outside.

    Code of one's own may raise what it likes, also what would end the process. All work has one thread, so that numbers do
    not hang on how many there are.
    """
    if isinstance(task, Pause):
        time.sleep(PAUSE_SECONDS)
        return Answer(task)
    _leave_interrupts_to_the_parent()
    start = time.perf_counter()
    status, message, outcome = DONE, "", Outcome({})
    with noticed_interrupts() as interrupts, one_thread(), one_blas_thread(), counted_warnings() as counts:
        try:
            with limited(context.limit_seconds):
                outcome = task.run(context)
        except TimeIsUpError:
            status = TOO_SLOW
            message = f"{task.subject} took more than {context.limit_seconds:g} seconds of processor time."
        except StoreError:
            raise
        except MemoryError:
            status, message = FAILED, f"{task.subject} failed: there was not enough memory."
        except PartFailedError as part:
            status, message = FAILED, f"{part.subject} failed: {_said(part.error)}."
        except BaseException as error:
            status, message = FAILED, f"{task.subject} failed: {_said(error)}."
    if interrupts:
        raise interrupts[0]
    details = dict(outcome.details)
    if status == TOO_SLOW:
        details["limit_seconds"] = context.limit_seconds
    if counts:
        details["warnings"] = dict(sorted(counts.items()))
    return Answer(task, status, outcome.values, details, message, time.perf_counter() - start)


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, StudyError):  # says all that there is to say
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _leave_interrupts_to_the_parent() -> None:
    """Ignore the key that interrupts, which reaches all processes of a terminal; the first of them stops the others."""
    if parent_process() is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def noticed_interrupts() -> Iterator[list[BaseException]]:
    """Return a context with a list of what signals from outside raised, so that what work raises itself is told apart.

    Signals reach the main thread alone.
    """
    noticed: list[BaseException] = []
    before: dict[signal.Signals, Callable[[int, FrameType | None], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler

    def notice(number: int, frame: FrameType | None) -> None:
        try:
            before[signal.Signals(number)](number, frame)
        except BaseException as error:
            noticed.append(error)
            raise

    try:
        for number in before:
            signal.signal(number, notice)
        yield noticed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
