"""How far predictions are from calibration points, by one matrix product a block."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from calibrant.arrays import Matrix, Vector

__all__ = ["BLOCK_ENTRIES", "Distances", "KullbackLeibler", "SquaredEuclidean", "rows_in_a_block"]


# A squared distance from a matrix product has an error of a few units in the last place of the squared norms.
ROUNDING = 8 * float(np.finfo(np.float64).eps)

# Entries of a block of distances: large enough for fast matrix products, small enough to hold a few of them.
BLOCK_ENTRIES = 2**20

# Fewer rows than this would read all points anew for hardly any work.
FEWEST_ROWS = 4


def rows_in_a_block(n_points: int) -> int:
    """Return how many rows of distances to so many points make a block.

    >>> rows_in_a_block(4096), rows_in_a_block(10**7)
    (256, 4)
    """
    return max(FEWEST_ROWS, BLOCK_ENTRIES // max(1, n_points))


@dataclass(frozen=True, eq=False)
class Distances(ABC):
    """Distances from any predictions to the points (u, K) that are given here."""

    points: Matrix

    @abstractmethod
    def of(self, rows: Matrix) -> Matrix:
        """Return the distance of every row to every point, (m, u), never negative."""

    def ordering(self, rows: Matrix) -> Matrix:
        """Return what to order points by: distances as they come out of the formula, be some below zero."""
        return self.of(rows)


@dataclass(frozen=True, eq=False)
class SquaredEuclidean(Distances):
    r"""The square of :math:`\|p - p_i\|_2`.

    By the product of all differences from the mean of the points, so that the rounding error is relative to their
    spread. What is no more than that error counts as zero.

    >>> SquaredEuclidean(np.array([[0.5, 0.5], [1.0, 0.0]])).of(np.array([[1.0, 0.0]]))
    array([[0.5, 0. ]])
    """

    centre: Vector = field(init=False)
    factors: Matrix = field(init=False)

    def __post_init__(self) -> None:
        centre = self.points.mean(axis=0)
        shifted = self.points - centre
        norms = np.einsum("ik,ik->i", shifted, shifted)
        # |a|^2 + |b|^2 - 2ab as a single product, without further passes over the block.
        factors = np.column_stack([-2 * shifted, np.ones(len(norms)), norms])
        object.__setattr__(self, "centre", centre)
        object.__setattr__(self, "factors", factors)

    def of(self, rows: Matrix) -> Matrix:
        shifted = rows - self.centre
        norms = np.einsum("ik,ik->i", shifted, shifted)
        squares: Matrix = np.column_stack([shifted, norms, np.ones(len(norms))]) @ self.factors.T
        squares[squares <= ROUNDING * (norms.max() + self.factors[:, -1].max())] = 0.0
        return squares


@dataclass(frozen=True, eq=False)
class KullbackLeibler(Distances):
    r"""The divergence :math:`\sum_k p_k \ln(p_k / p_{ik})`, the row p first.

    A term is zero if :math:`p_k = 0`, and infinite if :math:`p_k > 0` and :math:`p_{ik} = 0`. Rows in float32 sum to one
    up to 1e-7 or so, and the formula may then fall below zero by as much; a distance is zero in that case, while the
    order of points is that of the formula.

    >>> divergence = KullbackLeibler(np.array([[0.5, 0.5], [1.0, 0.0]]))
    >>> divergence.of(np.array([[1.0, 0.0], [0.5, 0.5]])).round(4)
    array([[0.6931, 0.    ], [0.    ,    inf]])
    """

    logarithms: Matrix = field(init=False)
    zeros: Matrix | None = field(init=False)

    def __post_init__(self) -> None:
        is_zero = self.points == 0
        # A zero's logarithm takes no part in the product: zero times minus infinity would not be a number.
        logarithms = np.where(is_zero, 1.0, self.points)
        object.__setattr__(self, "logarithms", np.log(logarithms, out=logarithms))
        object.__setattr__(self, "zeros", is_zero.astype(np.float64) if is_zero.any() else None)

    def of(self, rows: Matrix) -> Matrix:
        divergences = self.ordering(rows)
        return np.maximum(divergences, 0.0, out=divergences)

    def ordering(self, rows: Matrix) -> Matrix:
        own = np.log(np.where(rows == 0, 1.0, rows))
        entropies = np.einsum("ik,ik->i", rows, own)
        divergences: Matrix = rows @ self.logarithms.T
        np.subtract(entropies[:, np.newaxis], divergences, out=divergences)
        if self.zeros is not None:
            divergences[(rows > 0).astype(np.float64) @ self.zeros.T > 0] = np.inf
        return divergences
