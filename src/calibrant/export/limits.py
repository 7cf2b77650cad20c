"""Limits on exported files that are applied: what an export of any calibrator stays far below."""

__all__ = ["LARGEST_VALUE", "MOST_ENTRIES", "MOST_WORK"]

LARGEST_VALUE = 2**25
"""Entries of a value for the test rows; more is refused before it is computed."""

MOST_ENTRIES = 2**29
"""Entries of all values together."""

MOST_WORK = 2**36
"""Products and sums of all operators together."""
