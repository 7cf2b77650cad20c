"""Tables of results by task and method, ranks of the methods on every task, and average ranks."""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy.stats import rankdata

from calibrant.arrays import Float64Array
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.options import check_flag, real_array
from calibrant.presentation.sentences import counted

__all__ = ["Missing", "StudyTable", "Ties", "average_ranks", "listed", "ranks", "ranks_of"]


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

    values: Float64Array
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
            Whether tasks with a missing result are left out, with a warning that counts them, or raise an error.
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


def _numbers(table: Any) -> Float64Array:
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


Ties = Literal["average", "min"]
"""``"average"``: ties share the mean of their ranks (1, 2.5, 2.5, 4); ``"min"``: the best of them (1, 2, 2, 4)."""


def ranks(
    table: Any,
    *,
    higher_is_better: bool = False,
    ties: Ties = "average",
    decimals: int | None = None,
    missing: Missing = "drop",
) -> Float64Array:
    r"""Rank the methods on every task; the best has rank 1.

    .. math:: r_{ij} = 1 + \#\{l : x_{il} < x_{ij}\} + \tfrac{1}{2} \#\{l \ne j : x_{il} = x_{ij}\}

    for :math:`x_{ij}`, the result of method j on task i, when smaller is better and ties are averaged.

    Parameters
    ----------
    table : frame or array of shape (N, k)
        One row per task, one column per method. An infinite loss ranks last, and infinities tie.
    higher_is_better : bool, default=False
        Whether a larger number is the better one, as for an accuracy.
    ties : {"average", "min"}, default="average"
        Rank that ties share: the mean of their ranks, on which the tests here are based, or the best of them
        (competition ranking).
    decimals : int, optional
        Number of decimals to round to first, so that values that would be printed alike are ties.
    missing : {"drop", "raise"}, default="drop"
        Whether tasks with a missing result are left out, with a warning that counts them, or raise an error.

    Returns
    -------
    ndarray of shape (N, k)
        Ranks from 1 to k, for complete tasks only.

    Notes
    -----
    :cite:`kull2019` averages ties, and prints the averaged ranks truncated to integers; :cite:`valk2022` rounds
    the scores and gives ties the best rank: ``ties="min", decimals=...``. Costs O(N k log k).

    Examples
    --------
    >>> ranks([[0.31, 0.24, 0.24], [0.5, float("inf"), 0.2]])
    array([[3. , 1.5, 1.5], [2. , 3. , 1. ]])
    >>> ranks([[0.914, 0.911, 0.899]], higher_is_better=True, ties="min", decimals=2)
    array([[1., 1., 3.]])
    """
    return _checked_ranks(table, higher_is_better, ties, decimals, missing)


def average_ranks(
    table: Any,
    *,
    higher_is_better: bool = False,
    ties: Ties = "average",
    decimals: int | None = None,
    missing: Missing = "drop",
) -> Float64Array:
    r"""Mean rank of every method over all tasks, :math:`R_j = \frac{1}{N} \sum_i r_{ij}`; see :func:`~calibrant.ranking.ranks`.

    Returns
    -------
    ndarray of shape (k,)
        From 1 to k; lower is better. With averaged ties their mean over methods is (k + 1) / 2.

    Examples
    --------
    >>> average_ranks([[0.31, 0.24, 0.24], [0.5, 0.3, 0.2]])
    array([3. , 1.75, 1.25])
    """
    given = _checked_ranks(table, higher_is_better, ties, decimals, missing)
    return np.asarray(given.mean(axis=0), dtype=np.float64)


def _checked_ranks(
    table: Any, higher_is_better: bool, ties: Ties, decimals: int | None, missing: Missing
) -> Float64Array:
    check_flag("higher_is_better", higher_is_better)
    if ties not in ("average", "min"):
        raise ParameterError(f"ties must be 'average' or 'min', not {ties!r}.")
    if decimals is not None and not isinstance(decimals, int | np.integer):
        raise ParameterError(f"decimals must be an integer or None, not {decimals!r}.")
    values = StudyTable.parse(table, missing=missing, stacklevel=4).values
    return ranks_of(values if decimals is None else values.round(decimals), higher_is_better, ties)


def ranks_of(values: Float64Array, higher_is_better: bool, ties: Ties = "average") -> Float64Array:
    """Return the ranks of parsed values, (N, k)."""
    return np.asarray(
        rankdata(-values if higher_is_better else values, method=ties, axis=1), dtype=np.float64
    )


def listed(methods: tuple[str, ...], average: Float64Array) -> str:
    """Return the methods with their average ranks, the best first."""
    return ", ".join(f"{methods[k]} {average[k]:.2f}" for k in np.argsort(average, kind="stable"))
