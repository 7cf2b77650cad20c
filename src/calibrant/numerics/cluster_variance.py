"""Variance of weighted sums over independent units of unequal weight, such as rows or groups of rows."""

from typing import Any

import numpy as np

from calibrant.arrays import Float64Array

__all__ = ["effective_number", "variance_of_sums"]


def effective_number(weights: Any) -> float:
    r"""Return the number of units of equal weight with the same variance of a mean, :math:`1 / \sum_g \pi_g^2`.

    :math:`\pi_g` is the share of unit g in the total weight.

    >>> effective_number([1, 1, 1, 1]), round(effective_number([7, 1, 1, 1]), 2)
    (4.0, 1.92)
    """
    shares = np.asarray(weights, dtype=np.float64)
    shares = shares / shares.sum()
    return float(1 / (shares @ shares))


def variance_of_sums(sums: Float64Array, weights: Float64Array) -> Float64Array:
    r"""Return the variance of the totals of sums over units, estimated from their spread, for each column.

    .. math:: \sum_g \frac{(S_g - \pi_g S)^2}{1 - \pi_g}, \qquad S = \sum_g S_g

    for the sum :math:`S_g` of unit g. A unit pulls the mean towards itself in proportion to its share :math:`\pi_g` of the
    weight, which shrinks its residual; the division makes up for that, and the estimate is unbiased if all rows are
    independent. For equal weights this is the usual variance with G - 1 in the denominator. A unit with all the weight has
    no residual, and contributes nothing.

    Parameters
    ----------
    sums, weights : ndarray of shape (G, ...)
        Sum and weight of each unit; further axes are separate totals.

    Examples
    --------
    Three times the usual variance of 1, 2 and 6, which is 7:

    >>> round(float(variance_of_sums(np.array([1.0, 2.0, 6.0]), np.ones(3))), 9)
    21.0
    """
    total = weights.sum(axis=0)
    shares = np.divide(weights, total, where=total > 0, out=np.zeros_like(weights))
    residuals = sums - shares * sums.sum(axis=0)
    squares = np.divide(residuals**2, 1 - shares, where=shares < 1, out=np.zeros_like(residuals))
    found: Float64Array = squares.sum(axis=0)
    return found
