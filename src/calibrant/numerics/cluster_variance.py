"""Weighted means over independent units of unequal weight, such as groups of rows: variances and intervals."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import stdtr, stdtrit

from calibrant.arrays import Float64Array, IntArray

__all__ = ["UnitMean", "degrees_of_freedom", "effective_number", "variance_of_sums"]

# Asymmetry below which the correction is below the rounding of the cube root.
SYMMETRIC = 1e-7


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

    .. math:: \Bigl(1 - \frac{1}{G}\Bigr) \sum_{g=1}^{G} \frac{(S_g - \pi_g S)^2}{(1 - \pi_g)^2}, \qquad S = \sum_g S_g

    for the sum :math:`S_g` of unit g. A unit pulls the mean towards itself in proportion to its share :math:`\pi_g` of the
    weight, which shrinks its residual; the division makes up for that, as in the jackknife. For equal weights this is the
    usual variance with G - 1 in the denominator; for unequal ones it is not too small on average, whether or not the rows of a
    unit depend on each other. A unit with all the weight has no residual, and contributes nothing.

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
    leverages = 1 - shares
    squares = np.divide(residuals, leverages, where=leverages > 0, out=np.zeros_like(residuals)) ** 2
    found: Float64Array = (1 - 1 / len(weights)) * squares.sum(axis=0)
    return found


def degrees_of_freedom(weights: Float64Array) -> float:
    r"""Return the Satterthwaite degrees of freedom of :func:`variance_of_sums` for values of equal variance.

    With V the estimate and values of equal variance in all units, :math:`2 (E V)^2 / \operatorname{var} V` for normal values
    :cite:`bell2002`. For G units of equal weight they are G - 1. Few large weights leave fewer of them than the
    effective number of units suggests, since the variance of a mean depends on the squared weights. Costs O(G).

    >>> round(degrees_of_freedom(np.ones(10)), 9), round(degrees_of_freedom(np.array([4.0, 3.0, 2.0] + [1.0] * 7)), 2)
    (9.0, 2.97)
    """
    shares = weights / weights.sum()
    kept = shares < 1
    variances, shares = shares[kept] ** 2, shares[kept]
    total = float(variances.sum())
    # V is a quadratic form; its matrix is D B, with D diagonal and B of entries v_g [g = h] - pi_h v_g - pi_g v_h + pi_g pi_h v.
    d = 1 / (1 - shares) ** 2
    vv, pp, vp = float(d @ variances**2), float(d @ shares**2), float(d @ (variances * shares))
    mixed = shares * (shares * total - 2 * variances)
    diagonal = variances + mixed
    squares = 2 * vv * pp + (pp * total) ** 2 + 2 * vp**2 - 4 * total * pp * vp
    squares += float(d**2 @ (diagonal**2 - mixed**2))
    return float(d @ diagonal) ** 2 / squares if squares > 0 else 0.0


@dataclass(frozen=True)
class UnitMean:
    r"""A weighted mean with an interval that allows for skewness and for unequal weights of the units.

    With standard error s and asymmetry a, the third central moment of the mean over :math:`s^3`, the statistic
    :math:`t = (\bar d - \mu) / s` is skewed, and

    .. math:: g(t) = t + \frac{a}{3} t^2 + \frac{a^2}{27} t^3 + \frac{a}{6}

    is nearly normal :cite:`hall1992`. We refer it to Student's t; the interval contains all :math:`\mu` for which
    :math:`|g(t)|` is at most its quantile. Without skewness this is the usual t interval. If few rows have most of the spread,
    such as rare events, the interval is longer towards the side where further such rows would move the mean.

    Attributes
    ----------
    mean, error : float
        The mean and its standard error.
    n_units : int
        Number of rows, or of groups.
    degrees : float
        Degrees of freedom, see :func:`degrees_of_freedom`.
    asymmetry : float
        Skewness of the mean, a, estimated.
    """

    mean: float
    error: float
    n_units: int
    degrees: float
    asymmetry: float = 0.0

    @classmethod
    def of(cls, values: Float64Array, weights: Float64Array | None, groups: IntArray | None) -> Self:
        """Return the weighted mean of finite values; rows of a group are one unit. The error of one unit is infinite."""
        n_units = len(values) if groups is None else int(groups.max()) + 1
        mean = float(np.average(values, weights=weights))
        if n_units == 1:
            return cls(mean, np.inf, 1, 0.0)
        masses = np.ones(len(values)) if weights is None else weights
        residuals = masses * (values - mean)
        if groups is not None:
            residuals = np.bincount(groups, residuals).astype(np.float64, copy=False)
            masses = np.bincount(groups, masses).astype(np.float64, copy=False)
        variance = float(variance_of_sums(residuals, masses))
        of_rows = masses if n_units == len(values) else None
        asymmetry = 0.0 if variance == 0 else _asymmetry(residuals, of_rows)
        return cls(mean, variance**0.5 / float(masses.sum()), n_units, degrees_of_freedom(masses), asymmetry)

    def limits(self, level: float) -> tuple[float, float]:
        """Return both ends of the interval."""
        if self.error == 0:
            return self.mean, self.mean
        if not np.isfinite(self.error):
            return -np.inf, np.inf
        quantile = float(stdtrit(self.degrees, (1 + level) / 2))
        return (
            self.mean - self.error * self._unskewed(quantile),
            self.mean - self.error * self._unskewed(-quantile),
        )

    @property
    def p_value(self) -> float:
        """Two-sided p-value of a mean of zero; NaN for one unit."""
        if not np.isfinite(self.error):
            return float("nan")
        if self.error == 0:
            return 1.0 if self.mean == 0 else 0.0
        t, a = self.mean / self.error, self.asymmetry
        with np.errstate(over="ignore"):
            transformed = t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6
        return float(2 * stdtr(self.degrees, -abs(transformed)))

    def _unskewed(self, x: float) -> float:
        """Return the t with g(t) = x."""
        a = self.asymmetry
        return x if abs(a) < SYMMETRIC else float(3 / a * (np.cbrt(1 + a * (x - a / 6)) - 1))


def _asymmetry(residuals: Float64Array, weights: Float64Array | None) -> float:
    """Return the third central moment of a sum of residuals over the cube of its standard deviation.

    Few large weights would leave few terms in both moments. Residuals that were multiplied by ``weights`` are divided by them
    again, and their skewness, from all rows, is that of the sum once the powers of the weights are put in.
    """
    factor = 1.0
    if weights is not None:
        residuals = residuals / weights
        scaled = weights / weights.max()
        factor = float((scaled**3).sum()) / float(scaled @ scaled) ** 1.5 * float(len(weights)) ** 0.5
    # Units of very different values may underflow in the third power.
    scaled = residuals / np.abs(residuals).max()
    return float(factor * (scaled**3).sum() / float(scaled @ scaled) ** 1.5)
