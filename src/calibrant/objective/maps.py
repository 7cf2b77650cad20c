"""Logit maps: linear in their parameters, so that one pair forward / adjoint gives all derivatives."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.reductions import column_sums, row_sums

__all__ = ["DiagonalMap", "FullMap", "LogitMap", "ScalarMap"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]


class LogitMap(ABC):
    """Scores u(theta; x) for K classes from K features x, linear in theta.

    Parameters
    ----------
    n_classes : int
    bias : bool
        Whether every class has an intercept.
    """

    def __init__(self, n_classes: int, bias: bool) -> None:
        self.n_classes = n_classes
        self.bias = bias

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Length of theta."""

    @abstractmethod
    def identity(self) -> Vector:
        """Return the theta that gives u = x."""

    @abstractmethod
    def forward(self, theta: FloatArray, features: FloatArray) -> FloatArray:
        """Return u, (n, K), as a new array in the float type of ``features``."""

    @abstractmethod
    def adjoint(self, cotangent: FloatArray, features: FloatArray) -> Vector:
        """Return the sum over rows of the transposed Jacobian times ``cotangent`` (n, K)."""

    @abstractmethod
    def fisher(self, probabilities: FloatArray, weighted: FloatArray, features: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_i w_i J_i^\top (\mathrm{diag}(p_i) - p_i p_i^\top) J_i`, (P, P).

        Here J is the Jacobian of u in theta, and ``weighted`` is :math:`w_i p_i`.

        This is the Hessian of the cross-entropy; costs O(n P^2) in matrix products.
        """


class ScalarMap(LogitMap):
    r""":math:`u = \beta x + b`, with :math:`\theta = (\beta, b_1, \dots, b_K)`; without ``bias`` no b."""

    @property
    def n_parameters(self) -> int:
        return 1 + self.bias * self.n_classes

    def identity(self) -> Vector:
        return np.concatenate([[1.0], np.zeros(self.bias * self.n_classes)])

    def forward(self, theta: FloatArray, features: FloatArray) -> FloatArray:
        scores: FloatArray = theta[0].astype(features.dtype) * features
        if self.bias:
            scores += theta[1:].astype(features.dtype)
        return scores

    def adjoint(self, cotangent: FloatArray, features: FloatArray) -> Vector:
        slope = np.einsum("ik,ik->", cotangent, features)
        if not self.bias:
            return np.array([slope], dtype=np.float64)
        return np.concatenate([[slope], column_sums(cotangent)]).astype(np.float64)

    def fisher(self, probabilities: FloatArray, weighted: FloatArray, features: FloatArray) -> FloatArray:
        moments = weighted * features
        mean = np.einsum("ik,ik->i", probabilities, features)
        slope = np.einsum("ik,ik->", moments, features) - mean @ row_sums(moments)
        if not self.bias:
            return np.array([[slope]])
        mixed = column_sums(moments) - mean @ weighted
        intercepts = np.diag(column_sums(weighted)) - probabilities.T @ weighted
        return np.block([[np.array([[slope]]), mixed[np.newaxis]], [mixed[:, np.newaxis], intercepts]])


class DiagonalMap(LogitMap):
    r""":math:`u_k = w_k x_k + b_k`, with :math:`\theta = (w_1, \dots, w_K, b_1, \dots, b_K)`; without ``bias`` no b."""

    @property
    def n_parameters(self) -> int:
        return (1 + self.bias) * self.n_classes

    def identity(self) -> Vector:
        return np.concatenate([np.ones(self.n_classes), np.zeros(self.bias * self.n_classes)])

    def forward(self, theta: FloatArray, features: FloatArray) -> FloatArray:
        scores = features * theta[: self.n_classes].astype(features.dtype)
        if self.bias:
            scores += theta[self.n_classes :].astype(features.dtype)
        return scores

    def adjoint(self, cotangent: FloatArray, features: FloatArray) -> Vector:
        slopes: FloatArray = np.einsum("ik,ik->k", cotangent, features)
        if not self.bias:
            return slopes.astype(np.float64)
        return np.concatenate([slopes, column_sums(cotangent)]).astype(np.float64)

    def fisher(self, probabilities: FloatArray, weighted: FloatArray, features: FloatArray) -> FloatArray:
        moments = weighted * features
        outer, weighted_outer = probabilities * features, moments
        if self.bias:
            outer, weighted_outer = np.hstack([outer, probabilities]), np.hstack([moments, weighted])
        fisher: FloatArray = -(outer.T @ weighted_outer)
        slopes = np.arange(self.n_classes)
        fisher[slopes, slopes] += np.einsum("ik,ik->k", moments, features)
        if self.bias:
            intercepts = slopes + self.n_classes
            fisher[intercepts, intercepts] += column_sums(weighted)
            mixed = column_sums(moments)
            fisher[slopes, intercepts] += mixed
            fisher[intercepts, slopes] += mixed
        return fisher


class FullMap(LogitMap):
    r""":math:`u = W x + b`; :math:`\theta` is the matrix [W | b], (K, K + 1), row by row; without ``bias`` no b."""

    @property
    def n_parameters(self) -> int:
        return self.n_classes * (self.n_classes + self.bias)

    def matrix(self, theta: FloatArray) -> FloatArray:
        """Return theta as the matrix [W | b]."""
        return theta.reshape(self.n_classes, self.n_classes + self.bias)

    def identity(self) -> Vector:
        return np.eye(self.n_classes, self.n_classes + self.bias).ravel()

    def forward(self, theta: FloatArray, features: FloatArray) -> FloatArray:
        matrix = self.matrix(theta).astype(features.dtype)
        scores: FloatArray = features @ matrix[:, : self.n_classes].T
        if self.bias:
            scores += matrix[:, self.n_classes]
        return scores

    def adjoint(self, cotangent: FloatArray, features: FloatArray) -> Vector:
        gradient = np.empty((self.n_classes, self.n_classes + self.bias))
        gradient[:, : self.n_classes] = cotangent.T @ features
        if self.bias:
            gradient[:, self.n_classes] = column_sums(cotangent)
        return gradient.ravel()

    def fisher(self, probabilities: FloatArray, weighted: FloatArray, features: FloatArray) -> FloatArray:
        if self.bias:
            features = np.hstack([features, np.ones((len(features), 1), features.dtype)])
        n_rows, n_features = features.shape
        n_classes = self.n_classes
        products = (probabilities[:, :, np.newaxis] * features[:, np.newaxis]).reshape(n_rows, -1)
        weighted_products = (weighted[:, :, np.newaxis] * features[:, np.newaxis]).reshape(n_rows, -1)
        fisher: FloatArray = -(products.T @ weighted_products)
        own = (weighted_products.T @ features).reshape(n_classes, n_features, n_features)
        blocks = fisher.reshape(n_classes, n_features, n_classes, n_features)
        each = np.arange(n_classes)
        blocks[each, :, each, :] += own
        return fisher
