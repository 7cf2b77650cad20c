"""Limits of processor time, in the main thread of a process and in any other."""

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["TimeIsUpError", "limited"]


class TimeIsUpError(BaseException):
    """Raised in the midst of work; no error that a method may catch."""


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Stop what runs inside after so many seconds of processor time, by :class:`TimeIsUpError`.

    It counts the whole process in its main thread, and the thread alone in another. What is stopped is Python: a long
    call into compiled code ends first.

    >>> with limited(0.05):
    ...     while True:
    ...         pass
    Traceback (most recent call last):
    calibrant.studies.limits.TimeIsUpError
    """
    if seconds is None:
        yield
    elif hasattr(signal, "SIGPROF") and threading.current_thread() is threading.main_thread():
        with _by_signal(seconds):
            yield
    else:
        with _by_watching(seconds):
            yield


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeIsUpError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def _by_watching(seconds: float) -> Iterator[None]:
    """Watch this thread from another one, which raises the error in it."""
    thread = threading.get_ident()
    spent = _clock_of(thread)
    start = spent()
    over = threading.Event()
    lock = threading.Lock()

    def watch() -> None:
        left = seconds
        while not over.wait(max(left, 0.01)):
            left = seconds - (spent() - start)
            if left <= 0:
                with lock:
                    if not over.is_set():
                        _raise_in(thread, TimeIsUpError)
                return

    watcher = threading.Thread(target=watch, daemon=True, name="calibrant-limit")
    watcher.start()
    try:
        yield
    finally:
        with lock:
            over.set()
            _raise_in(thread, None)  # one that has been sent and has not arrived is taken back
        watcher.join()


def _clock_of(thread: int) -> Callable[[], float]:
    """Return a function for the processor time of a thread, or the time on the wall where there is no such clock."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    clock = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(clock)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )
