"""Groups of rows that belong together, such as all images of one patient, and warnings if they are too few."""

from typing import Any

import numpy as np

from calibrant.arrays import IntArray
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.cluster_variance import effective_number
from calibrant.presentation.sentences import counted

__all__ = ["MIN_UNITS", "few_rows_of_a_class", "few_unequal_groups", "group_numbers"]


def group_numbers(groups: Any, n_rows: int, sample_weight: Any) -> IntArray:
    """Return the group number of every row of positive weight, from 0 without gaps.

    ``n_rows`` is the number of rows as given, including those of weight zero.

    >>> group_numbers(["b", "a", "c", "b"], 4, [1, 1, 0, 1])
    array([1, 0, 1])
    """
    names = np.asarray(groups)
    if names.shape != (n_rows,):
        raise ParameterError(
            f"groups must have one entry per row, but have shape {names.shape} for {counted(n_rows, 'row')}; "
            "pass a flat array of that length."
        )
    if names.dtype.kind == "f" and np.isnan(names).any():
        row = int(np.argmax(np.isnan(names)))
        raise ParameterError(
            f"groups must not be missing, but row {row} has NaN; give it a group of its own."
        )
    if sample_weight is not None:
        names = names[np.asarray(sample_weight, dtype=np.float64) > 0]
    try:
        _, numbers = np.unique(names, return_inverse=True)
    except TypeError as error:
        raise ParameterError("groups must be all numbers or all strings; convert them first.") from error
    return numbers.reshape(-1).astype(np.intp, copy=False)


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
