"""Soft partitions of the simplex by linear boundaries, and how wrong predictions are on average in their parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.row_blocks import BlockSums
from calibrant.solvers import quasi_newton

__all__ = ["Thoroughness", "Violation", "soft_parts", "worst_partition"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


class Thoroughness(NamedTuple):
    """How hard to look for the worst partition.

    Attributes
    ----------
    n_searches : int
        Searches, from the most promising starts.
    precision : float
        A step that gains less than this share of the violation ends a search; what is left is made good by the next
        repair.
    max_steps : int
        Steps of one search; those that take more crawl along a ridge.
    """

    n_searches: int = 2
    precision: float = 1e-6
    max_steps: int = 50


def soft_parts(scores: Matrix, partition: Matrix) -> Matrix:
    r"""Return how far every row belongs to every part, (k, n): the softmax of ``partition`` (k, K) times the row.

    >>> soft_parts(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[4.0, -4.0], [0.0, 0.0]])).round(3)
    array([[0.982, 0.5  ], [0.018, 0.5  ]])
    """
    parts: Matrix = partition @ scores.T
    parts -= parts.max(axis=0)
    np.exp(parts, out=parts)
    parts /= parts.sum(axis=0)
    return parts


def _first_parts(scores: Matrix, weights: Matrix) -> Matrix:
    """Return the memberships in all parts but the last, (k - 1, n), whose own weights are zero."""
    parts: Matrix = weights @ scores.T
    if len(parts) == 1:
        np.negative(parts, out=parts)
        with np.errstate(over="ignore"):  # one divided by infinity is the zero it should be
            np.exp(parts, out=parts)
        parts += 1
        return np.divide(1, parts, out=parts)
    largest = np.maximum(parts.max(axis=0), 0)
    parts -= largest
    np.exp(parts, out=parts)
    parts /= parts.sum(axis=0) + np.exp(-largest)
    return parts


@dataclass(frozen=True, eq=False)
class Violation:
    r"""By how much predictions violate calibration in the parts of a soft partition, and its gradient.

    .. math:: v(W) = \sum_{i=1}^k \Bigl\| \sum_j \omega_j (y_j - f_j) \, b_{ij} \Bigr\|_2, \qquad
              b_{\cdot j} = \mathrm{softmax}(W f_j)

    with shares :math:`\omega` of the rows in their total weight. What is added to all rows of W changes nothing, so the
    last one is zero, and only the others (k - 1, K) are varied.

    Attributes
    ----------
    scores : ndarray of shape (n, K)
        Predictions f; they need not lie on the simplex.
    residuals : ndarray of shape (n, K)
        :math:`\omega_j (y_j - f_j)`.
    in_all_blocks : BlockSums
        Passes over all rows.

    Notes
    -----
    Value and gradient together cost two passes of O(n K k) and, besides the rows, memory O(n k).
    """

    scores: Matrix
    residuals: Matrix
    in_all_blocks: BlockSums

    @cached_property
    def total(self) -> Vector:
        """Sum of all residuals, (K,)."""
        return np.asarray(self.residuals.sum(axis=0))

    def value_and_gradient(self, weights: Matrix) -> tuple[float, Matrix]:
        """Return the violation for weights (k - 1, K) of all parts but the last, and its gradient.

        A part without violation has no direction in which it grows first; it adds nothing to the gradient.
        """
        parts = np.empty((len(weights), len(self.scores)))

        def mean_residuals(rows: slice) -> Matrix:
            of_block = parts[:, rows] = _first_parts(self.scores[rows], weights)
            means: Matrix = of_block @ self.residuals[rows]
            return means

        means = self._with_last(self.in_all_blocks(mean_residuals))
        norms = np.sqrt(np.einsum("ik,ik->i", means, means))[:, np.newaxis]
        units = np.divide(means, norms, out=np.zeros_like(means), where=norms > 0)
        directions = units[:-1] - units[-1]

        def gradient(rows: slice) -> Matrix:
            slopes = directions @ self.residuals[rows].T
            own = parts[:, rows]
            slopes -= np.einsum("ij,ij->j", own, slopes)
            slopes *= own
            of_block: Matrix = slopes @ self.scores[rows]
            return of_block

        return float(norms.sum()), self.in_all_blocks(gradient)

    def value(self, weights: Matrix) -> float:
        """Return the violation alone."""

        def mean_residuals(rows: slice) -> Matrix:
            means: Matrix = _first_parts(self.scores[rows], weights) @ self.residuals[rows]
            return means

        means = self._with_last(self.in_all_blocks(mean_residuals))
        return float(np.linalg.norm(means, axis=1).sum())

    def _with_last(self, means: Matrix) -> Matrix:
        return np.vstack([means, self.total - means.sum(axis=0)])


def worst_partition(
    violation: Violation, starts: Sequence[Matrix], steepness: float, thoroughness: Thoroughness
) -> tuple[Matrix, float]:
    """Return the partition (k, K) with the largest violation that was found, and that violation.

    Parameters
    ----------
    violation : Violation
    starts : sequence of ndarrays of shape (k - 1, K)
        Where searches may begin: the weights of all parts but the last.
    steepness : float
        Limit on the size of any weight. Without one partitions become hard, and fit themselves to single rows.
    thoroughness : Thoroughness
        How many searches, from the starts with the largest violations, and when each ends.
    """
    promises = np.array([violation.value(start) for start in starts])
    order = np.argsort(-promises, kind="stable")
    best, unit = starts[order[0]], float(promises[order[0]])
    largest = unit
    bounds = [(-steepness, steepness)] * best.size

    def shortfall(theta: Vector) -> tuple[float, Vector]:
        value, gradient = violation.value_and_gradient(theta.reshape(best.shape))
        return -value / unit, gradient.ravel() / -unit

    for number in order[: thoroughness.n_searches] if unit > 0 else []:
        found = quasi_newton(
            shortfall,
            starts[number].ravel(),
            bounds=bounds,
            tolerance=thoroughness.precision,
            max_iterations=thoroughness.max_steps,
        )
        if -found.value * unit > largest:
            best, largest = found.theta.reshape(best.shape), -found.value * unit
    return np.vstack([best, np.zeros_like(best[:1])]), largest
