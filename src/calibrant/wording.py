"""Formatting of p-values, counts and class names for the sentences of all results."""

from typing import Any

__all__ = ["LONGEST_NAME", "class_text", "counted", "p_text", "shortened"]

LONGEST_NAME = 40
"""Largest number of characters of a name that a message or a table shows."""

# Close to the underflow of float64: below it, a tail probability of zero is only rounding.
SMALLEST_SHOWN = 1e-300


def p_text(p_value: float, n_resamples: int | None = None, digits: int = 3) -> str:
    """Format a p-value; a zero becomes a bound, since neither resampling nor float64 can show that p is zero.

    >>> p_text(0.01234), p_text(0.0), p_text(0.0, n_resamples=1000), p_text(0.01234, digits=2)
    ('p = 0.0123', 'p < 1e-300', 'p < 0.001', 'p = 0.012')
    """
    if p_value == 0 and n_resamples:
        return f"p < {1 / n_resamples:.3g}"
    return f"p < {SMALLEST_SHOWN:g}" if p_value < SMALLEST_SHOWN else f"p = {p_value:.{digits}g}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is one.

    >>> counted(1, "row"), counted(0, "row"), counted(3, "class")
    ('1 row', '0 rows', '3 classes')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def class_text(label: Any) -> str:
    """Return a class with its label, as the user knows it.

    >>> import numpy as np
    >>> class_text(np.array(["no", "yes"])[1]), class_text(np.arange(2)[1])
    ("class 'yes'", 'class 1')
    """
    plain = label.item() if hasattr(label, "item") else label  # of numpy
    return f"class {plain!r}"


def shortened(text: str, longest: int = LONGEST_NAME) -> str:
    """Return a text, truncated if it is longer than ``longest``.

    >>> shortened("a" * 300, 8)
    'aaaaaaa…'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
