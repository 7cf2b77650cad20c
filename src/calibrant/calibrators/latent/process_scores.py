"""What the latent function is a function of, and its prior mean there."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ParameterError
from calibrant.graph import TracedPredictions
from calibrant.options import real_array
from calibrant.predictions import ROW_SUM_TOLERANCE, Predictions
from calibrant.space import Space

__all__ = ["LEAST_RANGE", "LatentScores", "ScoreKind", "latent_scores", "parsed_scores"]


ScoreKind = Literal["log-probabilities", "given"]

LEAST_RANGE = 1e-100
"""Scores this close to each other count as equal: squares and inverses of their distances may be no floats any more."""

# Rows of probabilities sum to one within a tolerance, and their logarithms may be above zero by as much.
LARGEST_LOG_PROBABILITY = float(np.log1p(ROW_SUM_TOLERANCE))


class LatentScores(NamedTuple):
    """Arguments of the latent function, (n, K), and its prior mean at them, (n, K): the same array for the identity."""

    places: Any
    prior: Any

    @property
    def prior_is_identity(self) -> bool:
        """Whether the prior mean is the score itself."""
        return self.prior is self.places


def latent_scores(
    predictions: Predictions | TracedPredictions, kind: ScoreKind, factor: float = 1.0
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
        scores = scores * float(factor)
    return LatentScores(scores, scores)


def parsed_scores(name: str, given: Any, kind: ScoreKind) -> NDArray[np.float64]:
    """Return scores at which the latent function is asked for, or say why there can be none of this kind.

    >>> parsed_scores("z", 0.9, "log-probabilities")
    Traceback (most recent call last):
    calibrant.errors.ParameterError: z must be log-probabilities, not above zero, but 0.9 is; pass np.log(p) for probabilities p.
    """
    scores = real_array(given)
    if scores is None or not np.isfinite(scores).all():
        raise ParameterError(f"{name} must be finite numbers, such as log-probabilities, not {given!r}.")
    if kind == "log-probabilities" and (scores > LARGEST_LOG_PROBABILITY).any():
        raise ParameterError(
            f"{name} must be log-probabilities, not above zero, but {scores.max():g} is; "
            "pass np.log(p) for probabilities p."
        )
    return scores
