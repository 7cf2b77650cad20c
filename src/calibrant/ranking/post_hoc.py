"""Nemenyi and Bonferroni-Dunn: post-hoc tests of average ranks after a Friedman test."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from calibrant.arrays import Float64Array
from calibrant.errors import ParameterError
from calibrant.options import check_flag
from calibrant.presentation.sentences import counted
from calibrant.ranking.critical_difference import (
    check_level,
    critical_difference,
    groups_without_difference,
    normal_range_tail,
    rank_difference_error,
)
from calibrant.ranking.ranks import Missing, StudyTable, listed, ranks_of

__all__ = ["BonferroniDunnResult", "NemenyiResult", "bonferroni_dunn_test", "nemenyi_test"]


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
