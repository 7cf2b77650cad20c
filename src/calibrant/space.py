"""Space: whether scores are probabilities or logits, and detection of probabilities passed as logits."""

from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ROW_SUM_TOLERANCE", "Space", "log_odds_look_like_probabilities", "look_like_probabilities"]


class Space(StrEnum):
    """The declared type of a score array, never guessed from its values."""

    PROBABILITIES = "probabilities"
    LOGITS = "logits"


ROW_SUM_TOLERANCE = 1e-3
"""Largest deviation of the sum of a row of probabilities from one, with room for float32 and for printed digits.

float16 and bfloat16 have a tolerance for their own rounding."""

LEAST_SUSPICIOUS_ROWS = 20


def look_like_probabilities(scores: NDArray[np.floating[Any]]) -> bool:
    """Return whether several rows of several columns all lie between 0 and 1 and sum to one.

    A single row may do so by chance, and log-odds in one column may lie between 0 and 1. Constant scores mean the same in
    both spaces.

    >>> look_like_probabilities(np.array([[0.9, 0.1], [0.2, 0.8]])), look_like_probabilities(np.array([[0.9, 0.1]]))
    (True, False)
    """
    if len(scores) < 2 or scores.shape[1] < 2:
        return False
    sums = scores.sum(axis=1, dtype=np.float64)
    return bool(np.abs(sums - 1).max() <= ROW_SUM_TOLERANCE and 0 <= scores.min() < scores.max() <= 1)


def log_odds_look_like_probabilities(logits: NDArray[np.floating[Any]]) -> bool:
    """Return whether log-odds in one column, beside zeros, lie between 0 and 1 in many rows: suspicious, but possible.

    >>> log_odds_look_like_probabilities(np.column_stack([np.zeros(50), np.linspace(0.1, 0.9, 50)]))
    True
    """
    if len(logits) < LEAST_SUSPICIOUS_ROWS or logits.shape[1] != 2:
        return False
    return bool(logits.min() >= 0 and logits.max() <= 1 and not logits[:, 0].any())
