"""A context of the whole process that several threads are in at the same time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

__all__ = ["SharedContext"]


class SharedContext:
    """What all threads share: the first one in sets it up, the last one out takes it back.

    Parameters
    ----------
    make : callable
        Returns the context; called whenever a first one comes in.

    Examples
    --------
    >>> from contextlib import contextmanager
    >>> @contextmanager
    ... def light():
    ...     print("on")
    ...     yield
    ...     print("off")
    >>> room = SharedContext(light)
    >>> with room.entered(), room.entered():
    ...     print("two inside")
    on
    two inside
    off
    """

    def __init__(self, make: Callable[[], AbstractContextManager[object]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._n_inside = 0
        self._context: AbstractContextManager[object] | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Return a context of one thread; they may overlap in any order."""
        with self._lock:
            if self._n_inside == 0:
                self._context = self._make()
                self._context.__enter__()
            self._n_inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_inside -= 1
                if self._n_inside == 0 and self._context is not None:
                    self._context.__exit__(None, None, None)
                    self._context = None
