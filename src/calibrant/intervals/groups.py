"""Groups of rows that belong together, such as all images of one patient."""

from typing import Any

import numpy as np

from calibrant.arrays import IntArray
from calibrant.errors import ParameterError
from calibrant.presentation.sentences import counted

__all__ = ["group_numbers"]


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
