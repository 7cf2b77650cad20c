"""Predictions after a change of class shares: every class times a factor of its own, rows summing to one again."""

import numpy as np
from numpy.typing import NDArray

from calibrant.graph import TracedPredictions
from calibrant.graph.apply import mapped  # noqa: F401 (for the example)
from calibrant.predictions import Predictions  # noqa: F401 (for the example)

__all__ = ["reweighted"]


def reweighted(given: TracedPredictions, factors: NDArray[np.float64]) -> TracedPredictions:
    """Return predictions with class k multiplied by ``factors[k]``, zeros counting as the floor.

    Logits, as long as no factor is zero; a class whose factor is zero gets a probability of exactly zero.

    >>> mapped(lambda given: reweighted(given, np.array([1.0, 3.0])), Predictions.parse([[0.5, 0.5]])).probabilities
    array([[0.25, 0.75]])
    >>> three = Predictions.parse([[0.8, 0.1, 0.1]])
    >>> mapped(lambda given: reweighted(given, np.array([0.0, 1.0, 3.0])), three).probabilities
    array([[0.  , 0.25, 0.75]])
    """
    possible, impossible = np.flatnonzero(factors), np.flatnonzero(factors == 0)
    shifted = given.logits.columns(possible) + np.log(factors[possible])
    if len(impossible) == 0:
        return given.with_logits(shifted)
    zeros = shifted.constant(np.zeros(len(impossible)))
    places = np.argsort(np.concatenate([possible, impossible]))
    return given.with_probabilities(shifted.softmax().joined(zeros, columns=places))
