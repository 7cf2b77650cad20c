"""Warnings of a unit, counted instead of printed, in whatever thread it runs."""

import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from calibrant.numerics.row_blocks import SharedContext

__all__ = ["counted_warnings"]


class _Counts(threading.local):
    """Where the warnings of this thread go."""

    counter: Counter[str] | None = None


@contextmanager
def _collected() -> Iterator[None]:
    """Return a context in which the warnings of all threads are counted, or shown if their thread does not count.

    The list of filters belongs to the whole process, so that threads cannot each have their own.
    """
    with warnings.catch_warnings():
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
        yield


_COUNTS = _Counts()
_COLLECTOR = SharedContext(_collected)


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
    with _COLLECTOR.entered():
        before, _COUNTS.counter = _COUNTS.counter, counts
        try:
            yield counts
        finally:
            _COUNTS.counter = before
