"""Curvature: affordable approximations of the Hessian that precondition conjugate gradients."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.linalg.lapack import dpotrf, dpotrs

from calibrant.arrays import FloatArray, Vector
from calibrant.numerics.reductions import column_sums, row_sums
from calibrant.objective.maps import DiagonalMap, FullMap, LogitMap
from calibrant.objective.penalty import QuadraticPenalty

__all__ = [
    "ByClassCurvature",
    "Curvature",
    "DenseCurvature",
    "KroneckerCurvature",
    "curvature_type",
    "dense_solver",
]

Solver = Callable[[Vector], Vector]

# Up to this many parameters the Hessian of a few thousand rows is formed and factorised in milliseconds.
DENSE_PARAMETERS = 600

# Share of the mean curvature that is added where the softmax leaves a direction flat.
RIDGE = 1e-9


class Curvature(ABC):
    """Sums over rows that approximate the Hessian of the cross-entropy; those of two sets of rows add up.

    After :meth:`averaged`, ``solver(penalty)`` returns a symmetric positive definite approximate inverse. It is never
    part of the answer, only of the way to it.
    """

    @staticmethod
    def work_per_row(logit_map: LogitMap) -> int:  # noqa: ARG004
        """Return about how many multiplications a row takes; 0 where all rows are always affordable."""
        return 0

    def __init__(self, sums: list[FloatArray]) -> None:
        self.sums = sums

    def __add__(self, other: Self) -> Self:
        return type(self)([mine + theirs for mine, theirs in zip(self.sums, other.sums, strict=True)])

    def averaged(self, total_weight: float) -> Self:
        """Return the curvature of the mean loss from that of the sum."""
        return type(self)([part.astype(np.float64) / total_weight for part in self.sums])

    @classmethod
    @abstractmethod
    def of_block(
        cls, logit_map: LogitMap, probabilities: FloatArray, weighted: FloatArray, features: FloatArray
    ) -> Self:
        """Return the sums for one block of rows; ``weighted`` is probabilities times row weight."""

    @abstractmethod
    def solver(self, penalty: QuadraticPenalty) -> Solver:
        """Return the approximate inverse of the curvature of mean loss plus penalty."""


class DenseCurvature(Curvature):
    """The complete Fisher matrix, factorised; for cross-entropy this is Newton's method."""

    @classmethod
    def of_block(
        cls, logit_map: LogitMap, probabilities: FloatArray, weighted: FloatArray, features: FloatArray
    ) -> Self:
        return cls([logit_map.fisher(probabilities, weighted, features)])

    def solver(self, penalty: QuadraticPenalty) -> Solver:
        (matrix,) = self.sums
        ridge = RIDGE * (np.trace(matrix) / len(matrix) + 1e-300)
        return dense_solver(matrix + penalty.hessian(), float(ridge))


class KroneckerCurvature(Curvature):
    r"""For the full map: independent classes and features off the diagonal, exact on the diagonal of W.

    The off-diagonal weights and intercepts are treated as if
    :math:`\sum_i (\mathrm{diag}(p_i) - p_ip_i^\top) \otimes x_ix_i^\top` were
    the product of the two averages S and C, where rows count by how uncertain they are; with a penalty that
    depends on the feature only, the inverse is two eigenvalue problems of size K. The K diagonal weights,
    which ODIR leaves free, have a K x K Hessian of their own. Costs O(nK^2 + K^3).
    """

    @classmethod
    def of_block(
        cls, logit_map: LogitMap, probabilities: FloatArray, weighted: FloatArray, features: FloatArray
    ) -> Self:
        between_classes = np.diag(column_sums(weighted)) - probabilities.T @ weighted
        moments = weighted * features
        diagonal_weights = np.diag(np.einsum("ik,ik->k", moments, features))
        diagonal_weights -= (probabilities * features).T @ moments
        uncertain = row_sums(weighted) - np.einsum("ik,ik->i", weighted, probabilities)
        if logit_map.bias:
            features = np.hstack([features, np.ones((len(features), 1), features.dtype)])
        between_features = (features * uncertain[:, np.newaxis]).T @ features
        return cls([between_classes, between_features, diagonal_weights, np.array([uncertain.sum()])])

    def solver(self, penalty: QuadraticPenalty) -> Solver:
        classes, features, diagonal_weights, uncertain = self.sums
        n_classes = len(classes)
        penalties = penalty.curvature.reshape(n_classes, -1)
        features = features / max(float(uncertain[0]), np.finfo(np.float64).tiny)
        flat = RIDGE * (np.trace(classes) / n_classes + 1e-30) * (np.diag(features) + 1e-30)
        scale = np.sqrt(np.median(penalties, axis=0) + flat)
        feature_values, feature_vectors = eigh(features / np.outer(scale, scale), check_finite=False)
        class_values, class_vectors = eigh(classes, check_finite=False)
        divisor = 1 + np.outer(np.maximum(class_values, 0), np.maximum(feature_values, 0))

        each = np.arange(n_classes)
        own_curvature = diagonal_weights.copy()
        # Single precision leaves noise of this size, which must not make the matrix indefinite.
        own_curvature[each, each] += (
            penalties[each, each]
            + 1e-6 * np.diag(diagonal_weights)
            + RIDGE * np.trace(diagonal_weights)
            + 1e-30
        )
        factor = cho_factor(own_curvature, check_finite=False)

        def solve(residual: Vector) -> Vector:
            matrix = residual.reshape(n_classes, -1).copy()
            own = matrix[each, each]
            matrix[each, each] = 0
            rotated = class_vectors.T @ (matrix / scale) @ feature_vectors
            rotated /= divisor
            step = (class_vectors @ rotated @ feature_vectors.T) / scale
            step[each, each] = cho_solve(factor, own, check_finite=False)
            flat_step: Vector = step.ravel()
            return flat_step

        return solve


class ByClassCurvature(Curvature):
    """For scalar and diagonal maps: the curvature of each class on its own, O(nK)."""

    @classmethod
    def of_block(
        cls, logit_map: LogitMap, probabilities: FloatArray, weighted: FloatArray, features: FloatArray
    ) -> Self:
        spread = weighted - weighted * probabilities
        moments = spread * features
        squares = np.einsum("ik,ik->k", moments, features)
        if not isinstance(logit_map, DiagonalMap):
            squares = np.array([squares.sum()])
        sums = [squares, column_sums(spread)] if logit_map.bias else [squares]
        return cls(sums)

    def solver(self, penalty: QuadraticPenalty) -> Solver:
        diagonal = np.concatenate(self.sums)
        diagonal = diagonal + penalty.curvature + RIDGE * diagonal.mean() + 1e-300
        return lambda residual: residual / diagonal


def curvature_type(logit_map: LogitMap) -> type[Curvature]:
    """Return the best affordable curvature for a map."""
    if logit_map.curvature_type is not None:
        return logit_map.curvature_type
    if logit_map.n_parameters <= DENSE_PARAMETERS:
        return DenseCurvature
    return KroneckerCurvature if isinstance(logit_map, FullMap) else ByClassCurvature


def dense_solver(matrix: NDArray[np.float64], ridge: float | None = None) -> Solver:
    """Return the inverse of a symmetric matrix and a ridge, which grows until they are positive definite; in place.

    Without a given ridge it is a small part of the mean curvature.
    """
    if len(matrix) == 0:
        return lambda residual: residual
    diagonal = np.einsum("ii->i", matrix)  # a view
    least = RIDGE * (float(np.abs(diagonal).mean()) + 1e-300)
    ridge = least if ridge is None else ridge
    while True:
        diagonal += ridge
        # LAPACK itself: for a dozen parameters, the checks of scipy.linalg take several times as long.
        factor, failed_at = dpotrf(matrix.T, clean=False)
        if failed_at == 0:
            return lambda residual: dpotrs(factor, residual)[0]
        # Rounding made a flat direction negative: lift all of them until it is not.
        ridge = max(100 * ridge, least)
