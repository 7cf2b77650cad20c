"""Ways to make the separately calibrated probabilities of K classes sum to one."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from calibrant.numerics.row_blocks import row_blocks

__all__ = ["NORMALISATIONS", "Normalisation", "normalised"]

FloatArray = NDArray[np.floating]
Normalisation = Literal["divide", "shift", "project"]

# Log-odds of a one: just beyond the 36.7 of the largest float64 below one.
CERTAIN = 40.0

# How far below the largest log-odds of its row an entry may lie; zeros lie there. As a share it is e^-80.
SPREAD = 80.0


def _divided(values: NDArray[np.float64]) -> NDArray[np.float64]:
    quotient: NDArray[np.float64] = values / values.sum(axis=1, keepdims=True)
    return quotient


def _shifted(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Subtract from all log-odds of a row what makes its probabilities sum to one.

    The sum falls with the shift, so a bracket holds the answer; Newton's step is taken where it stays inside.
    """
    # Rows may sum to a little more than one, and an entry then exceed it.
    odds = np.minimum(logit(np.minimum(values, 1.0)), CERTAIN)
    largest = odds.max(axis=1)
    odds = np.maximum(odds - largest[:, np.newaxis], -SPREAD)
    # With the largest log-odds at -log(K - 1) no entry exceeds 1/K; with the smallest there none is below.
    base = float(np.log(max(values.shape[1] - 1, 1)))
    low, high = odds.min(axis=1) + base, np.full(len(odds), base)
    shift = np.clip(-largest, low, high)
    for _ in range(100):
        shifted = expit(odds - shift[:, np.newaxis])
        excess = shifted.sum(axis=1) - 1
        low, high = np.where(excess > 0, shift, low), np.where(excess > 0, high, shift)
        if np.abs(excess).max() < 1e-14 * values.shape[1]:
            break
        slope = (shifted * (1 - shifted)).sum(axis=1)
        newton = shift + excess / slope
        shift = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
    return _divided(shifted)


def _projected(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest point of the simplex in the sense of least squares."""
    n_classes = values.shape[1]
    descending = -np.sort(-values, axis=1)
    excess = (np.cumsum(descending, axis=1) - 1) / np.arange(1, n_classes + 1)
    n_positive = (descending > excess).sum(axis=1, keepdims=True)
    return _divided(np.maximum(values - np.take_along_axis(excess, n_positive - 1, axis=1), 0.0))


NORMALISATIONS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "divide": _divided,
    "shift": _shifted,
    "project": _projected,
}


def normalised(values: FloatArray, how: Normalisation, fallback: FloatArray) -> FloatArray:
    r"""Return rows that sum to one, in the float type of ``values``.

    For a row g of separate probabilities

    - ``"divide"`` gives :math:`g_j / \sum_k g_k`;
    - ``"shift"`` gives :math:`\sigma(\operatorname{logit} g_j - \lambda)` with the one :math:`\lambda` for
      which they sum to one, the row nearest to g in the sum of binary Kullback-Leibler divergences;
    - ``"project"`` gives the row nearest to g in the sense of least squares, with zeros if need be.

    All three leave alone what sums to one already, and keep the order; "shift" as far as entries are not more than 80
    nats below the largest of their row. Rows of zeros say nothing: the
    row of ``fallback`` takes their place. O(nK), for "project" O(nK log K).

    >>> separate, own = np.array([[0.9, 0.6], [0.0, 0.0]]), np.array([[0.7, 0.3], [0.8, 0.2]])
    >>> normalised(separate, "divide", own)
    array([[0.6, 0.4], [0.8, 0.2]])
    >>> normalised(separate, "project", own).round(3)
    array([[0.65, 0.35], [0.8 , 0.2 ]])
    >>> normalised(separate, "shift", own).round(3)
    array([[0.71, 0.29], [0.8 , 0.2 ]])
    """
    result = np.empty_like(values)
    for rows in row_blocks(len(values), values.shape[1]):
        block = values[rows].astype(np.float64)
        empty = block.max(axis=1) == 0
        block[empty] = fallback[rows][empty]
        result[rows] = NORMALISATIONS[how](block)
    return result
