"""Friedman test for differences between several methods over many tasks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln
from scipy.stats import chi2, f

from calibrant.arrays import Float64Array
from calibrant.options import check_flag
from calibrant.presentation.sentences import counted, p_text
from calibrant.ranking.ranks import Missing, StudyTable, ranks_of

__all__ = ["FriedmanResult", "friedman_test"]


@dataclass(frozen=True, eq=False)
class FriedmanResult:
    """Result of a Friedman test of the hypothesis that all methods are equal.

    Attributes
    ----------
    statistic : float
        Friedman's chi-square.
    p_value : float
        Its p-value, with k - 1 degrees of freedom.
    f_statistic, f_p_value : float
        The form of Iman and Davenport, whose level is more accurate for few tasks; F has k - 1 and
        (k - 1)(N - 1) degrees of freedom. F is infinite if all tasks agree; its p-value is then exact.
    average_ranks : ndarray of shape (k,)
        Mean rank of every method, 1 being best.
    methods : tuple of str
        Names of the methods.
    n_tasks, n_methods : int
        N and k.
    """

    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float
    average_ranks: Float64Array
    methods: tuple[str, ...]
    n_tasks: int
    n_methods: int

    def __str__(self) -> str:
        return (
            f"Friedman's test of {self.n_methods} methods on {counted(self.n_tasks, 'task')}: chi-square "
            f"{self.statistic:.4g}, {p_text(self.p_value)}; F {self.f_statistic:.4g}, "
            f"{p_text(self.f_p_value)}."
        )


def friedman_test(
    table: Any, *, higher_is_better: bool = False, correct_for_ties: bool = True, missing: Missing = "drop"
) -> FriedmanResult:
    r"""Friedman test of the hypothesis that k methods have the same average rank over N tasks.

    .. math::

        \chi^2_F = \frac{(k - 1) N^2 \sum_j (R_j - \frac{k + 1}{2})^2}
                        {\sum_{ij} (r_{ij} - \frac{k + 1}{2})^2},
        \qquad
        F_F = \frac{(N - 1) \chi^2_F}{N (k - 1) - \chi^2_F}

    with ranks :math:`r_{ij}` that average ties and their means :math:`R_j`
    :cite:`friedman1937,iman1980`. Under the null hypothesis the first is approximately chi-square distributed with
    k - 1 degrees of freedom, the second approximately F with k - 1 and (k - 1)(N - 1).

    Parameters
    ----------
    table : frame or array of shape (N, k)
        One row per task, one column per method; at least two of each.
    higher_is_better : bool, default=False
        Whether a larger number is the better one; it reverses the average ranks and does not change the test.
    correct_for_ties : bool, default=True
        Divide by the actual sum of squares of the ranks, as above and in scipy; otherwise by
        :math:`N k (k^2 - 1) / 12`, the value without ties, as in the formula of :cite:`demsar2006`.
    missing : {"drop", "raise"}, default="drop"
        Whether tasks with a missing result are left out, with a warning that counts them, or raise an error.

    Returns
    -------
    FriedmanResult

    Notes
    -----
    With the correction F equals the two-way analysis of variance of the ranks. If all methods tie on every
    task, both statistics are 0 and p is 1. For two methods it is the sign test. Tasks must be independent;
    results of several classifiers on one data set are not. Costs O(N k log k).

    If every task has the same order, F is infinite, and its approximate p-value would be 0 for any number of tasks.
    Under the null hypothesis all k! orders of a task are equally likely, so all tasks agree with
    probability :math:`(1 / k!)^{N - 1}`. This is the exact p-value of an infinite F and is returned as
    ``f_p_value``: 1/2 for two methods on two tasks. If t methods tie, their t! permutations are one order, and
    k! is divided by t!.

    Examples
    --------
    >>> losses = [[0.30, 0.25, 0.21], [0.52, 0.50, 0.44], [0.12, 0.15, 0.10], [0.81, 0.70, 0.66]]
    >>> result = friedman_test(losses)
    >>> result.average_ranks
    array([2.75, 2.25, 1.  ])
    >>> print(result)
    Friedman's test of 3 methods on 4 tasks: chi-square 6.5, p = 0.0388; F 13, p = 0.00659.
    """
    check_flag("higher_is_better", higher_is_better)
    check_flag("correct_for_ties", correct_for_ties)
    study = StudyTable.parse(table, missing=missing, min_tasks=2)
    n_tasks, n_methods = study.n_tasks, study.n_methods
    given = ranks_of(study.values, higher_is_better)
    centred = given - (n_methods + 1) / 2
    averages = centred.mean(axis=0)
    spread = float((centred**2).sum()) if correct_for_ties else n_tasks * n_methods * (n_methods**2 - 1) / 12
    between = (n_methods - 1) * n_tasks**2 * float(averages @ averages)
    statistic = between / spread if spread > 0 else 0.0
    largest = n_tasks * (n_methods - 1)
    # The same order in all tasks gives the largest value, up to rounding.
    same_order = statistic > largest * (1 - 1e-12)
    if same_order:
        f_statistic, f_p_value = float("inf"), _chance_of_agreement(given[0], n_tasks)
    else:
        f_statistic = (n_tasks - 1) * statistic / (largest - statistic)
        f_p_value = float(f.sf(f_statistic, n_methods - 1, (n_methods - 1) * (n_tasks - 1)))
    return FriedmanResult(
        statistic=statistic,
        p_value=float(chi2.sf(statistic, n_methods - 1)),
        f_statistic=f_statistic,
        f_p_value=f_p_value,
        average_ranks=np.asarray(given.mean(axis=0), dtype=np.float64),
        methods=study.methods,
        n_tasks=n_tasks,
        n_methods=n_methods,
    )


def _chance_of_agreement(ranks: Float64Array, n_tasks: int) -> float:
    """Return the probability that all tasks have the ranks of the first if all orders are equally likely."""
    _, ties = np.unique(ranks, return_counts=True)
    log_orders = gammaln(len(ranks) + 1) - gammaln(ties + 1).sum()
    return float(np.exp(-(n_tasks - 1) * log_orders))
