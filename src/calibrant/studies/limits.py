"""Limits of processor time, in the main thread of a process and in any other."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from calibrant.persistence.limits import REPEAT_SECONDS, TimeIsUpError, repeated_at_the_end, watched

__all__ = ["TimeIsUpError", "limited"]


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Stop what runs inside after so many seconds of processor time, by :class:`TimeIsUpError`.

    It counts the whole process in its main thread, and the thread alone in another. What is stopped is Python: a long
    call into compiled code ends first. Work that catches the error gets it again from time to time, and once more at
    its end, so that it is never taken for work that kept within its time.

    >>> with limited(0.05):
    ...     while True:
    ...         pass
    Traceback (most recent call last):
    calibrant.persistence.limits.TimeIsUpError
    """
    if seconds is None:
        yield
    elif hasattr(signal, "SIGPROF") and threading.current_thread() is threading.main_thread():
        with _by_signal(seconds):
            yield
    else:
        with watched(seconds):
            yield


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    is_up, over = threading.Event(), threading.Event()

    def stop(*_: object) -> None:
        if not over.is_set():
            is_up.set()
            raise TimeIsUpError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, REPEAT_SECONDS)
    try:
        with repeated_at_the_end(is_up, over):
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
