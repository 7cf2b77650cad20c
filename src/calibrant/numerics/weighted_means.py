"""How sure a weighted mean is."""

import numpy as np

from calibrant.arrays import Vector

__all__ = ["standard_error_of_mean"]


def standard_error_of_mean(terms: Vector, weights: Vector | None) -> float:
    r"""Return the standard error of the weighted mean of independent terms.

    .. math:: \frac{1}{W} \Bigl( \sum_i \frac{w_i^2 (t_i - \bar t)^2}{1 - w_i / W} \Bigr)^{1/2}

    Infinite for one row, which says nothing of how others differ, and for infinite terms.

    >>> standard_error_of_mean(np.array([0.0, 2.0]), None)
    1.0
    """
    n_rows = len(terms)
    if n_rows < 2 or not np.isfinite(terms).all():
        return float("inf")
    shares = np.full(n_rows, 1 / n_rows) if weights is None else weights / weights.sum()
    deviations = shares * (terms - shares @ terms)
    return float(np.sqrt((deviations * deviations / (1 - shares)).sum()))
