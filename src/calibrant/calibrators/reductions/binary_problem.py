"""The problem of two classes that a reduction gives to its base."""

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions

__all__ = ["binary_problem"]


def binary_problem(
    predictions: Predictions, happened: NDArray[np.bool_], weights: NDArray[np.float64] | None
) -> LabelledPredictions:
    """Return predictions of two columns with labels 1 where the event happened, and 0 elsewhere.

    >>> binary_problem(Predictions.from_probabilities([0.2, 0.7]), np.array([False, True]), None).labels
    array([0, 1])
    """
    return LabelledPredictions(predictions, happened.astype(np.intp), np.arange(2), weights)
