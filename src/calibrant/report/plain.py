"""Convert arrays and intervals of the library to the plain numbers of a report."""

import re
from collections.abc import Iterable
from math import floor, log10
from typing import Any

import numpy as np

from calibrant.intervals import Interval
from calibrant.report.contents import Estimate, Numbers

__all__ = [
    "class_named",
    "decimals_of_percent",
    "estimate_of",
    "number",
    "numbers",
    "percent",
    "points",
    "quoted",
]

NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")


def number(value: Any) -> float | None:
    """Return a Python float, or None for NaN.

    >>> number(np.float32(0.5)), number(float("nan")), number(None)
    (0.5, None, None)
    """
    if value is None:
        return None
    plain = float(value)
    return None if np.isnan(plain) else plain


def numbers(values: Iterable[Any]) -> Numbers:
    """Return all entries, converted by :func:`number`.

    >>> numbers(np.array([0.5, np.nan]))
    (0.5, None)
    """
    return tuple(number(value) for value in np.asarray(values, dtype=np.float64).tolist())


def estimate_of(
    name: str, interval: Interval, definition: str = "", *, higher_is_better: bool = False
) -> Estimate:
    """Return an interval of the library as an estimate with a readable name."""
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
    """Return a proportion in percent, with two significant digits near 0 and 1.

    >>> percent(0.12345), percent(1.0, 0), percent(0.00123), percent(0.99877), percent(1e-9)
    ('12.3 %', '100 %', '0.12 %', '99.88 %', '0.00000010 %')
    """
    return f"{100 * share:.{max(digits, decimals_of_percent(share))}f} %"


def decimals_of_percent(share: float) -> int:
    """Return the decimals that show two significant digits of the distance of a proportion from 0 or 1.

    >>> decimals_of_percent(0.25), decimals_of_percent(0.0042), decimals_of_percent(0.0)
    (0, 2, 0)
    """
    size = 100 * min(abs(share), abs(1 - abs(share)))
    return 1 - floor(log10(size)) if 0 < size < 1 else 0


def points(share: float) -> str:
    """Return the size of a difference of probabilities in percentage points, with two significant digits.

    >>> points(0.0312), points(0.00042), points(0.01), points(0.25), points(-0.02), points(1e-9)
    ('3.1 points', '0.042 points', '1 point', '25 points', '2 points', '0.000 points')
    """
    size = abs(100 * share)
    text = f"{size:.3f}" if 0 < size < 0.01 else f"{size:.0f}" if size >= 99.5 else f"{size:.2g}"
    return f"{text} point" if text == "1" else f"{text} points"


def quoted(label: str) -> str:
    """Return the label of a class for a sentence: in quotation marks unless it is a number.

    >>> quoted("cat"), quoted("46"), quoted("-1.5"), quoted("nan")
    ("'cat'", '46', '-1.5', "'nan'")
    """
    return label if NUMBER.fullmatch(label) else repr(label)


def class_named(label: str) -> str:
    """Return "class" followed by the label.

    >>> class_named("cat"), class_named("46")
    ("class 'cat'", 'class 46')
    """
    return f"class {quoted(label)}"
