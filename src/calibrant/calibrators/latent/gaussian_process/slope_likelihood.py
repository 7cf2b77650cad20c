"""Likelihood of an increasing latent function, as a function of its slopes at knots."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrant.arrays import FloatArray, IntArray, Matrix, Vector
from calibrant.numerics.increasing_curve import Pieces, parabolas
from calibrant.numerics.row_blocks import BlockSums
from calibrant.objective import ConvexExpansion
from calibrant.objective.losses import softmax_in_place

__all__ = ["SlopeLikelihood"]


@dataclass(frozen=True, eq=False)
class _Sums:
    """What a block of rows adds: loss, moments of places on each piece, features expected by rows, their products."""

    loss: float
    moments: Matrix
    features: Vector
    products: Matrix

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.loss + other.loss,
            self.moments + other.moments,
            self.features + other.features,
            self.products + other.products,
        )


class SlopeLikelihood:
    r"""Negative log-likelihood of :math:`q_i = \mathrm{softmax}(g(z_{i1}), \dots, g(z_{iK}))` with g of given slopes.

    With :math:`\phi(z)` the row of :meth:`Pieces.features_at`, so that :math:`g(z) = \phi(z)^\top \xi`, and
    :math:`\bar\phi_i = \sum_k q_{ik} \phi(z_{ik})`,

    .. math:: \ell(\xi) &= \sum_i w_i \Bigl[\log \sum_k e^{g(z_{ik})} - g(z_{iy_i})\Bigr] \\
              \nabla \ell &= \sum_i w_i \bigl[\bar\phi_i - \phi(z_{iy_i})\bigr] \\
              \nabla^2 \ell &= \sum_i w_i \Bigl[\sum_k q_{ik}\, \phi(z_{ik}) \phi(z_{ik})^\top
                               - \bar\phi_i \bar\phi_i^\top\Bigr],

    the last a sum of covariances, so the function is convex.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
    labels : ndarray of shape (n,)
        Column of the true class of every row.
    weights : ndarray of shape (n,) or None
        How often each row counts.
    pieces : Pieces
        With knots around all scores.

    Notes
    -----
    On one piece all m features are quadratic in the place of z on it, so the products of features need the
    first five moments of the places on every piece and no more: a pass costs :math:`O(nK + n m^2)` instead
    of :math:`O(n K m^2)`, memory for one block of rows and one byte per entry.
    """

    def __init__(self, scores: FloatArray, labels: IntArray, weights: Vector | None, pieces: Pieces) -> None:
        self._scores, self._labels, self._pieces = scores, labels, pieces
        self._weights = np.ones(len(scores)) if weights is None else weights
        self._features = pieces.features()
        self._n_pieces = len(pieces.knots) + 1
        self._piece = np.empty(scores.shape, dtype=np.min_scalar_type(self._n_pieces))
        with self.open() as in_all_blocks:
            self._of_labels = in_all_blocks(self._locate)

    @property
    def total_weight(self) -> float:
        """Sum of the weights: the number of rows, if every row counts once."""
        return float(self._weights.sum())

    def open(self) -> AbstractContextManager[BlockSums]:
        """Return a context for passes over the rows."""
        return BlockSums.over(len(self._scores), max(self._scores.shape[1], 3 * self._n_pieces))

    def expand(self, slopes: Vector, in_all_blocks: BlockSums) -> ConvexExpansion:
        """Return value, gradient and Hessian at some slopes, by one pass over the rows."""
        coefficients = self._pieces.coefficients(slopes)
        total = in_all_blocks(lambda rows: self._sums(rows, coefficients))
        base, rise, bend = self._features
        zeroth, first, second, third, fourth = total.moments[:, :, np.newaxis]
        crossed = base.T @ (first * rise + second * bend) + rise.T @ (third * bend)
        hessian = base.T @ (zeroth * base) + rise.T @ (second * rise) + bend.T @ (fourth * bend)
        hessian += crossed + crossed.T - total.products
        return ConvexExpansion(total.loss, total.features - self._of_labels, hessian)

    def _locate(self, rows: slice) -> Vector:
        """Note the piece of every entry of a block; return the sum of the features of its labels."""
        self._piece[rows] = self._pieces.locate(self._scores[rows])
        of_label = self._scores[rows][np.arange(len(self._labels[rows])), self._labels[rows]]
        features: Vector = self._weights[rows] @ self._pieces.features_at(of_label.astype(np.float64))
        return features

    def _sums(self, rows: slice, coefficients: tuple[Vector, Vector, Vector]) -> _Sums:
        piece, labels, weights = self._piece[rows].astype(np.intp), self._labels[rows], self._weights[rows]
        place = self._pieces.places(self._scores[rows], piece)
        shares = parabolas(coefficients, piece, place)
        of_label = shares[np.arange(len(labels)), labels]
        losses = softmax_in_place(shares) - of_label
        n_rows, n_pieces = len(labels), self._n_pieces
        cells = (piece + np.arange(0, n_rows * n_pieces, n_pieces)[:, np.newaxis]).ravel()
        expected: Matrix | float = 0.0
        moments = np.empty((5, n_pieces))
        for power, features in enumerate(self._features):
            of_rows = np.bincount(cells, shares.ravel(), n_rows * n_pieces).reshape(n_rows, n_pieces)
            moments[power] = weights @ of_rows
            expected = expected + of_rows @ features
            shares *= place
        shares *= weights[:, np.newaxis]
        for power in (3, 4):
            moments[power] = np.bincount(piece.ravel(), shares.ravel(), n_pieces)
            shares *= place
        weighted = weights[:, np.newaxis] * expected
        return _Sums(float(weights @ losses), moments, weighted.sum(axis=0), weighted.T @ expected)
