"""What to bear in mind of an asymptotic p-value from few rows."""

from calibrant.wording import counted

__all__ = ["few_rows"]

# With fewer rows no limit of many rows is near.
FEW_ROWS = 10


def few_rows(n_rows: int) -> str | None:
    """Return what to bear in mind of an asymptotic p-value from so many rows; None if there are enough.

    >>> few_rows(7)
    'a p-value from 7 rows is rough; use consistency_test'
    """
    if n_rows >= FEW_ROWS:
        return None
    return f"a p-value from {counted(n_rows, 'row')} is rough; use consistency_test"
