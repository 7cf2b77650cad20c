"""Features of structured scaling: logarithms of tempered probabilities with a little of the uniform mixed in."""

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.reductions import row_maxima, row_sums
from calibrant.numerics.row_blocks import BlockSums
from calibrant.predictions import Predictions

__all__ = ["mixed_scores"]

FloatArray = NDArray[np.floating]

# Distances below the largest logit beyond this count as this, so that products with them stay finite in float32.
FURTHEST = 1e30

# A part of the uniform distribution smaller than this would drown, or vanish, as a number of float32.
LEAST_FLOOR = 1e-30


def mixed_scores(predictions: Predictions, inverse_temperature: float, uniform_share: float) -> FloatArray:
    r"""Return x = log q, (n, K), a new array in the float type of the scores.

    .. math:: q = (1 - \varepsilon) \,\mathrm{softmax}(a z) + \varepsilon / K

    Never overflows; the same for logits and for their softmax.

    >>> predictions = Predictions.from_logits([[0.0, -1e6]])
    >>> np.exp(mixed_scores(predictions, 1.0, 0.02))
    array([[0.99, 0.01]])
    """
    logits = predictions.logits
    result = np.empty(logits.shape, logits.dtype)  # row by row, however the logits are stored
    kind = logits.dtype.type
    floor = uniform_share / logits.shape[1]

    def fill(rows: slice) -> int:
        block = result[rows]
        with np.errstate(over="ignore"):
            np.subtract(logits[rows], row_maxima(logits[rows])[:, np.newaxis], out=block)
            block *= kind(inverse_temperature)
        np.maximum(block, kind(-FURTHEST), out=block)
        terms = np.exp(block)
        totals = row_sums(terms)
        if floor > LEAST_FLOOR:
            terms *= ((1 - uniform_share) / totals).astype(kind)[:, np.newaxis]
            terms += kind(floor)
            np.log(terms, out=block)
            return 1
        block -= np.log(totals)[:, np.newaxis]
        if floor > 0:
            np.logaddexp(block, kind(np.log(floor)), out=block)
        return 1

    with BlockSums.over(len(logits), logits.shape[1], logits.itemsize) as in_all_blocks:
        in_all_blocks(fill)
    return result
