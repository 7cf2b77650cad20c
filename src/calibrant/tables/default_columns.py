"""Which columns of numbers are scores if nobody says: all but row numbers and other columns that count rows."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import PredictionError
from calibrant.tables.score_columns import ScoreColumns, listed

__all__ = ["counts_rows", "default_columns"]

NEVER_SCORES = re.compile(r"|unnamed: .*|__index_level_\d+__|id|index|row", re.IGNORECASE)
"""Names of columns that number the rows; the first three are those of pandas."""

FEWEST_ROWS = 3  # two rows of certain predictions, 0 and 1, are distinct whole numbers too


def default_columns(
    path: Path, numeric: Sequence[str], values: Callable[[str], NDArray[np.floating]]
) -> ScoreColumns:
    """Return the columns of scores among those of numbers, without those that number the rows.

    Parameters
    ----------
    path : Path
        For the error if there is none.
    numeric : sequence of str
        Columns of numbers that are not used otherwise.
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
    # Integer logits of few rows: if all columns look so, none of them says that it is a number of the row.
    kept = [name for name in others if name not in counting] or others
    if not kept:
        but = f", apart from {listed(called_so)}" if called_so else ""
        raise PredictionError(f"{path}: no column has numbers that could be scores{but}.")
    left_out = tuple(name for name in numeric if name not in kept)
    return ScoreColumns(tuple(kept), tuple(kept), left_out, is_default=True)


def counts_rows(values: NDArray[np.floating]) -> bool:
    """Tell whether values are all distinct whole numbers, as a row number or an identifier.

    >>> counts_rows(np.array([4.0, 2.0, 9.0])), counts_rows(np.array([0.0, 1.0, 0.0]))
    (True, False)
    """
    if len(values) < FEWEST_ROWS or not np.isfinite(values).all():
        return False
    return bool((values == np.round(values)).all()) and len(np.unique(values)) == len(values)
