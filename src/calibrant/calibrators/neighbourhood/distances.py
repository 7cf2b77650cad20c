"""How far predictions are from calibration points, by one matrix product a block."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.kernels import squared_distances

__all__ = ["BLOCK_ENTRIES", "Distances", "KullbackLeibler", "SquaredEuclidean", "rows_in_a_block"]

Matrix = NDArray[np.float64]

# Entries of a block of distances: large enough for fast matrix products, small enough to hold a few of them.
BLOCK_ENTRIES = 2**20


def rows_in_a_block(n_points: int) -> int:
    """Return how many rows of distances to so many points make a block.

    >>> rows_in_a_block(4096), rows_in_a_block(10**7)
    (256, 1)
    """
    return max(1, BLOCK_ENTRIES // max(1, n_points))


@dataclass(frozen=True, eq=False)
class Distances(ABC):
    """Distances from any predictions to the points (u, K) that are given here."""

    points: Matrix

    @abstractmethod
    def of(self, rows: Matrix) -> Matrix:
        """Return the distance of every row to every point, (m, u), never negative."""


@dataclass(frozen=True, eq=False)
class SquaredEuclidean(Distances):
    r"""The square of :math:`\|p - p_i\|_2`.

    >>> SquaredEuclidean(np.array([[0.5, 0.5], [1.0, 0.0]])).of(np.array([[1.0, 0.0]]))
    array([[0.5, 0. ]])
    """

    def of(self, rows: Matrix) -> Matrix:
        return squared_distances(rows, self.points)


@dataclass(frozen=True, eq=False)
class KullbackLeibler(Distances):
    r"""The divergence :math:`\sum_k p_k \ln(p_k / p_{ik})`, the row p first.

    A term is zero if :math:`p_k = 0`, and infinite if :math:`p_k > 0` and :math:`p_{ik} = 0`.

    >>> divergence = KullbackLeibler(np.array([[0.5, 0.5], [1.0, 0.0]]))
    >>> divergence.of(np.array([[1.0, 0.0], [0.5, 0.5]])).round(4)
    array([[0.6931, 0.    ], [0.    ,    inf]])
    """

    logarithms: Matrix = field(init=False)
    zeros: Matrix | None = field(init=False)

    def __post_init__(self) -> None:
        is_zero = self.points == 0
        # A zero's logarithm takes no part in the product: zero times minus infinity would not be a number.
        object.__setattr__(self, "logarithms", np.log(np.where(is_zero, 1.0, self.points)))
        object.__setattr__(self, "zeros", is_zero.astype(np.float64) if is_zero.any() else None)

    def of(self, rows: Matrix) -> Matrix:
        own = np.log(np.where(rows == 0, 1.0, rows))
        entropies = np.einsum("ik,ik->i", rows, own)
        divergences: Matrix = rows @ self.logarithms.T
        np.subtract(entropies[:, np.newaxis], divergences, out=divergences)
        if self.zeros is not None:
            divergences[(rows > 0).astype(np.float64) @ self.zeros.T > 0] = np.inf
        return np.maximum(divergences, 0.0, out=divergences)
