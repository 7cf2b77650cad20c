"""BoxStatistics: data of box plots of class probabilities by true class."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.labelled_predictions import LabelledPredictions

__all__ = ["BoxStatistics", "weighted_quantile"]


SHARES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
# Factor of the notch for the median of a normal distribution (McGill, Tukey and Larsen 1978).
NOTCH = 1.57


def weighted_quantile(values: Matrix, shares: Vector, weights: Vector | None = None) -> Matrix:
    """Return weighted quantiles of every column, (q, c): the smallest value with at least that cumulative weight.

    If the cumulative weight is met exactly, the mean with the next value, as for the median of two.

    >>> weighted_quantile(np.array([[1.0], [3.0], [7.0]]), np.array([0.25, 0.5]))
    array([[1.], [3.]])
    >>> weighted_quantile(np.array([[1.0], [3.0]]), np.array([0.5]), np.array([2.0, 2.0]))
    array([[2.]])
    """
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    own = np.ones(len(values)) if weights is None else weights
    reached = np.cumsum(own[order], axis=0)
    reached /= reached[-1]
    found = np.empty((len(shares), values.shape[1]))
    for column in range(values.shape[1]):
        # Allow for rounding, so that a cumulative weight that is met exactly is not missed.
        low = np.searchsorted(reached[:, column], shares * (1 - 1e-12), side="left")
        high = np.searchsorted(reached[:, column], shares * (1 + 1e-12), side="right")
        last = len(values) - 1
        found[:, column] = (
            ordered[np.minimum(low, last), column] + ordered[np.minimum(high, last), column]
        ) / 2
    return found


@dataclass(frozen=True, eq=False)
class BoxStatistics:
    """Distribution of the probability of every class, by true class.

    The first axis is the true class, the second the class of the probability; NaN for true classes without rows.

    Attributes
    ----------
    low, lower_quartile, median, upper_quartile, high : ndarray of shape (T, C)
        Quantiles at 5, 25, 50, 75 and 95 %.
    notch : ndarray of shape (T, C)
        Half of the width of an approximate 95 % interval of the median.
    mean, deviation : ndarray of shape (T, C)
        Mean and standard deviation.
    count : ndarray of shape (T,)
        Number of rows of every true class.
    """

    low: Matrix
    lower_quartile: Matrix
    median: Matrix
    upper_quartile: Matrix
    high: Matrix
    notch: Matrix
    mean: Matrix
    deviation: Matrix
    count: NDArray[np.intp]

    @classmethod
    def of(cls, data: LabelledPredictions, columns: NDArray[np.intp]) -> Self:
        """Compute the statistics for some of the classes; the cost is a sort per column."""
        size = len(columns)
        quantiles, means = np.full((5, size, size), np.nan), np.full((2, size, size), np.nan)
        effective, count = np.zeros(size), np.zeros(size, dtype=np.intp)
        for place, column in enumerate(columns):
            rows = np.flatnonzero(data.labels == column)
            count[place] = len(rows)
            if len(rows) == 0:
                continue
            chosen = data.predictions.take(rows).probabilities[:, columns].astype(np.float64)
            weights = None if data.weights is None else data.weights[rows]
            effective[place] = len(rows) if weights is None else weights.sum() ** 2 / np.square(weights).sum()
            quantiles[:, place] = weighted_quantile(chosen, SHARES, weights)
            means[0, place] = np.average(chosen, axis=0, weights=weights)
            means[1, place] = np.sqrt(np.average((chosen - means[0, place]) ** 2, axis=0, weights=weights))
        notch = NOTCH * (quantiles[3] - quantiles[1]) / np.sqrt(np.maximum(effective, 1.0))[:, np.newaxis]
        low, lower_quartile, median, upper_quartile, high = quantiles
        mean, deviation = means
        return cls(low, lower_quartile, median, upper_quartile, high, notch, mean, deviation, count)
