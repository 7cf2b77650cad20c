"""Ends of a bootstrap interval from the values of resamples: percentile, basic and BCa."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import ndtr, ndtri

from calibrant.arrays import Float64Array
from calibrant.errors import ParameterError

__all__ = ["BootstrapMethod", "Limits", "basic_limits", "bca_limits", "check_method", "percentile_limits"]

BootstrapMethod = Literal["percentile", "bca", "basic"]


# Relative tolerance, in units of the spread, for sums over rows in another order.
TIE = 1e-9


class Limits(NamedTuple):
    """Ends of an interval."""

    low: float
    high: float


def check_method(method: Any) -> None:
    """Raise on an unknown method."""
    if method not in get_args(BootstrapMethod):
        raise ParameterError(f"method must be 'percentile', 'bca' or 'basic', not {method!r}.")


def percentile_limits(values: Float64Array, level: float) -> Limits:
    """Return the central quantiles: the ends that leave out equal fractions of the values on both sides.

    >>> percentile_limits(np.arange(101.0), 0.5)
    Limits(low=25.0, high=75.0)
    """
    ordered = np.sort(values)
    tail = (1 - level) / 2
    return Limits(_quantile(ordered, tail), _quantile(ordered, 1 - tail))


def basic_limits(estimate: float, values: Float64Array, level: float) -> Limits:
    """Return the percentile limits reflected at the estimate, which corrects a bias that resampling repeats.

    >>> basic_limits(60.0, np.arange(101.0), 0.5)
    Limits(low=45.0, high=95.0)
    """
    low, high = percentile_limits(values, level)
    return Limits(2 * estimate - high, 2 * estimate - low)


def bca_limits(
    estimate: float, values: Float64Array, level: float, acceleration: Callable[[], float]
) -> Limits | None:
    r"""Return the bias-corrected and accelerated (BCa) limits, or None where they are undefined.

    .. math::

        \hat\theta^*_{(\alpha')}, \qquad
        \alpha' = \Phi\Bigl( z_0 + \frac{z_0 + z_\alpha}{1 - a (z_0 + z_\alpha)} \Bigr), \qquad
        z_0 = \Phi^{-1}\bigl( \mathrm{share}(\hat\theta^* < \hat\theta)
              + \tfrac12 \mathrm{share}(\hat\theta^* = \hat\theta) \bigr)

    for :math:`\alpha = (1 \mp \mathrm{level}) / 2` :cite:`efron1987`. Undefined if all values lie on one side
    of the estimate, or if the acceleration a is not finite or too large.
    """
    spread = float(values.std())
    tied = np.abs(values - estimate) <= TIE * spread
    below = (np.count_nonzero((values < estimate) & ~tied) + np.count_nonzero(tied) / 2) / len(values)
    if not 0 < below < 1:
        return None
    bias = float(ndtri(below))
    skewness = acceleration()
    tail = (1 - level) / 2
    ordered = np.sort(values)
    ends = []
    for normal_quantile in (ndtri(tail), ndtri(1 - tail)):
        moved = bias + float(normal_quantile)
        scale = 1 - skewness * moved
        if not scale > 0:
            return None
        ends.append(_quantile(ordered, float(ndtr(bias + moved / scale))))
    return Limits(*ends)


def _quantile(ordered: Float64Array, share: float) -> float:
    """Interpolate between neighbours as numpy's default does, but support infinite values."""
    position = share * (len(ordered) - 1)
    below = int(position)
    fraction = position - below
    if fraction == 0 or ordered[below] == ordered[below + 1]:
        return float(ordered[below])
    return float((1 - fraction) * ordered[below] + fraction * ordered[below + 1])
