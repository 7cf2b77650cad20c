"""Loss: how far a row's softmax is from its label, as a function of the scores before the softmax."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.reductions import row_maxima, row_sums

__all__ = ["Loss"]

FloatArray = NDArray[np.floating]
Labels = NDArray[np.intp]


class Loss(ABC):
    """A proper loss on softmax(u), with its derivatives in u."""

    @abstractmethod
    def expand(self, scores: FloatArray, labels: Labels) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ``(losses, probabilities, gradients)`` of a block, all from one softmax.

        ``scores`` (n, K) may be overwritten. Losses are (n,), the other two (n, K).
        """

    @abstractmethod
    def values(self, scores: FloatArray, labels: Labels) -> FloatArray:
        """Return the losses alone, (n,); ``scores`` may be overwritten."""

    @abstractmethod
    def curvature_product(
        self, probabilities: FloatArray, labels: Labels, direction: FloatArray
    ) -> FloatArray:
        """Return every row's Hessian in u times that row of ``direction``, (n, K)."""


def softmax_in_place(scores: FloatArray) -> FloatArray:
    """Turn ``scores`` into probabilities; return log-sum-exp of every row, (n,)."""
    tops = row_maxima(scores)
    scores -= tops[:, np.newaxis]
    np.exp(scores, out=scores)
    totals = row_sums(scores)
    scores *= (1 / totals)[:, np.newaxis]
    log_sums: FloatArray = np.log(totals) + tops
    return log_sums
