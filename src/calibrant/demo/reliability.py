"""The numbers of a reliability diagram: bins of confidence, with an interval for each accuracy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.binning import Bins, EqualWidth
from calibrant.intervals import bin_intervals
from calibrant.metrics.events import confidences
from calibrant.predictions import Predictions

__all__ = ["Reliability", "reliability"]


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
    bins = EqualWidth().bins(confidences(predictions), right)
    return Reliability(bins, *bin_intervals(bins))
