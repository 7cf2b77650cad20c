"""Friedman test for differences between several methods over many tasks, and post-hoc tests of pairs."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln, ndtr
from scipy.stats import chi2, f

from calibrant.arrays import Float64Array
from calibrant.errors import ParameterError
from calibrant.options import check_flag
from calibrant.presentation.sentences import counted, p_text
from calibrant.ranking.critical_difference import (
    check_level,
    critical_difference,
    groups_without_difference,
    normal_range_tail,
    rank_difference_error,
)
from calibrant.ranking.ranks import Missing, StudyTable, listed, ranks_of

__all__ = [
    "BonferroniDunnResult",
    "FriedmanResult",
    "NemenyiResult",
    "bonferroni_dunn_test",
    "friedman_test",
    "nemenyi_test",
]


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

    p_values: Float64Array
    average_ranks: Float64Array
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
        Whether tasks with a missing result are left out, with a warning that counts them, or raise an error.

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


@dataclass(frozen=True, eq=False)
class BonferroniDunnResult:
    """Result of a Bonferroni-Dunn test of a control against all other methods.

    Attributes
    ----------
    p_values : ndarray of shape (k,)
        Adjusted for k - 1 comparisons; one for the control itself.
    z : ndarray of shape (k,)
        Difference of average ranks from the control in standard deviations; positive means worse.
    average_ranks : ndarray of shape (k,)
        Mean rank of every method, 1 being best.
    critical_difference : float
        Smallest difference of average ranks from the control that is significant at the level ``alpha``.
    control : str
        Name of the method that the others are compared with.
    methods : tuple of str
        Names of the methods.
    n_tasks : int
        N.
    alpha : float
        Level of the critical difference.
    sides : int
        1 if only methods that are worse than the control are counted, 2 if better ones are as well.
    """

    p_values: Float64Array
    z: Float64Array
    average_ranks: Float64Array
    critical_difference: float
    control: str
    methods: tuple[str, ...]
    n_tasks: int
    alpha: float
    sides: int

    def __str__(self) -> str:
        different = [name for name, p in zip(self.methods, self.p_values, strict=True) if p < self.alpha]
        worse = "worse than" if self.sides == 1 else "different from"
        return (
            f"Bonferroni-Dunn test on {counted(self.n_tasks, 'task')}: average ranks "
            f"{listed(self.methods, self.average_ranks)}; critical difference {self.critical_difference:.3g} at the "
            f"{100 * self.alpha:g} % level; {worse} {self.control}: {', '.join(different) or 'none'}."
        )


def bonferroni_dunn_test(
    table: Any,
    control: str | int,
    *,
    higher_is_better: bool = False,
    sides: Literal[1, 2] = 2,
    alpha: float = 0.05,
    missing: Missing = "drop",
) -> BonferroniDunnResult:
    r"""Bonferroni-Dunn test: compare the average rank of one method with those of all others.

    .. math::

        z_j = \frac{R_j - R_0}{\sqrt{k (k + 1) / (6 N)}}, \qquad
        p_j = \min\{ 1, (k - 1) \, s \, (1 - \Phi(|z_j|)) \}

    with s = 2 sides. For one side s = 1 and :math:`z_j` keeps its sign, so that only methods worse
    than the control can have a small p :cite:`dunn1961,demsar2006`.

    Parameters
    ----------
    table : frame or array of shape (N, k)
        One row per task, one column per method.
    control : str or int
        Name of the control, or its column number; names take precedence.
    higher_is_better : bool, default=False
        Whether a larger number is the better one.
    sides : {1, 2}, default=2
        1 to test only whether the control is better than each of the others.
    alpha : float, default=0.05
        Level for the critical difference; the p-values do not depend on it.
    missing : {"drop", "raise"}, default="drop"
        Whether tasks with a missing result are left out, with a warning that counts them, or raise an error.

    Returns
    -------
    BonferroniDunnResult

    Notes
    -----
    More powerful than Nemenyi's test, since it makes k - 1 comparisons instead of k (k - 1) / 2. Choose the control
    before looking at the ranks. Costs O(N k log k).

    Examples
    --------
    >>> losses = [[0.4, 0.3, 0.1], [0.5, 0.6, 0.2], [0.6, 0.5, 0.2], [0.8, 0.4, 0.3], [0.9, 0.8, 0.7]]
    >>> bonferroni_dunn_test(losses, 2).p_values.round(4)
    array([0.0089, 0.1156, 1.    ])
    >>> bonferroni_dunn_test(losses, 2, sides=1).p_values.round(4)
    array([0.0044, 0.0578, 1.    ])
    """
    check_level(alpha)
    check_flag("higher_is_better", higher_is_better)
    if sides not in (1, 2):
        raise ParameterError(f"sides must be 1 or 2, not {sides!r}.")
    study = StudyTable.parse(table, missing=missing)
    position = _position(control, study.methods)
    averages = ranks_of(study.values, higher_is_better).mean(axis=0)
    z = (averages - averages[position]) / rank_difference_error(study.n_methods, study.n_tasks)
    tails = ndtr(-z) if sides == 1 else 2 * ndtr(-np.abs(z))
    p_values = np.minimum((study.n_methods - 1) * tails, 1.0)
    p_values[position] = 1.0
    return BonferroniDunnResult(
        p_values=p_values,
        z=z,
        average_ranks=averages,
        critical_difference=critical_difference(
            study.n_methods, study.n_tasks, test="bonferroni-dunn", alpha=alpha, sides=sides
        ),
        control=study.methods[position],
        methods=study.methods,
        n_tasks=study.n_tasks,
        alpha=alpha,
        sides=sides,
    )


def _position(control: str | int, methods: tuple[str, ...]) -> int:
    """Return the column number of the control."""
    if str(control) in methods:
        return methods.index(str(control))
    if isinstance(control, int | np.integer) and 0 <= control < len(methods):
        return int(control)
    raise ParameterError(f"control must be one of the methods {methods}, but is {control!r}.")
