"""Warnings that point at the line of the user's call, however deep in the package they arise."""

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from calibrant.errors import CalibrationWarning
from calibrant.wording import counted

__all__ = ["gathered", "warn_user"]

PACKAGE = __name__.partition(".")[0]

# Stands between a context manager of ours and the function of ours that uses it.
CONTEXTS = contextmanager.__module__


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the first line outside this package that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def gathered(parts: int, noun: str) -> Iterator[None]:
    """Hold back the warnings of many like fits, then give each once, with the number of fits that gave it.

    >>> with warnings.catch_warnings(record=True, action="always") as seen, gathered(3, "fit"):
    ...     for _ in range(2):
    ...         warn_user("too few rows.", CalibrationWarning)
    >>> [str(warning.message) for warning in seen]
    ['too few rows (2 of 3 fits).']
    """
    with warnings.catch_warnings(record=True) as held:
        warnings.simplefilter("always")
        yield
    ours = [warning for warning in held if issubclass(warning.category, CalibrationWarning)]
    for (message, category), count in Counter((str(item.message), item.category) for item in ours).items():
        warn_user(f"{message.removesuffix('.')} ({count} of {counted(parts, noun)}).", category)
    for warning in held:
        if warning not in ours:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _is_inside(module: str) -> bool:
    return module in (PACKAGE, CONTEXTS) or module.startswith(f"{PACKAGE}.")
