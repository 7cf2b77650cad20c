"""Warnings that point at the line of the user's call, however deep in the package they arise."""

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from calibrant.presentation.sentences import counted

__all__ = ["Notice", "gathered", "held_back", "warn_user"]

PACKAGE = __name__.partition(".")[0]

# The frame between a context manager of this package and the function that uses it.
CONTEXTS = contextmanager.__module__

Notice = tuple[str, type[Warning]]
"""Text and category of a warning."""

# A list of our own: warnings.catch_warnings changes the filters of the complete process, and leaves them changed if
# two threads use it at the same time.
_HELD: ContextVar[list[Notice] | None] = ContextVar("held", default=None)


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the first line outside this package, unless warnings are being collected."""
    held = _HELD.get()
    if held is not None:
        held.append((message, category))
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def held_back() -> Iterator[list[Notice]]:
    """Collect warnings of this package in a list instead of issuing them, in this thread and those it starts.

    >>> with held_back() as notices:
    ...     warn_user("too few rows.", UserWarning)
    >>> notices
    [('too few rows.', <class 'UserWarning'>)]
    """
    held: list[Notice] = []
    token = _HELD.set(held)
    try:
        yield held
    finally:
        _HELD.reset(token)


@contextmanager
def gathered(parts: int, noun: str, of_parts: list[Notice] | None = None) -> Iterator[None]:
    """Collect the warnings of several similar fits, then issue each once, with the number of fits that raised it.

    ``of_parts`` may be filled in the meantime with warnings from other processes.

    >>> with warnings.catch_warnings(record=True, action="always") as seen, gathered(3, "fit"):
    ...     for _ in range(2):
    ...         warn_user("too few rows.", UserWarning)
    >>> [str(warning.message) for warning in seen]
    ['too few rows (2 of 3 fits).']
    """
    with held_back() as held:
        yield
    for (message, category), count in Counter([*held, *(of_parts or [])]).items():
        warn_user(f"{message.removesuffix('.')} ({count} of {counted(parts, noun)}).", category)


def _is_inside(module: str) -> bool:
    return module in (PACKAGE, CONTEXTS) or module.startswith(f"{PACKAGE}.")
