"""From arrays and intervals of the library to the plain numbers of a report."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from calibrant.intervals import Interval
from calibrant.report.contents import Estimate, Numbers

__all__ = ["estimate_of", "number", "numbers", "percent", "points", "signed_text"]


def number(value: Any) -> float | None:
    """Return a float of Python, or None for what is not a number.

    >>> number(np.float32(0.5)), number(float("nan")), number(None)
    (0.5, None, None)
    """
    if value is None:
        return None
    plain = float(value)
    return None if np.isnan(plain) else plain


def numbers(values: Iterable[Any]) -> Numbers:
    """Return every entry as :func:`number` does.

    >>> numbers(np.array([0.5, np.nan]))
    (0.5, None)
    """
    return tuple(number(value) for value in np.asarray(values, dtype=np.float64).tolist())


def estimate_of(
    name: str, interval: Interval, definition: str = "", *, higher_is_better: bool = False
) -> Estimate:
    """Return an interval of the library under a name for readers."""
    said = definition or interval.definition
    return Estimate(
        name=name,
        value=number(interval.estimate),
        low=number(interval.low),
        high=number(interval.high),
        level=interval.level,
        definition=f"{said}; {interval.method}",
        higher_is_better=higher_is_better,
        note=interval.note,
    )


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent.

    >>> percent(0.12345), percent(1.0, 0)
    ('12.3 %', '100 %')
    """
    return f"{100 * share:.{digits}f} %"


def points(share: float) -> str:
    """Return a difference of probabilities in percentage points, with two digits that count.

    >>> points(0.0312), points(0.00042), points(0.01), points(0.25), points(-0.02)
    ('3.1 points', '0.042 points', '1 point', '25 points', '2 points')
    """
    text = f"{abs(100 * share):.2g}"
    return f"{text} point" if text == "1" else f"{text} points"


def signed_text(value: float, digits: int = 3) -> str:
    """Return a number with its sign and digits that count.

    >>> signed_text(0.01234), signed_text(-2.0)
    ('+0.0123', '-2')
    """
    return f"{value:+.{digits}g}"
