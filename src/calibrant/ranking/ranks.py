"""Ranks of methods on every task, and average ranks."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from calibrant.errors import ParameterError
from calibrant.options import check_flag
from calibrant.ranking.table import Missing, StudyTable

__all__ = ["Ties", "average_ranks", "listed", "ranks", "ranks_of"]

Ties = Literal["average", "min"]
"""``"average"``: ties share the mean of their ranks (1, 2.5, 2.5, 4); ``"min"``: the best of them (1, 2, 2, 4)."""


def ranks(
    table: Any,
    *,
    higher_is_better: bool = False,
    ties: Ties = "average",
    decimals: int | None = None,
    missing: Missing = "drop",
) -> NDArray[np.float64]:
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
        Whether tasks with a missing result are left out, with a warning that counts them, or refused.

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
) -> NDArray[np.float64]:
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
) -> NDArray[np.float64]:
    check_flag("higher_is_better", higher_is_better)
    if ties not in ("average", "min"):
        raise ParameterError(f"ties must be 'average' or 'min', not {ties!r}.")
    if decimals is not None and not isinstance(decimals, int | np.integer):
        raise ParameterError(f"decimals must be an integer or None, not {decimals!r}.")
    values = StudyTable.parse(table, missing=missing, stacklevel=4).values
    return ranks_of(values if decimals is None else values.round(decimals), higher_is_better, ties)


def ranks_of(
    values: NDArray[np.float64], higher_is_better: bool, ties: Ties = "average"
) -> NDArray[np.float64]:
    """Return the ranks of parsed values, (N, k)."""
    return np.asarray(
        rankdata(-values if higher_is_better else values, method=ties, axis=1), dtype=np.float64
    )


def listed(methods: tuple[str, ...], average: NDArray[np.float64]) -> str:
    """Return the methods with their average ranks, the best first."""
    return ", ".join(f"{methods[k]} {average[k]:.2f}" for k in np.argsort(average, kind="stable"))
