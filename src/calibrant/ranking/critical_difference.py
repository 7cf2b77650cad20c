"""Critical difference of average ranks, and the groups of methods without significant differences."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from calibrant.arrays import Float64Array
from calibrant.errors import ParameterError
from calibrant.options import check_share, is_number, real_array
from calibrant.presentation.sentences import counted

__all__ = [
    "check_level",
    "critical_difference",
    "groups_without_difference",
    "normal_range_quantile",
    "normal_range_tail",
    "rank_difference_error",
]


PostHocTest = Literal["nemenyi", "bonferroni-dunn"]
"""``"nemenyi"``: every method with every other; ``"bonferroni-dunn"``: one control with each of the others."""


def critical_difference(
    n_methods: int,
    n_tasks: int,
    *,
    test: PostHocTest = "nemenyi",
    alpha: float = 0.05,
    sides: Literal[1, 2] = 2,
) -> float:
    r"""Critical difference: smallest significant difference of two average ranks.

    .. math:: \mathrm{CD} = q \sqrt{\frac{k (k + 1)}{6 N}}

    with the exact constant q: for Nemenyi's test of all pairs the upper :math:`\alpha` quantile of the range of
    k standard normal numbers (the studentized range with infinite degrees of freedom) divided by
    :math:`\sqrt 2`; for Bonferroni-Dunn, one control against k - 1 others, the normal quantile at
    :math:`1 - \alpha / (2 (k - 1))`, or :math:`1 - \alpha / (k - 1)` if one-sided :cite:`demsar2006`.

    Parameters
    ----------
    n_methods : int
        k, at least two, the control included.
    n_tasks : int
        N.
    test : {"nemenyi", "bonferroni-dunn"}, default="nemenyi"
        All pairs, or comparisons with one control.
    alpha : float, default=0.05
        Familywise error rate.
    sides : {1, 2}, default=2
        One side is for Bonferroni-Dunn: is the control *better* than the others?

    Returns
    -------
    float
        Methods whose average ranks differ by at least this much are significantly different.

    Notes
    -----
    Published tables differ from the exact constants in the last digits. Those of :cite:`demsar2006` at 0.05 for
    2 to 10 methods are 1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164 for Nemenyi (exact for
    three: 2.3437, for seven: 2.9483) and 1.960, 2.241, 2.394, 2.498, 2.576, 2.638, 2.690, 2.724, 2.773 for
    Bonferroni-Dunn, where the entry 2.724 for nine methods should be 2.734. Orange has the same entry, and
    diagrams drawn with it, including those of :cite:`kull2019`, have differences that are too small by 0.4 %; they are
    called one-tailed there but use the two-sided constants.

    Examples
    --------
    >>> round(critical_difference(4, 14), 3)
    1.254
    >>> round(critical_difference(9, 20, test="bonferroni-dunn"), 4)
    2.368
    >>> round(critical_difference(9, 20, test="bonferroni-dunn", sides=1), 4)
    2.1631
    """
    if test not in ("nemenyi", "bonferroni-dunn"):
        raise ParameterError(f"test must be 'nemenyi' or 'bonferroni-dunn', not {test!r}.")
    if sides not in (1, 2) or (sides == 1 and test == "nemenyi"):
        raise ParameterError(
            f"sides must be 2, or 1 for test='bonferroni-dunn', but is {sides!r} for test={test!r}."
        )
    check_level(alpha)
    error = rank_difference_error(n_methods, n_tasks)
    if test == "nemenyi":
        return normal_range_quantile(alpha, n_methods) / float(np.sqrt(2)) * error
    return -float(ndtri(alpha / (sides * (n_methods - 1)))) * error


def rank_difference_error(n_methods: int, n_tasks: int) -> float:
    """Return the standard deviation of the difference of two average ranks if all methods are equal.

    >>> rank_difference_error(2, 4)
    0.5
    """
    for name, count, least in (("n_methods", n_methods, 2), ("n_tasks", n_tasks, 1)):
        if not isinstance(count, int | np.integer) or count < least:
            raise ParameterError(f"{name} must be an integer of at least {least}, not {count!r}.")
    return float(np.sqrt(n_methods * (n_methods + 1) / (6 * n_tasks)))


def check_level(alpha: float) -> None:
    """Raise on a level outside (0, 1)."""
    check_share("alpha", alpha, 0.05)


# The integrand is entire and decays like a Gaussian on both sides of half the range, so the trapezoidal
# rule with this step is exact up to rounding.
NODES = np.linspace(-12.0, 12.0, 481)


def normal_range_tail(width: Any, count: int) -> Float64Array:
    r"""Probability that the range of ``count`` independent standard normal variables exceeds ``width``.

    .. math::

        k \int \varphi(x) \, \bigl\{ \Phi(x)^{k-1} - [\Phi(x) - \Phi(x - r)]^{k-1} \bigr\} \, dx

    This is the studentized range with infinite degrees of freedom. Unlike one minus a distribution
    function it keeps all digits of tiny probabilities. Costs 481 evaluations per width.

    >>> float(normal_range_tail(0.0, 5).round(12))
    1.0
    >>> f"{normal_range_tail(40.0, 3):.4e}"          # 3 erfc(20): one of three pairs
    '1.6188e-175'
    """
    width = np.asarray(width, dtype=np.float64)
    # The largest of the numbers; it lies about half the range above the middle.
    largest = width[..., np.newaxis] / 2 + NODES
    below = ndtr(largest)
    outside = ndtr(largest - width[..., np.newaxis])
    share = np.divide(outside, below, out=np.zeros_like(below), where=below > 0)
    density = np.exp(-(largest**2) / 2) / np.sqrt(2 * np.pi)
    with np.errstate(divide="ignore"):
        missed = -np.expm1((count - 1) * np.log1p(-share))
    total = (density * below ** (count - 1) * missed).sum(axis=-1) * (NODES[1] - NODES[0]) * count
    return np.asarray(np.clip(total, 0.0, 1.0), dtype=np.float64)


def normal_range_quantile(tail: float, count: int) -> float:
    """Return the width that is exceeded with probability ``tail``.

    >>> round(normal_range_quantile(0.05, 2), 4)         # the normal quantile 1.96 times the root of two
    2.7718
    """
    # The tail of the range is at most that of the widest of all pairs, whose differences have variance 2.
    return float(brentq(lambda width: float(normal_range_tail(width, count)) - tail, 0.0, 100.0, xtol=1e-13))


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
