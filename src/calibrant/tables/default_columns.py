"""Default score columns: all numeric columns except row numbers and identifiers."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import PredictionError
from calibrant.tables.score_columns import ScoreColumns, listed

__all__ = ["counts_rows", "default_columns"]

NEVER_SCORES = re.compile(r"|unnamed: .*|__index_level_\d+__|id|index|row", re.IGNORECASE)
"""Names of row-number columns; the first three are those of pandas."""

FEWEST_ROWS = 3  # the predictions 0 and 1 of two rows are distinct integers too


def default_columns(
    path: Path, numeric: Sequence[str], values: Callable[[str], NDArray[np.floating]]
) -> ScoreColumns:
    """Return the score columns among the numeric ones, without row numbers and identifiers.

    Parameters
    ----------
    path : Path
        File name for the error message.
    numeric : sequence of str
        Numeric columns that have no other role.
    values : function
        Returns the first rows of a column.

    Examples
    --------
    >>> rows = {"id": np.zeros(3), "case": np.array([7.0, 9, 8]), "p": np.array([0.1, 0.5, 0.2])}
    >>> default_columns(Path("a.csv"), list(rows), rows.get)
    ScoreColumns(names=('p',), classes=('p',), left_out=('id', 'case'), is_default=True)
    """
    called_so = [name for name in numeric if NEVER_SCORES.fullmatch(name)]
    others = [name for name in numeric if name not in called_so]
    counting = [name for name in others if counts_rows(values(name))]
    # Integer logits in few rows look like row numbers too; if all columns do, they are kept.
    kept = [name for name in others if name not in counting] or others
    if not kept:
        but = f", except for {listed(called_so)}" if called_so else ""
        raise PredictionError(f"{path}: no numeric column could be a score{but}.")
    left_out = tuple(name for name in numeric if name not in kept)
    return ScoreColumns(tuple(kept), tuple(kept), left_out, is_default=True)


def counts_rows(values: NDArray[np.floating]) -> bool:
    """Return whether values are distinct integers, like row numbers or identifiers.

    >>> counts_rows(np.array([4.0, 2.0, 9.0])), counts_rows(np.array([0.0, 1.0, 0.0]))
    (True, False)
    """
    if len(values) < FEWEST_ROWS or not np.isfinite(values).all():
        return False
    return bool((values == np.round(values)).all()) and len(np.unique(values)) == len(values)
