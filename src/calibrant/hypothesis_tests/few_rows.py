"""A caution for asymptotic p-values from few rows."""

from calibrant.wording import counted

__all__ = ["few_rows"]

# Below this number of rows asymptotic p-values are inaccurate.
FEW_ROWS = 10


def few_rows(n_rows: int) -> str | None:
    """Return a caution for an asymptotic p-value from n rows; None if there are enough.

    >>> few_rows(7)
    'a p-value from 7 rows is rough; use consistency_test'
    """
    if n_rows >= FEW_ROWS:
        return None
    return f"a p-value from {counted(n_rows, 'row')} is rough; use consistency_test"
