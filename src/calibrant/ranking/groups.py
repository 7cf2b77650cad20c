"""Groups of methods without significant differences: the bars of a critical difference diagram."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.errors import ParameterError
from calibrant.options import is_number, real_array
from calibrant.wording import counted

__all__ = ["groups_without_difference"]


def groups_without_difference(
    average_ranks: Any, critical_difference: float, *, methods: Sequence[str] | None = None
) -> list[tuple[str, ...]]:
    """Return the maximal groups of methods whose average ranks all lie within the critical difference.

    Parameters
    ----------
    average_ranks : array of shape (k,)
        Mean rank of every method.
    critical_difference : float
        Methods whose average ranks differ by at least this much are different.
    methods : sequence of k str, optional
        Names of the methods; by default 0, 1, ...

    Returns
    -------
    list of tuple of str
        Groups of two or more methods, from best to worst, none contained in another; they may overlap. A method in
        no group differs from all others. Costs O(k log k).

    Examples
    --------
    >>> groups_without_difference([2.6, 1.2, 3.4, 2.0], 1.0, methods=["a", "b", "c", "d"])
    [('b', 'd'), ('d', 'a'), ('a', 'c')]
    """
    ranks = real_array(average_ranks)
    if ranks is None or ranks.ndim != 1 or not np.isfinite(ranks).all():
        raise ParameterError(f"average_ranks must be a flat array of finite numbers, not {average_ranks!r}.")
    if not is_number(critical_difference) or not critical_difference > 0:
        raise ParameterError(f"critical_difference must be positive, but is {critical_difference!r}.")
    names = tuple(str(name) for name in (range(len(ranks)) if methods is None else methods))
    if len(names) != len(ranks):
        raise ParameterError(
            f"groups need one name per average rank, but got {counted(len(names), 'name')} for "
            f"{counted(len(ranks), 'average rank')}; pass one name each."
        )
    order = np.argsort(ranks, kind="stable")
    ordered = ranks[order]
    # For every method as the best of a group, one past the worst that is not different from it. Ranks that
    # differ by the critical difference up to rounding are different.
    ends = np.searchsorted(ordered, ordered + critical_difference * (1 - 1e-12), side="left")
    groups, covered = [], 0
    for first, end in enumerate(ends):
        if end - first >= 2 and end > covered:
            groups.append(tuple(names[i] for i in order[first:end]))
            covered = end
    return groups
