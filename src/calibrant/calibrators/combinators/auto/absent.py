"""How much probability classes without calibration rows may have together."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri

from calibrant.arrays import Vector

__all__ = ["factor_of_absent", "factor_of_mean", "factor_of_scoreless", "largest_share_of_absent"]

# Probability with which the share of the absent classes is below its bound.
LEVEL = 0.95

SMALLEST_FACTOR = 1e-9


def largest_share_of_absent(class_weights: Vector) -> float:
    r"""Return an upper bound on the share of classes that were never observed.

    The estimate of Good and Turing :cite:`good1953` is the share of classes that were observed once, :math:`N_1 / n`. The
    bound has the upper Poisson limit of :math:`N_1` in its place. It is about 3 / n if every other class has several rows.

    >>> round(largest_share_of_absent(np.array([0.0, 50.0, 50.0])), 3)
    0.03
    >>> round(largest_share_of_absent(np.array([0.0, 0.0, 1.0, 1.0, 2.0])), 3)
    1.0
    """
    n_once = int(((class_weights > 0) & (class_weights <= 1)).sum())
    upper = float(chdtri(2 * (n_once + 1), 1 - LEVEL)) / 2
    return min(1.0, upper / float(class_weights.sum()))


def factor_of_absent(masses: Vector, weights: Vector | None, class_weights: Vector) -> float:
    """Return the factor of the odds of absent classes at which their mean probability is within the bound of Good and Turing.

    Parameters
    ----------
    masses : ndarray of shape (n,)
        Probability of all these classes in every calibration row.
    weights : ndarray of shape (n,), optional
        Weights of the rows.
    class_weights : ndarray of shape (K,)
        Weight of the rows of every class.

    Examples
    --------
    >>> round(factor_of_absent(np.array([0.5, 0.5]), None, np.array([0.0, 15.0])), 3)
    0.25
    """
    return factor_of_mean(masses, weights, largest_share_of_absent(class_weights))


def factor_of_scoreless(masses: Vector, weights: Vector | None, class_weights: Vector) -> float:  # noqa: ARG001
    """Return the factor for absent classes to which the classifier gives a probability of zero in every row.

    Neither rows nor scores speak for them. As in calibrators with class terms, they have in no row more than Laplace's share,
    1 / (n + 2).

    >>> round(factor_of_scoreless(np.array([0.1, 0.2]), None, np.array([0.0, 6.0, 2.0])), 3)
    0.444
    """
    return factor_of_mean(masses.max(keepdims=True), None, 1 / (float(class_weights.sum()) + 2))


def factor_of_mean(masses: Vector, weights: Vector | None, largest: float) -> float:
    r"""Return the factor of the odds of the absent classes with which they have at most a given mean probability.

    .. math:: \frac1n \sum_i \frac{f a_i}{1 - a_i + f a_i} = \min(\bar a, \text{largest})

    Parameters
    ----------
    masses : ndarray of shape (n,)
        Probability :math:`a_i` of all absent classes in every calibration row.
    weights : ndarray of shape (n,), optional
        Weights of the rows.
    largest : float
        Largest mean probability.

    Examples
    --------
    >>> round(factor_of_mean(np.array([0.5, 0.5]), None, 0.2), 6)
    0.25
    >>> factor_of_mean(np.array([0.1, 0.2]), None, 0.2)
    1.0
    """

    def excess(log_factor: float) -> float:
        scaled = np.exp(log_factor) * masses
        return float(np.average(scaled / (1 - masses + scaled), weights=weights)) - largest

    lowest = float(np.log(SMALLEST_FACTOR))
    if excess(0.0) <= 0:
        return 1.0
    return float(np.exp(brentq(excess, lowest, 0.0))) if excess(lowest) < 0 else SMALLEST_FACTOR
