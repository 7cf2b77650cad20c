"""Warnings of a unit, counted instead of printed, in whatever thread it runs."""

import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

__all__ = ["counted_warnings"]


class _Counts(threading.local):
    """Where the warnings of this thread go."""

    counter: Counter[str] | None = None


class _Collector:
    """What takes the warnings of all threads: the first one in sets it up, the last one out takes it back.

    The list of filters belongs to the whole process, so that threads cannot each have their own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._context: AbstractContextManager[Any] | None = None

    def enter(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._context = warnings.catch_warnings()
                self._context.__enter__()
                otherwise = warnings.showwarning

                def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
                    if _COUNTS.counter is None:
                        otherwise(message, category, *rest, **more)
                    else:
                        _COUNTS.counter[category.__name__] += 1

                warnings.simplefilter("always")
                # These come when Python tidies up, which has nothing to do with the unit that runs at the time.
                warnings.simplefilter("ignore", ResourceWarning)
                warnings.showwarning = show
            self._n_inside += 1

    def leave(self) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0 and self._context is not None:
                self._context.__exit__(None, None, None)
                self._context = None


_COUNTS = _Counts()
_COLLECTOR = _Collector()


@contextmanager
def counted_warnings() -> Iterator[Counter[str]]:
    """Return a context that counts the warnings of this thread by their categories.

    >>> with counted_warnings() as counts:
    ...     warnings.warn("once", UserWarning)
    ...     warnings.warn("twice", UserWarning)
    >>> dict(counts)
    {'UserWarning': 2}
    """
    counts: Counter[str] = Counter()
    _COLLECTOR.enter()
    before, _COUNTS.counter = _COUNTS.counter, counts
    try:
        yield counts
    finally:
        _COUNTS.counter = before
        _COLLECTOR.leave()
