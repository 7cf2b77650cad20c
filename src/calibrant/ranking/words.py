"""Counts and p-values as parts of a sentence."""

__all__ = ["counted", "p_value_in_words"]

# About where float64 ends: below it a tail probability is zero only for want of digits.
SMALLEST_P_VALUE = 1e-300


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless there is one.

    >>> counted(1, "row"), counted(0, "row"), counted(12, "task")
    ('1 row', '0 rows', '12 tasks')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def p_value_in_words(p_value: float, digits: int = 3) -> str:
    """Return a p-value as it is printed; none is ever zero.

    >>> p_value_in_words(0.03456), p_value_in_words(0.03456, 2), p_value_in_words(0.0)
    ('p = 0.0346', 'p = 0.035', 'p < 1e-300')
    """
    return f"p < {SMALLEST_P_VALUE:g}" if p_value < SMALLEST_P_VALUE else f"p = {p_value:.{digits}g}"
