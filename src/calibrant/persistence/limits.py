"""Limit on the processor time of one thread, enforced by another thread."""

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["REPEAT_SECONDS", "TimeIsUpError", "repeated_at_the_end", "watched"]

# Seconds of processor time after which the error is raised again in code that caught it; longer than clean-up takes.
REPEAT_SECONDS = 1.0


class TimeIsUpError(BaseException):
    """The time limit was reached; a BaseException, so that methods do not catch it."""


@contextmanager
def repeated_at_the_end(is_up: threading.Event, over: threading.Event) -> Iterator[None]:
    """Raise :class:`TimeIsUpError` at the end if the limit was reached, even if the code caught or replaced it."""
    try:
        yield
    except (TimeIsUpError, GeneratorExit):  # the latter if the error came as the block was left
        raise
    except BaseException as error:
        if is_up.is_set():
            raise TimeIsUpError from error
        raise
    finally:
        over.set()
    if is_up.is_set():
        raise TimeIsUpError


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """Interrupt the code inside by :class:`TimeIsUpError` after a given processor time of this thread.

    Only Python code is interrupted: a long call into compiled code ends first.
    """
    thread = threading.get_ident()
    spent = _clock_of(thread)
    start = spent()
    is_up, over = threading.Event(), threading.Event()
    lock = threading.Lock()

    def watch() -> None:
        end = start + seconds
        while not over.wait(max(end - spent(), 0.01)):
            if spent() < end:
                continue
            with lock:
                if not over.is_set():
                    is_up.set()
                    _raise_in(thread, TimeIsUpError)
            end += REPEAT_SECONDS

    watcher = threading.Thread(target=watch, daemon=True, name="calibrant-limit")
    watcher.start()
    try:
        with repeated_at_the_end(is_up, over):
            yield
    finally:
        with lock:
            over.set()
            if is_up.is_set():
                # Cancels an error that was sent and has not arrived. Without one, Python 3.11 would look for it forever,
                # and under a profiler or debugger never go on.
                _raise_in(thread, None)
        watcher.join()


def _clock_of(thread: int) -> Callable[[], float]:
    """Return a clock of the processor time of a thread, or of wall time if there is no such clock."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    clock = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(clock)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )
