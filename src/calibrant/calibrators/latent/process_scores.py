"""What the latent function is a function of, and its prior mean there."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["LatentScores", "latent_scores"]

FloatArray = NDArray[np.floating]


class LatentScores(NamedTuple):
    """Arguments of the latent function, (n, K), and its prior mean at them, (n, K): the same array for the identity."""

    places: FloatArray
    prior: FloatArray

    @property
    def prior_is_identity(self) -> bool:
        """Whether the prior mean is the score itself."""
        return self.prior is self.places


def latent_scores(
    predictions: Predictions, kind: Literal["log-probabilities", "given"], factor: float = 1.0
) -> LatentScores:
    """Return log-probabilities, or the scores as they were given, with the prior mean that leaves predictions as they are.

    Log-probabilities and logits are multiplied by ``factor``.

    >>> scores = latent_scores(Predictions.from_probabilities([[0.8, 0.2]]), "given")
    >>> scores.places, scores.prior.round(3)
    (array([[0.8, 0.2]]), array([[-0.223, -1.609]]))
    """
    if kind == "given" and predictions.space is Space.PROBABILITIES:
        return LatentScores(predictions.scores, predictions.log_probabilities)
    scores = predictions.scores if kind == "given" else predictions.log_probabilities
    if factor != 1.0:
        scores = scores * scores.dtype.type(factor)
    return LatentScores(scores, scores)
