"""Nemenyi test: all pairwise comparisons of average ranks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.options import check_flag
from calibrant.ranking.critical_difference import check_level, critical_difference, rank_difference_error
from calibrant.ranking.groups import groups_without_difference
from calibrant.ranking.normal_range import normal_range_tail
from calibrant.ranking.ranks import listed, ranks_of
from calibrant.ranking.table import Missing, StudyTable
from calibrant.wording import counted

__all__ = ["NemenyiResult", "nemenyi_test"]


@dataclass(frozen=True, eq=False)
class NemenyiResult:
    """Result of a Nemenyi test of all pairs of methods.

    Attributes
    ----------
    p_values : ndarray of shape (k, k)
        Symmetric, adjusted for the number of pairs; one on the diagonal.
    average_ranks : ndarray of shape (k,)
        Mean rank of every method, 1 being best.
    critical_difference : float
        Smallest significant difference of average ranks at the level ``alpha``.
    methods : tuple of str
        Names of the methods.
    n_tasks : int
        N.
    alpha : float
        Level of the critical difference.
    """

    p_values: NDArray[np.float64]
    average_ranks: NDArray[np.float64]
    critical_difference: float
    methods: tuple[str, ...]
    n_tasks: int
    alpha: float

    def groups(self) -> list[tuple[str, ...]]:
        """Return the maximal groups of methods that do not differ significantly at the level ``alpha``."""
        return groups_without_difference(self.average_ranks, self.critical_difference, methods=self.methods)

    def __str__(self) -> str:
        groups = "; ".join(" = ".join(group) for group in self.groups() if len(group) > 1)
        return (
            f"Nemenyi's test on {counted(self.n_tasks, 'task')}: average ranks "
            f"{listed(self.methods, self.average_ranks)}; "
            f"critical difference {self.critical_difference:.3g} at the {100 * self.alpha:g} % level; "
            f"not different: {groups or 'none'}."
        )


def nemenyi_test(
    table: Any, *, higher_is_better: bool = False, alpha: float = 0.05, missing: Missing = "drop"
) -> NemenyiResult:
    r"""Nemenyi test: compare the average ranks of all pairs of methods.

    .. math:: p_{jl} = P\Bigl( \text{range of k standard normal numbers} >
              \sqrt 2 \, |R_j - R_l| /  \sqrt{k (k + 1) / (6 N)} \Bigr)

    so that the familywise error rate is alpha
    :cite:`nemenyi1963,demsar2006`.

    Parameters
    ----------
    table : frame or array of shape (N, k)
        One row per task, one column per method.
    higher_is_better : bool, default=False
        Whether a larger number is the better one.
    alpha : float, default=0.05
        Level for the critical difference and the groups; the p-values do not depend on it.
    missing : {"drop", "raise"}, default="drop"
        Whether tasks with a missing result are left out, with a warning that counts them, or refused.

    Returns
    -------
    NemenyiResult

    Notes
    -----
    Use it after :func:`~calibrant.ranking.friedman_test` has rejected equality. Ties make the test
    conservative. The result for two methods depends on the other methods in the table;
    :func:`~calibrant.ranking.wilcoxon_holm` avoids that. Costs O(N k log k + k^2).

    Examples
    --------
    >>> losses = [[0.4, 0.3, 0.1], [0.5, 0.6, 0.2], [0.6, 0.5, 0.2], [0.8, 0.4, 0.3], [0.9, 0.8, 0.7]]
    >>> result = nemenyi_test(losses)
    >>> result.p_values[0].round(4)
    array([1.    , 0.6094, 0.0123])
    >>> result.groups()
    [('2', '1'), ('1', '0')]
    """
    check_level(alpha)
    check_flag("higher_is_better", higher_is_better)
    study = StudyTable.parse(table, missing=missing)
    averages = ranks_of(study.values, higher_is_better).mean(axis=0)
    differences = np.abs(averages[:, np.newaxis] - averages)
    standardised = differences / rank_difference_error(study.n_methods, study.n_tasks)
    p_values = normal_range_tail(np.sqrt(2) * standardised, study.n_methods)
    np.fill_diagonal(p_values, 1.0)
    return NemenyiResult(
        p_values=p_values,
        average_ranks=averages,
        critical_difference=critical_difference(study.n_methods, study.n_tasks, alpha=alpha),
        methods=study.methods,
        n_tasks=study.n_tasks,
        alpha=alpha,
    )
