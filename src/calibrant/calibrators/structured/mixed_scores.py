"""Features of structured scaling: logarithms of tempered probabilities with a little of the uniform mixed in."""

import numpy as np

from calibrant.graph import TracedPredictions, Value
from calibrant.objective.family import Features

__all__ = ["mixed_scores"]

# Distances below the largest logit beyond this count as this, so that products with them stay finite in float32.
FURTHEST = 1e30

# A part of the uniform distribution smaller than this would drown, or vanish, as a number of float32.
LEAST_FLOOR = 1e-30


def mixed_scores(inverse_temperature: float, uniform_share: float) -> Features:
    r"""Return the features x = log q of a row.

    .. math:: q = (1 - \varepsilon) \,\mathrm{softmax}(a z) + \varepsilon / K

    Never overflows; the same for logits and for their softmax.

    >>> from calibrant import Predictions
    >>> predictions = Predictions.from_logits([[0.0, -1e6]])
    >>> np.exp(mixed_scores(1.0, 0.02)(predictions))
    array([[0.99, 0.01]])
    """

    def formula(given: TracedPredictions) -> Value:
        logits = given.logits
        gaps = ((logits - logits.row("max")) * inverse_temperature).clip(low=-FURTHEST)
        floor = uniform_share / given.n_classes
        if floor > LEAST_FLOOR:
            return gaps.softmax().affine(1 - uniform_share, floor).log(floor / 2)
        tempered = gaps.log_softmax()
        if floor == 0:
            return tempered
        # log(e^x + floor), the larger of the two plus the softplus of their negative distance.
        above = tempered - float(np.log(floor))
        return tempered.maximum(tempered.affine(0.0, np.log(floor))) + (
            above.function("absolute") * -1.0
        ).function("softplus")

    return Features(formula)
