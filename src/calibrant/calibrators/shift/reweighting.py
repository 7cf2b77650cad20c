"""Predictions after a change of class shares: every class times a factor of its own, rows summing to one again."""

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.simplex import softmax
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["reweighted"]


def reweighted(predictions: Predictions, factors: NDArray[np.float64]) -> Predictions:
    """Return predictions with class k multiplied by ``factors[k]``, zeros counting as the floor.

    Logits, as long as no factor is zero; a class whose factor is zero gets a probability of exactly zero.

    >>> reweighted(Predictions.parse([[0.5, 0.5]]), np.array([1.0, 3.0])).probabilities
    array([[0.25, 0.75]])
    >>> reweighted(Predictions.parse([[0.8, 0.1, 0.1]]), np.array([0.0, 1.0, 3.0])).probabilities
    array([[0.  , 0.25, 0.75]])
    """
    logits = predictions.logits
    possible = np.flatnonzero(factors)
    logarithms = np.log(factors[possible]).astype(logits.dtype)
    if len(possible) == len(factors):
        return Predictions(logits + logarithms, Space.LOGITS, predictions.classes)
    probabilities = np.zeros_like(logits)
    probabilities[:, possible] = softmax(logits[:, possible] + logarithms)
    return Predictions(probabilities, Space.PROBABILITIES, predictions.classes)
