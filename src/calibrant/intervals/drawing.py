"""Resampling schemes of the bootstrap: rows, rows within classes, or groups."""

from collections.abc import Callable
from typing import Any

from calibrant.errors import ParameterError
from calibrant.intervals.groups import group_numbers
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import is_declared
from calibrant.numerics.row_blocks import n_threads_available
from calibrant.numerics.row_resampling import RowResampling
from calibrant.options import check_flag

__all__ = ["method_name", "resampling_of", "threads_for"]

# With fewer rows most of the time is spent in the interpreter, which holds the GIL.
ROWS_FOR_THREADS = 20_000


def resampling_of(
    data: LabelledPredictions, y_true: Any, sample_weight: Any, stratify: bool, groups: Any
) -> RowResampling:
    """Return the resampling scheme for the rows of ``data``."""
    check_flag("stratify", stratify)
    if groups is None:
        return RowResampling(data.n_rows, strata=data.labels if stratify else None)
    if stratify:
        raise ParameterError(
            "stratify draws rows of each class and groups draws complete groups, which cannot be combined; "
            "set stratify=False."
        )
    return RowResampling(data.n_rows, groups=group_numbers(groups, len(y_true), sample_weight))


def threads_for(metric: Callable[..., Any], n_rows: int) -> int:
    """Return the number of threads to use; a user's own function never runs in two at once."""
    return n_threads_available() if n_rows >= ROWS_FOR_THREADS and is_declared(metric) else 1


def method_name(method: str, stratify: bool, groups: Any) -> str:
    """Return the method in words."""
    return f"{method} bootstrap" + (" by class" if stratify else "" if groups is None else " by group")
