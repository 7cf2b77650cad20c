"""Checks of table cells: finite scores, present labels and groups, valid weights."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import LabelError, PredictionError, WeightError

__all__ = ["MISSING", "as_integers", "check_finite", "check_names", "check_no_nul", "check_weights"]

MISSING = {"", "na", "nan", "n/a", "null", "none", "<na>", "#n/a"}
"""Texts for a missing number, in lower or upper case."""

Place = Callable[[int], str]
"""Function that describes the position of a row for error messages."""

INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.0+)?")


def check_finite(scores: NDArray[np.floating], path: Path, columns: tuple[str, ...], place: Place) -> None:
    """Reject scores, (n, K), with missing or infinite values."""
    wrong = ~np.isfinite(scores)
    if not wrong.any():
        return
    row, number = divmod(int(np.argmax(wrong)), scores.shape[1])
    column = f"column {columns[number]!r}" if len(columns) > number else f"column {number}"
    what = "has no value" if np.isnan(scores[row, number]) else f"is {scores[row, number]}"
    n_rows = int(wrong.any(axis=1).sum())
    more = f" ({n_rows} such rows up to here)" if n_rows > 1 else ""
    raise PredictionError(
        f"{path}: {place(row)}, {column} {what}{more}; scores must be finite numbers, so remove or repair such rows."
    )


def check_names(missing: NDArray[np.bool_], path: Path, column: str, place: Place) -> None:
    """Reject labels or groups with missing values."""
    if missing.any():
        raise LabelError(
            f"{path}: {place(int(np.argmax(missing)))}, column {column!r} is empty; remove rows without a value there."
        )


def check_no_nul(found: NDArray[np.bool_], path: Path, column: str, place: Place) -> None:
    """Reject labels or groups with NUL characters, which numpy drops at the end of text."""
    if found.any():
        raise LabelError(
            f"{path}: {place(int(np.argmax(found)))}, column {column!r} has a NUL character; remove it from the text."
        )


def check_weights(weights: NDArray[np.float64], path: Path, column: str, place: Place) -> None:
    """Reject weights that are missing, infinite or negative."""
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        what = "has no value" if np.isnan(weights[row]) else f"is {weights[row]:g}"
        raise WeightError(
            f"{path}: {place(row)}, column {column!r} {what}; weights must be finite and not negative."
        )


def as_integers(names: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return names as integers if all are integers, also as text; else None.

    >>> as_integers(np.array(["0", "-1", "2.0"])), as_integers(np.array(["007"]))
    (array([ 0, -1,  2]), None)
    """
    if names.dtype.kind in "iu":
        return names.astype(np.int64)
    if names.dtype.kind != "U" or not all(INTEGER.fullmatch(name) for name in names.tolist()):
        return None
    return np.array([int(name.partition(".")[0]) for name in names.tolist()], dtype=np.int64)
