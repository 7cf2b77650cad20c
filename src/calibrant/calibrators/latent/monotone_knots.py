"""Where a shared curve has its knots: half of them where labels tell most, half of them evenly."""

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.latent.process_scores import LEAST_RANGE
from calibrant.numerics.row_blocks import BlockSums
from calibrant.objective.losses import softmax_in_place

__all__ = ["informative_knots"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]

N_BINS = 4096
SMALLEST_RANGE = 1e-9  # of the size of scores; what is closer together counts as equal


def informative_knots(scores: FloatArray, weights: Vector | None, n_knots: int) -> Vector:
    r"""Return knots from the smallest to the largest score, strictly increasing.

    A label tells about the curve at score :math:`z_{ik}` as much as :math:`q_{ik} (1 - q_{ik})`, with q the softmax
    of the scores. The knots are quantiles of a distribution that is one half this information and one half
    uniform over the range, so a few scores far from all others cost no resolution where it matters, and no gap is
    wider than twice the even distance. If all scores are equal, the knots lie around them.

    Costs one pass over the rows, memory for one block of them; information is added up at many marks, so a row of
    weight two is the same as two rows.

    >>> informative_knots(np.log([[0.5, 0.5], [0.75, 0.25]]), None, 3).round(2)
    array([-1.39, -0.69, -0.29])
    """
    lowest, highest = float(scores.min()), float(scores.max())
    size = max(abs(lowest), abs(highest))
    if highest - lowest <= max(SMALLEST_RANGE * size, LEAST_RANGE):
        half = 0.5 * max(1.0, size)
        return np.linspace(lowest - half, highest + half, n_knots)
    rate = N_BINS / (highest - lowest)

    def information(rows: slice) -> Vector:
        shares = np.array(scores[rows], dtype=np.float64)
        softmax_in_place(shares)
        shares *= 1 - shares
        if weights is not None:
            shares *= weights[rows, np.newaxis]
        places = (np.asarray(scores[rows], dtype=np.float64) - lowest) * rate
        before = np.minimum(places.astype(np.intp), N_BINS - 1)
        # Shared out between the two nearest marks, so that knots do not jump when a score moves by a rounding error.
        after = shares * (places - before)
        found = np.zeros(N_BINS + 1)
        found += np.bincount(before.ravel(), (shares - after).ravel(), N_BINS + 1)
        found += np.bincount(before.ravel() + 1, after.ravel(), N_BINS + 1)
        return found

    with BlockSums.over(*scores.shape) as in_all_blocks:
        density = in_all_blocks(information)
    evenly = np.linspace(0, 1, N_BINS + 1)
    told = np.append(0, np.cumsum(density[1:] + density[:-1]))
    # Rows that are all certain tell nothing, at any score.
    distribution = (told / told[-1] + evenly) / 2 if told[-1] > 0 else evenly
    marks = np.linspace(lowest, highest, N_BINS + 1)
    knots: Vector = np.interp(np.linspace(0, 1, n_knots), distribution, marks)
    return knots
