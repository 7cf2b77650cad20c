"""The penalty of structured scaling: squares of all parameters, and of differences between neighbouring slopes."""

from itertools import accumulate

import numpy as np

from calibrant.arrays import Matrix
from calibrant.calibrators.structured.structured_map import StructuredMap
from calibrant.objective import QuadraticPenalty

__all__ = ["structured_penalty"]


# What a slope of rows costs, as a multiple of one of a segment; chosen on the odd-numbered sets of
# benchmarks/structured_and_auto.py.
ROW_PRICE = 4.0


def structured_penalty(
    logit_map: StructuredMap, strength: float, slope_penalty: float, difference_penalty: float
) -> QuadraticPenalty:
    """Return the penalty of structured scaling on the sum of losses, around temperature scaling.

    A slope costs ``slope_penalty``, each of K weights v and of K intercepts K times the ``strength``, each of K (K - 1)
    weights M so many times the strength; differences of neighbouring slopes cost ``difference_penalty``.
    """
    n_classes = logit_map.n_classes
    own = np.empty(0)
    if logit_map.class_terms == "vector":
        own = np.full(2 * n_classes, float(n_classes))
    elif logit_map.class_terms == "matrix":
        prices = np.full((n_classes, n_classes + 1), float(n_classes * (n_classes - 1)))
        np.fill_diagonal(prices, float(n_classes))
        prices[:, -1] = n_classes
        own = prices.ravel()
    n_segments = 0 if logit_map.segments is None else logit_map.segments.scores.n_segments
    lengths = [n_segments, logit_map.n_slopes - n_segments]
    of_slopes = np.repeat([1.0, ROW_PRICE], lengths)
    return QuadraticPenalty(
        np.concatenate([slope_penalty * of_slopes, strength * own]),
        logit_map.identity(),
        difference_penalty * of_slopes[:, np.newaxis] * chain_of(lengths),
    )


def chain_of(lengths: list[int]) -> Matrix:
    r"""Return the matrix of :math:`\sum_j (\theta_{j+1} - \theta_j)^2` within stretches of given lengths.

    >>> chain_of([2, 1])
    array([[ 1., -1.,  0.], [-1.,  1.,  0.], [ 0.,  0.,  0.]])
    """
    steps = np.diff(np.eye(sum(lengths)), axis=0)
    ends = [end - 1 for end in accumulate(lengths) if 0 < end < sum(lengths)]
    steps = np.delete(steps, ends, axis=0)
    return steps.T @ steps
