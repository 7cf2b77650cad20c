"""The triweight kernel for density estimates of scores, and its default bandwidth."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["SMALLEST_BANDWIDTH", "effective_rows", "rule_of_thumb", "standard_deviation", "triweight"]

# The bandwidth if all scores are equal and the rule of thumb gives zero; it changes an error by less than its value.
SMALLEST_BANDWIDTH = 2.0**-12


def triweight(distances: NDArray[np.float64], bandwidth: float) -> NDArray[np.float64]:
    r"""Return the triweight density :math:`\frac{35}{32} (1 - u^2)^3 / 3h`, :math:`u = d / 3h`, of standard deviation h.

    >>> triweight(np.array([0.0, 1.5, 3.0, 4.0]), 1.0).round(4)
    array([0.3646, 0.1538, 0.    , 0.    ])
    """
    reach = 3 * bandwidth
    return 35 / 32 / reach * np.maximum(1 - (distances / reach) ** 2, 0.0) ** 3


def effective_rows(n_rows: int, weights: NDArray[np.float64] | None) -> float:
    """Return the effective sample size, ``(sum w)^2 / sum w^2``."""
    if weights is None:
        return float(n_rows)
    relative = weights / weights.max()
    return float(relative.sum() ** 2 / (relative @ relative))


def standard_deviation(values: NDArray[np.floating], weights: NDArray[np.float64] | None) -> float:
    """Return the weighted standard deviation."""
    if weights is None:
        return float(values.std())
    centre = np.average(values, weights=weights)
    return float(np.sqrt(np.average((values - centre) ** 2, weights=weights)))


def rule_of_thumb(scores: NDArray[np.float64], weights: NDArray[np.float64] | None) -> float:
    r"""Return Scott's bandwidth :math:`1.06 \, \hat\sigma n^{-1/5}`, but at least the smallest one.

    >>> round(rule_of_thumb(np.array([0.2] * 16 + [0.8] * 16), None), 6)
    0.159
    """
    rows = effective_rows(len(scores), weights)
    return max(1.06 * standard_deviation(scores, weights) / float(rows**0.2), SMALLEST_BANDWIDTH)
