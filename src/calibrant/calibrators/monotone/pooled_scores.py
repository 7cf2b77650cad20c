"""Scores in increasing groups, as isotonic regression wants them: of one event, or of all classes together."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.numerics.isotonic import levels
from calibrant.numerics.row_blocks import row_blocks

__all__ = ["PooledScores"]


# Pairs that are sorted at a time: enough to make the look-up of every positive in each of the parts cheap,
# few enough for the memory not to matter.
PAIRS_AT_A_TIME = 2**20


@dataclass(frozen=True, eq=False)
class PooledScores:
    """Neighbouring scores that any isotonic fit gives one value, in increasing order.

    Attributes
    ----------
    low, high : ndarray of shape (m,)
        Smallest and largest score of each group.
    weight : ndarray of shape (m,)
        Total weight of its scores.
    outcome_sum : ndarray of shape (m,)
        Weight of those for which the event happened.
    score_sum : ndarray of shape (m,)
        Weighted sum of the scores.
    """

    low: Vector
    high: Vector
    weight: Vector
    outcome_sum: Vector
    score_sum: Vector

    @classmethod
    def of_event(cls, scores: Vector, outcomes: NDArray[np.bool_], weights: Vector | None) -> Self:
        """Group equal scores of one event; costs a sort."""
        rows = levels(scores, outcomes, weights)
        score = rows.score.astype(np.float64)
        return cls(score, score, rows.weight, rows.outcome_sum, rows.weight * score)

    @classmethod
    def of_all_pairs(
        cls, probabilities: FloatArray, labels: NDArray[np.intp], weights: Vector | None
    ) -> Self:
        """Group the n K pairs of a probability and whether its class is the true one.

        Only n of the pairs are positive, and what follows a positive without another one in between is pooled
        with it by any isotonic fit: there are at most n + 1 groups, one for each different probability of a
        true class and one for all that is smaller. Costs O(nK log n) time and O(n) memory besides that of
        :data:`PAIRS_AT_A_TIME` pairs.

        >>> groups = PooledScores.of_all_pairs(np.array([[0.1, 0.9], [0.3, 0.7]]), np.array([1, 0]), None)
        >>> groups.low, groups.high, groups.weight, groups.outcome_sum
        (array([0.1, 0.3, 0.9]), array([0.1, 0.7, 0.9]), array([1., 2., 1.]), array([0., 1., 1.]))
        """
        n_rows, n_classes = probabilities.shape
        own = probabilities[np.arange(n_rows), labels]
        marks, mark_of_row = np.unique(own, return_inverse=True)
        positive = np.append(0.0, np.bincount(mark_of_row, weights, len(marks)))
        others, score_sum, high = (np.zeros(len(marks) + 1) for _ in range(3))
        low = np.append(probabilities.min(), marks).astype(np.float64)
        min_rows = max(1, PAIRS_AT_A_TIME // n_classes)
        for rows in row_blocks(n_rows, n_classes, probabilities.itemsize, min_rows):
            scores = probabilities[rows].ravel()
            if weights is None:
                scores = np.sort(scores)
                weight = other_weight = np.ones_like(scores)
            else:
                order = np.argsort(scores)
                scores = scores[order]
                weight = weights[rows][order // n_classes]
                other_weight = np.where(labels[rows][order // n_classes] == order % n_classes, 0.0, weight)
            ends = np.append(np.searchsorted(scores, marks), len(scores))
            starts = np.append(0, ends[:-1])
            filled = np.flatnonzero(ends > starts)
            begins = starts[filled]
            high[filled] = np.maximum(high[filled], scores[ends[filled] - 1])
            others[filled] += np.add.reduceat(other_weight, begins, dtype=np.float64)
            score_sum[filled] += np.add.reduceat(weight * scores, begins, dtype=np.float64)
        if weights is None:
            others -= positive
        groups = (low, high, others + positive, positive, score_sum)
        empty_first = int(groups[2][0] == 0)
        return cls(*(array[empty_first:] for array in groups))
