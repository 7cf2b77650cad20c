"""Detection of probabilities passed as logits: what raises an error or a warning unless a user insists."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["log_odds_look_like_probabilities", "look_like_probabilities"]

# Tolerance on row sums for printed and float32 probabilities, as predictions.ROW_SUM_TOLERANCE has it.
ROUNDING_OF_SUMS = 1e-3

ROWS_TO_SUSPECT = 20


def look_like_probabilities(scores: NDArray[np.floating[Any]]) -> bool:
    """Return whether several rows of several columns all lie between 0 and 1 and sum to one.

    One row may do so by chance, a column of log-odds may lie between 0 and 1, and constant scores mean the same either way.

    >>> look_like_probabilities(np.array([[0.9, 0.1], [0.2, 0.8]])), look_like_probabilities(np.array([[0.9, 0.1]]))
    (True, False)
    """
    if len(scores) < 2 or scores.shape[1] < 2:
        return False
    sums = scores.sum(axis=1, dtype=np.float64)
    return bool(np.abs(sums - 1).max() <= ROUNDING_OF_SUMS and 0 <= scores.min() < scores.max() <= 1)


def log_odds_look_like_probabilities(logits: NDArray[np.floating[Any]]) -> bool:
    """Return whether log-odds of one column, next to zeros, lie between 0 and 1 in many rows: suspicious, but possible.

    >>> log_odds_look_like_probabilities(np.column_stack([np.zeros(50), np.linspace(0.1, 0.9, 50)]))
    True
    """
    if len(logits) < ROWS_TO_SUSPECT or logits.shape[1] != 2:
        return False
    return bool(logits.min() >= 0 and logits.max() <= 1 and not logits[:, 0].any())
