"""Reasons why an interval may be too short: few groups of unequal size, few rows of a rare class."""

import numpy as np

from calibrant.arrays import IntArray
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.cluster_variance import effective_number
from calibrant.presentation.sentences import counted

__all__ = ["MIN_UNITS", "few_rows_of_a_class", "few_unequal_groups"]

MIN_UNITS = 20

# Share of the rows below which a class is rare.
RARE = 0.1


def few_rows_of_a_class(data: LabelledPredictions, fewest: int) -> str | None:
    """Return a remark if the rarer of two classes is rare and has fewer than ``fewest`` rows."""
    counts = np.bincount(data.labels, minlength=data.n_classes)
    if data.n_classes != 2 or data.n_rows < MIN_UNITS or counts.min() >= min(fewest, RARE * data.n_rows):
        return None
    return f"only {counted(int(counts.min()), 'row')} of the rarer class, so the interval may be too short"


def few_unequal_groups(groups: IntArray) -> str | None:
    """Return a remark if the effective number of groups is small because their sizes are unequal.

    >>> few_unequal_groups(np.array([0] * 20 + [1, 2, 3]))
    'effectively 1.31 groups because of their unequal sizes, so the interval may be too short'
    """
    sizes = np.bincount(groups)
    effective = effective_number(sizes)
    if effective >= min(MIN_UNITS, 0.9 * len(sizes)):
        return None
    return (
        f"effectively {effective:.3g} groups because of their unequal sizes, so the interval may be too short"
    )
