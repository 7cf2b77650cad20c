"""Counts, p-values, names and lists within sentences."""

import re
from collections.abc import Sequence
from typing import Any

from calibrant.presentation.values import SMALLEST_TAIL, Range

__all__ = [
    "LONGEST_NAME",
    "class_named",
    "class_text",
    "counted",
    "enumerated",
    "in_points",
    "interval_in_points",
    "listed",
    "p_text",
    "quoted",
    "sentence",
    "shortened",
]

LONGEST_NAME = 40
"""Largest number of characters of a name that a message or a table shows."""

NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")


def p_text(p_value: float, n_resamples: int | None = None, digits: int = 3) -> str:
    """Format a p-value; a zero becomes a bound, since neither resampling nor float64 can show that p is zero.

    >>> p_text(0.01234), p_text(0.0), p_text(0.0, n_resamples=1000), p_text(0.01234, digits=2)
    ('p = 0.0123', 'p < 1e-300', 'p < 0.001', 'p = 0.012')
    """
    if p_value == 0 and n_resamples:
        return f"p < {1 / n_resamples:.3g}"
    return f"p < {SMALLEST_TAIL:g}" if p_value < SMALLEST_TAIL else f"p = {p_value:.{digits}g}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is one.

    >>> counted(1, "row"), counted(0, "row"), counted(3, "class")
    ('1 row', '0 rows', '3 classes')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def class_text(label: Any) -> str:
    """Return "class" followed by a label as Python prints it.

    >>> import numpy as np
    >>> class_text(np.array(["no", "yes"])[1]), class_text(np.arange(2)[1])
    ("class 'yes'", 'class 1')
    """
    plain = label.item() if hasattr(label, "item") else label  # of numpy
    return f"class {plain!r}"


def quoted(label: str) -> str:
    """Return a label, in quotation marks unless it is a number.

    >>> quoted("cat"), quoted("46"), quoted("-1.5"), quoted("nan")
    ("'cat'", '46', '-1.5', "'nan'")
    """
    return label if NUMBER.fullmatch(label) else repr(label)


def class_named(label: str) -> str:
    """Return "class" followed by a label that is given as text.

    >>> class_named("cat"), class_named("46")
    ("class 'cat'", 'class 46')
    """
    return f"class {quoted(label)}"


def in_points(difference: float) -> str:
    """Return the size of a difference of proportions in percentage points, with two significant digits.

    >>> in_points(0.0312), in_points(0.00042), in_points(0.01), in_points(0.25), in_points(-0.02), in_points(1e-9)
    ('3.1 points', '0.042 points', '1 point', '25 points', '2 points', '0.000 points')
    """
    size = abs(100 * difference)
    text = f"{size:.3f}" if 0 < size < 0.01 else f"{size:.0f}" if size >= 99.5 else f"{size:.2g}"
    return f"{text} point" if text == "1" else f"{text} points"


def interval_in_points(low: float | None, high: float | None) -> str:
    """Return an interval of a difference of proportions in percentage points; empty if an end is missing.

    >>> interval_in_points(-0.0312, 0.25), interval_in_points(None, 0.1)
    ('-3.1 to +25 points', '')
    """
    if low is None or high is None:
        return ""
    return f"{Range(100 * low, 100 * high, 'significant', 2, signed=True).text()} points"


def shortened(text: str, longest: int = LONGEST_NAME) -> str:
    """Return a text, truncated if it is longer than ``longest``.

    >>> shortened("a" * 300, 8)
    'aaaaaaa…'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return up to ``most`` names, and how many more there are.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], 2)
    ('a, b, c', 'a, b and 1 more')
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def enumerated(names: Sequence[str], conjunction: str = "and") -> str:
    """Return all names with a conjunction before the last.

    >>> enumerated(["a", "b", "c"]), enumerated(["a", "b"], "or"), enumerated([])
    ('a, b and c', 'a or b', '')
    """
    return f" {conjunction} ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def sentence(text: str) -> str:
    """Return a phrase as a sentence, with a capital letter and a full stop; an empty text stays empty.

    >>> sentence("fraction of correct rows"), sentence("Yes."), sentence("")
    ('Fraction of correct rows.', 'Yes.', '')
    """
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if not text or text[-1] in ".!?:" else ".")
