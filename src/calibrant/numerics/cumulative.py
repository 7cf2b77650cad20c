"""Cumulative sums of residuals in the order of a score, and the distribution of their extremes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import exp, pi, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from calibrant.arrays import Matrix

__all__ = ["MAXIMUM", "RANGE", "PathStatistic", "ScoreGroups"]


# Mean distance of a normal random walk from a level when it first exceeds it, in steps; the constant of
# Siegmund (1985), -zeta(1/2) / sqrt(2 pi).
MEAN_OVERSHOOT = 0.5825971579390106

# Terms of both series beyond this are smaller than 1e-16 of the sum on their side of the switch.
N_TERMS = 8

# The probability that a Brownian motion stays within this is below 1e-214.
CERTAIN = 0.05


@dataclass(frozen=True, eq=False)
class ScoreGroups:
    """Rows in the order of a score, in groups of equal scores.

    Attributes
    ----------
    order : ndarray of shape (n,)
        Row numbers from the lowest score to the highest.
    ends : ndarray of shape (G,)
        Position in ``order`` of the last row of every group.
    """

    order: NDArray[np.intp]
    ends: NDArray[np.intp]

    @classmethod
    def of(cls, scores: NDArray[np.floating], tolerance: float = 0.0) -> Self:
        """Sort scores (n,); neighbours that differ by no more than ``tolerance`` are equal. O(n log n).

        >>> ScoreGroups.of(np.array([0.5, 0.1, 0.5])).ends
        array([0, 2])
        """
        order = np.argsort(scores, kind="stable")
        ordered = scores[order]
        rises = ordered[1:] > ordered[:-1] if tolerance == 0 else np.diff(ordered) > tolerance
        return cls(order, np.append(np.flatnonzero(rises), len(order) - 1))

    def path(self, residuals: NDArray[Any], weights: NDArray[np.float64] | None = None) -> Matrix:
        r"""Return the cumulative mean of the residuals at the end of every group, (G,).

        .. math:: C_g = \frac{1}{W} \sum_{s_i \le s_g} w_i r_i, \qquad W = \sum_i w_i

        Only at the ends, since the order of rows within a group is arbitrary. Costs O(n).

        >>> ScoreGroups.of(np.array([0.5, 0.1, 0.5])).path(np.array([0.5, -0.1, -0.5])).round(6)
        array([-0.033333, -0.033333])
        """
        ordered = residuals[self.order].astype(np.float64)
        if weights is None:
            total = float(len(ordered))
        else:
            ordered *= weights[self.order]
            total = float(weights.sum())
        path: Matrix = np.cumsum(ordered)[self.ends] / total
        return path


def _largest_deviation(path: Matrix) -> float:
    """Return the largest absolute value of a path that starts at zero."""
    return float(np.abs(path).max())


def _range(path: Matrix) -> float:
    """Return the range of a path that starts at zero."""
    return float(max(path.max(), 0.0) - min(path.min(), 0.0))


def _deviation_tail(x: float) -> float:
    """Return P(sup |B| > x) for a Brownian motion B on [0, 1]."""
    if x < 1:
        odd = range(1, 2 * N_TERMS, 2)
        signs = (1, -1) * N_TERMS
        return 1 - 4 / pi * sum(
            s / j * exp(-((j * pi / x) ** 2) / 8) for s, j in zip(signs, odd, strict=False)
        )
    return 4 * sum((-1.0) ** j * float(ndtr(-(2 * j + 1) * x)) for j in range(N_TERMS))


def _range_tail(x: float) -> float:
    """Return P(sup B - inf B > x) for a Brownian motion B on [0, 1] (Feller, 1951)."""
    if x < 2:
        # The same function as below after Poisson's summation formula, with terms that fall as fast as
        # exp(-odd^2 pi^2 / (2 x^2)); the series below converges ever more slowly towards zero.
        below = sum(
            (1 / x**2 + 1 / (pi * j) ** 2) * exp(-((j * pi / x) ** 2) / 2) for j in range(1, 2 * N_TERMS, 2)
        )
        return 1 - 8 * below
    return 8 * sum((-1.0) ** (j - 1) * j * float(ndtr(-j * x)) for j in range(1, N_TERMS))


@dataclass(frozen=True)
class PathStatistic:
    r"""An extreme of a path of cumulative sums, and its distribution under the null hypothesis.

    Sums of independent residuals of mean zero, divided by the standard deviation of the last of them, tend
    to a Brownian motion on [0, 1]. A path that is observed at only G points has smaller extremes. With
    :math:`\Delta_g` the share of step g in the variance, we move x by

    .. math:: m \, \frac{0.5826 \, a}{1 + a}, \qquad a = \frac{1}{G} \sum_g \sqrt{\Delta_g}

    for each of the m barriers, one or two. For small a this is the first-order correction of
    :cite:`siegmund1985`; the denominator, chosen by simulation, keeps it on the safe side for few or unequal
    steps. The path never strays less than to its last place, which is normal: P(|N| > x) is a lower bound
    of the tail, and for a single step it is the tail.

    Attributes
    ----------
    measure : function
        The statistic of a path that starts at zero.
    brownian_tail : function
        Probability that it exceeds x > 0 for a Brownian motion; accurate to about 1e-15 of its value.
    brownian_mean : float
        Its mean for a Brownian motion.
    n_barriers : int
        Number of extremes of the path in the statistic.

    Examples
    --------
    >>> round(RANGE.tail(2.0), 6), round(MAXIMUM.tail(2.0), 6)
    (0.181494, 0.091001)
    >>> round(RANGE.quantile(0.05), 4), round(MAXIMUM.quantile(0.05), 4)
    (2.4977, 2.2414)
    """

    measure: Callable[[Matrix], float]
    brownian_tail: Callable[[float], float]
    brownian_mean: float
    n_barriers: int

    def tail(self, x: float, steps: NDArray[np.float64] | None = None) -> float:
        """Return the p-value of an extreme of x standard deviations.

        ``steps`` are the variances of the G steps in any unit; without them the path is continuous.
        """
        if x < CERTAIN:
            return 1.0
        if steps is None:
            return self.brownian_tail(x)
        normal = 2 * float(ndtr(-x))
        return normal if _single_bin(steps) else max(normal, self.brownian_tail(x + self._shift(steps)))

    def quantile(self, probability: float, steps: NDArray[np.float64] | None = None) -> float:
        """Return the x whose :meth:`tail` is ``probability``, between 0 and 1 exclusively."""
        normal = -float(ndtri(probability / 2))
        if steps is not None and _single_bin(steps):
            return normal
        x = _brownian_quantile(self.brownian_tail, probability)
        return x if steps is None else max(normal, x - self._shift(steps))

    def mean(self, steps: NDArray[np.float64] | None = None) -> float:
        """Return the mean under the null hypothesis, in standard deviations; for few steps an upper estimate."""
        if steps is None:
            return self.brownian_mean
        normal = sqrt(2 / pi)
        return normal if _single_bin(steps) else max(normal, self.brownian_mean - self._shift(steps))

    def _shift(self, steps: NDArray[np.float64]) -> float:
        """Return the difference between the extremes of a Brownian motion and of its values at these steps."""
        real = steps[steps > 0]
        typical = float(np.sqrt(real / real.sum()).mean())
        return self.n_barriers * MEAN_OVERSHOOT * typical / (1 + typical)


@lru_cache(maxsize=64)
def _brownian_quantile(tail: Callable[[float], float], probability: float) -> float:
    # At the upper end the tail underflows.
    return float(brentq(lambda x: tail(x) - probability, CERTAIN, 40.0, xtol=1e-14, rtol=1e-14))


def _single_bin(steps: NDArray[np.float64]) -> bool:
    return int(np.count_nonzero(steps > 0)) <= 1


MAXIMUM = PathStatistic(_largest_deviation, _deviation_tail, sqrt(pi / 2), n_barriers=1)
"""Largest absolute value: the statistic of Kolmogorov and Smirnov."""

RANGE = PathStatistic(_range, _range_tail, sqrt(8 / pi), n_barriers=2)
"""Highest minus lowest value: the statistic of Kuiper."""
