"""Cells of neighbouring scores, few enough for thousands of resamples."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector

__all__ = ["ScoreCells"]


@dataclass(frozen=True, eq=False)
class ScoreCells:
    r"""Rows in the order of their scores, pooled if there are many distinct scores.

    A cell contains all rows with one score. If there are more distinct scores than cells, neighbours are pooled into cells
    with about the same number of rows and treated as if all had the mean score. With a thousand cells the error is invisible
    in a plot.

    Attributes
    ----------
    score : ndarray of shape (c,)
        Mean score of each cell, increasing.
    count : ndarray of shape (c, 2)
        Number of rows without and with the event.
    weight : ndarray of shape (c, 2)
        Their weights.
    effective : ndarray of shape (c,)
        Effective sample size :math:`(\sum w)^2 / \sum w^2`, rounded to an integer of at least 1.
    """

    score: Vector
    count: NDArray[np.intp]
    weight: Vector
    effective: NDArray[np.intp]

    @classmethod
    def of(
        cls, scores: NDArray[np.floating], happened: NDArray[np.bool_], weights: Vector | None, most: int
    ) -> Self:
        """Sort the rows and aggregate them in at most ``most`` cells; O(n log n).

        >>> cells = ScoreCells.of(np.array([0.3, 0.1, 0.3]), np.array([True, False, False]), None, most=10)
        >>> cells.score, cells.count.tolist()
        (array([0.1, 0.3]), [[1, 0], [1, 1]])
        """
        order = np.argsort(scores, kind="stable")
        # A float32 probability of 1.0000001 counts as one.
        ordered = np.clip(scores[order].astype(np.float64), 0.0, 1.0)
        is_new = np.concatenate([[True], ordered[1:] > ordered[:-1]])
        cell = np.cumsum(is_new) - 1
        if cell[-1] >= most:
            # Rows with the same score stay together, in the cell of the first of them.
            firsts = np.flatnonzero(is_new)
            _, cell = np.unique((firsts * most // len(ordered))[cell], return_inverse=True)
        n_cells = int(cell[-1]) + 1
        side = 2 * cell + happened[order]

        def sums(index: NDArray[np.intp], values: Any, n_sums: int) -> Vector:
            return np.bincount(index, values, n_sums).astype(np.float64)

        ordered_weights = None if weights is None else weights[order]
        weight = sums(side, ordered_weights, 2 * n_cells).reshape(-1, 2)
        total = weight.sum(axis=1)
        if ordered_weights is None:
            score, effective = sums(cell, ordered, n_cells), total
        else:
            score = sums(cell, ordered_weights * ordered, n_cells)
            effective = total**2 / sums(cell, ordered_weights**2, n_cells)
        return cls(
            np.clip(score / total, 0.0, 1.0),
            np.bincount(side, minlength=2 * n_cells).reshape(-1, 2),
            weight,
            np.maximum(np.rint(effective), 1).astype(np.intp),
        )

    @property
    def total_weight(self) -> Vector:
        """Weight of each cell, (c,)."""
        total: Vector = self.weight.sum(axis=1)
        return total

    def outcomes_if_true(self, n_draws: int, generator: np.random.Generator) -> Vector:
        """Return mean outcomes of the cells, (n_draws, c), simulated under calibration."""
        return generator.binomial(self.effective, self.score, (n_draws, len(self.score))) / self.effective

    def rows_again(self, n_draws: int, generator: np.random.Generator) -> tuple[Vector, Vector]:
        """Return weights and outcome sums of the cells, (n_draws, c) each, for bootstrap resamples of the rows."""
        counts = self.count.ravel()
        n_rows = int(counts.sum())
        drawn = generator.multinomial(n_rows, counts / n_rows, n_draws).reshape(n_draws, -1, 2)
        of_one = np.divide(self.weight, self.count, out=np.zeros_like(self.weight), where=self.count > 0)
        weight = of_one * drawn.astype(np.float64)
        return weight.sum(axis=2), weight[:, :, 1]
