"""Whether a map does harm on its own calibration rows, so that doing nothing is better."""

from typing import Literal

import numpy as np

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions

__all__ = ["is_worse_than_nothing"]

ROUNDING = 1e-12  # relative, within which two mean losses are the same; more for short floats


def is_worse_than_nothing(
    data: LabelledPredictions, calibrated: Predictions, loss: Literal["log", "squared"] = "log"
) -> bool:
    """Tell whether the loss of calibrated rows exceeds that of the rows as they came, zeros counting as the floor.

    >>> data = LabelledPredictions.parse([[0.9, 0.1], [0.2, 0.8]], [0, 1])
    >>> is_worse_than_nothing(data, Predictions.parse([[0.5, 0.5], [0.5, 0.5]]))
    True
    """
    nothing = data.predictions.without_zeros()
    rounding = 1 + max(ROUNDING, float(np.finfo(nothing.scores.dtype).eps))
    if loss == "squared":
        return bool(data.squared_error(calibrated) > data.squared_error(nothing) * rounding)
    return bool(data.log_loss(calibrated) > data.log_loss(nothing) * rounding)
