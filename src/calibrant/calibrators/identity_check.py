"""Whether a fitted map has a higher loss on its own calibration set than the identity map."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective import ArraySource, RowSource
from calibrant.predictions import Predictions
from calibrant.solvers.solution import Solution

__all__ = ["is_clearly_better_than_identity", "is_worse_than_identity"]

ROUNDING = 1e-12  # relative difference within which two mean losses are equal; more for float32


# Relative gain in training loss from which rounding cannot turn it into a loss.
CLEAR_GAIN = 1e-9
LARGEST_CLEAR_SCORE = 1e3


def is_clearly_better_than_identity(solution: Solution, source: RowSource, largest: float) -> bool:
    """Return whether the training loss proves that predictions beat the identity, without predicting.

    Predictions of float64 rows with moderate scores are those of the fit up to rounding; ``largest`` is the largest
    absolute score.
    """
    is_exact = source.first.predictions.scores.dtype == np.float64 and largest <= LARGEST_CLEAR_SCORE
    return bool(is_exact and solution.loss < solution.identity_loss * (1 - CLEAR_GAIN))


def is_worse_than_identity(
    data: LabelledPredictions | RowSource,
    calibrated: Callable[[Predictions], Predictions],
    loss: Literal["log", "brier"] = "log",
) -> bool:
    """Return whether the loss of calibrated rows exceeds that of the uncalibrated ones, with zeros raised to the floor.

    >>> data = LabelledPredictions.parse([[0.9, 0.1], [0.2, 0.8]], [0, 1])
    >>> is_worse_than_identity(data, lambda given: Predictions.parse([[0.5, 0.5], [0.5, 0.5]]))
    True
    """
    source = data if isinstance(data, RowSource) else ArraySource(data)

    def losses(batch: LabelledPredictions) -> NDArray[np.float64]:
        identity = batch.predictions.without_zeros()
        both = (batch.row_losses(loss, given) for given in (calibrated(batch.predictions), identity))
        return np.array([each.sum() if batch.weights is None else each @ batch.weights for each in both])

    mapped, unmapped = source.summed(losses)
    rounding = 1 + max(ROUNDING, float(np.finfo(source.first.predictions.scores.dtype).eps))
    return bool(mapped > unmapped * rounding)
