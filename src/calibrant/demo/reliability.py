"""The numbers of a reliability diagram: bins of confidence, with an interval for each accuracy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from calibrant.binning import Bins, EqualWidth
from calibrant.predictions import Predictions

__all__ = ["Reliability", "clopper_pearson", "reliability"]

COVERAGE = 0.95


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often a classifier is right at each level of confidence.

    Attributes
    ----------
    bins : Bins
        Scores are confidences in the predicted class, outcomes whether it was right.
    low, high : ndarray of shape (B,)
        Ends of the 95 % interval for the accuracy of each bin.
    """

    bins: Bins
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def reliability(predictions: Predictions, labels: NDArray[np.intp]) -> Reliability:
    """Return the diagram with the bins of :func:`~calibrant.metrics.confidence_ece`, 15 of equal width."""
    right = predictions.predicted == labels
    confidence = predictions.probabilities[np.arange(len(labels)), predictions.predicted]
    bins = EqualWidth().bins(confidence, right)
    return Reliability(bins, *clopper_pearson(bins.outcome_sum, bins.count))


def clopper_pearson(
    hits: NDArray[np.float64], rows: NDArray[np.intp], coverage: float = COVERAGE
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Return both ends of the exact interval for a share, from 0 to 1 where there are no rows.

    With h hits among n rows the ends are the quantiles :math:`\alpha/2` of Beta(h, n - h + 1) and
    :math:`1 - \alpha/2` of Beta(h + 1, n - h): shares outside would give so many, or so few, hits with a
    probability below :math:`\alpha/2`.

    >>> low, high = clopper_pearson(np.array([0.0, 3.0]), np.array([0, 3]))
    >>> low.round(4).tolist(), high.tolist()          # 0.2924 = 0.025 ** (1 / 3)
    ([0.0, 0.2924], [1.0, 1.0])
    """
    tail = (1 - coverage) / 2
    misses = rows - hits
    # A quantile of a Beta with a parameter zero is not defined; its limit is the end of the range.
    low = np.where(hits > 0, beta.ppf(tail, np.maximum(hits, 1), misses + 1), 0.0)
    high = np.where(misses > 0, beta.ppf(1 - tail, hits + 1, np.maximum(misses, 1)), 1.0)
    return low, high
