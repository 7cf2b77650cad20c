"""Rows in which the largest entry has a new probability and the others share what is left."""

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.row_blocks import row_blocks
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["with_confidence"]


def with_confidence(
    predictions: Predictions, confidence: NDArray[np.float64], rest: NDArray[np.float64]
) -> Predictions:
    r"""Return probabilities with these for the predicted class of every row and for all others together.

    .. math:: q_{\hat y} = c, \qquad q_k = r \, \frac{p_k}{\sum_{j \ne \hat y} p_j}

    for confidence c and rest r, both (n,), which sum to one. Zeros count as the floor, so that a row that gives the
    others nothing has its rest shared out evenly. O(nK), in blocks.

    >>> predictions = Predictions.from_probabilities([[0.6, 0.3, 0.1], [0.0, 1.0, 0.0]])
    >>> with_confidence(predictions, np.array([0.5, 0.9]), np.array([0.5, 0.1])).probabilities
    array([[0.5 , 0.375, 0.125], [0.05 , 0.9 , 0.05 ]])
    """
    scores, predicted = predictions.scores, predictions.predicted
    shared = np.empty_like(scores)
    least = float(np.finfo(scores.dtype).tiny)
    for rows in row_blocks(*scores.shape):
        block = scores[rows].astype(np.float64)
        largest = np.arange(len(block)), predicted[rows]
        if predictions.space is Space.LOGITS:
            block[largest] = -np.inf
            block = np.exp(block - block.max(axis=1, keepdims=True))
        else:
            block = np.maximum(block, predictions.floor)
            block[largest] = 0.0
        block /= block.sum(axis=1, keepdims=True)
        block *= rest[rows, np.newaxis]
        # Shares too small for the float type would become zeros, and the log-loss of a zero may be infinite.
        np.maximum(block, least, out=block, where=rest[rows, np.newaxis] > 0)
        block[largest] = confidence[rows]
        shared[rows] = block
    return Predictions(shared, Space.PROBABILITIES, predictions.classes)
