"""Table of results of a study, one number per task and method, parsed once."""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.options import real_array
from calibrant.wording import counted

__all__ = ["Missing", "StudyTable"]

Missing = Literal["drop", "raise"]
"""Treatment of tasks without a result for some method: left out with a warning, or an error."""


@dataclass(frozen=True, eq=False)
class StudyTable:
    """Numbers of N tasks (rows) by k methods (columns), without missing values.

    Attributes
    ----------
    values : ndarray of shape (N, k)
        float64 without NaN. Infinities are allowed: an infinite loss is worse than any other, and
        two of them are equal.
    methods : tuple of str
        Names of the columns; column numbers if the table has none.

    Examples
    --------
    >>> StudyTable.parse([[0.3, 0.2], [0.5, 0.1]], names=["beta", "isotonic"]).methods
    ('beta', 'isotonic')
    """

    values: NDArray[np.float64]
    methods: tuple[str, ...]

    @classmethod
    def parse(
        cls,
        table: Any,
        *,
        names: Any = None,
        missing: Missing = "drop",
        min_tasks: int = 1,
        stacklevel: int = 3,
    ) -> Self:
        """Parse a table of tasks by methods: a pandas or polars data frame, an array, or a list of rows.

        Parameters
        ----------
        table : frame or array of shape (N, k)
            Numbers. NaN, None and masked entries are missing.
        names : sequence of str, optional
            Names of the methods; by default the columns of a data frame, else 0, 1, ...
        missing : {"drop", "raise"}, default="drop"
            Whether tasks with a missing result are left out, with a warning that counts them, or refused.
        min_tasks : int, default=1
            Smallest number of complete tasks.
        stacklevel : int, default=3
            Stack level of warnings; 3 is the caller of the function that parses.
        """
        if missing not in ("drop", "raise"):
            raise ParameterError(f"missing must be 'drop' or 'raise', not {missing!r}.")
        values = _numbers(table)
        methods = _method_names(table, names, values.shape[1])
        incomplete = np.isnan(values).any(axis=1)
        if incomplete.any():
            row, column = divmod(int(np.argmax(np.isnan(values))), values.shape[1])
            one = int(incomplete.sum()) == 1
            found = (
                f"{int(incomplete.sum())} of {counted(len(values), 'task')} {'lacks' if one else 'lack'} a result, "
                f"the first in row {row} for the method {methods[column]!r}"
            )
            if missing == "raise":
                them = "it" if one else "them"
                raise ParameterError(f"{found}; complete {them}, or leave {them} out by missing='drop'.")
            left_out = "it is left out" if one else "they are left out"
            warnings.warn(f"{found}; {left_out}.", CalibrationWarning, stacklevel=stacklevel)
            values = values[~incomplete]
        if len(values) < min_tasks:
            raise ParameterError(
                f"at least {counted(min_tasks, 'complete task')} {'is' if min_tasks == 1 else 'are'} needed, but there "
                f"{'is' if len(values) == 1 else 'are'} {len(values)}; add tasks."
            )
        return cls(values, methods)

    @property
    def n_tasks(self) -> int:
        """Number of tasks, N."""
        return int(self.values.shape[0])

    @property
    def n_methods(self) -> int:
        """Number of methods, k."""
        return int(self.values.shape[1])


def _numbers(table: Any) -> NDArray[np.float64]:
    """Return the entries as float64, with NaN for missing values."""
    masked = isinstance(table, np.ma.MaskedArray)
    entries = table.to_numpy() if hasattr(table, "to_numpy") else table
    values = real_array(np.ma.getdata(table) if masked else entries)
    if values is None:
        raise ParameterError(
            "the table must hold one real number for every task and method; "
            "drop other columns and give all rows the same length."
        )
    if masked:
        values[np.ma.getmaskarray(table)] = np.nan
    if values.ndim != 2 or values.shape[1] < 2:
        raise ParameterError(
            f"the table must have one row per task and one column for each of at least two methods, "
            f"but has shape {values.shape}; transpose or stack the results."
        )
    return values


def _method_names(table: Any, names: Any, n_methods: int) -> tuple[str, ...]:
    columns = getattr(table, "columns", None) if names is None else names
    methods = tuple(str(name) for name in (range(n_methods) if columns is None else columns))
    if len(methods) != n_methods or len(set(methods)) != n_methods:
        raise ParameterError(f"there must be {n_methods} different names of methods, but they are {methods}.")
    return methods
