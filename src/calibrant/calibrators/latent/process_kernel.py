"""The kernel of the latent process seen through its inducing points, and how gradients flow back to it."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import solve_triangular

from calibrant.arrays import Matrix, Vector

__all__ = ["KernelGradient", "KernelParameters", "WhitenedFeatures", "squared_exponential"]


# Added to the diagonal between inducing points, in units of the variance: they may come as close as they like.
JITTER = 1e-8


class KernelParameters(NamedTuple):
    """Parameters of a squared exponential with white noise, and the inducing inputs, (M,)."""

    inducing: Vector
    variance: float
    length_scale: float
    noise: float


class KernelGradient(NamedTuple):
    """Derivatives in the logarithms of variance and length scale, and in the noise."""

    log_variance: float
    log_length_scale: float
    noise: float


def squared_exponential(left: Vector, right: Vector, variance: float, length_scale: float) -> Matrix:
    r"""Return :math:`v \exp(-(x - x')^2 / 2 \ell^2)` for all pairs.

    >>> squared_exponential(np.array([0.0]), np.array([0.0, 3.0]), 4.0, 3.0).round(4)
    array([[4.    , 2.4261]])
    """
    apart = (left[:, np.newaxis] - right) / length_scale
    return variance * np.exp(-0.5 * apart * apart)


@dataclass(frozen=True, eq=False)
class WhitenedFeatures:
    r"""Features a(t) of places t: the latent value there is a(t) times whitened inducing variables, and a rest.

    With :math:`K_{uu} = L L^\top` between the inducing points and :math:`k_u(t)` from them to t,

    .. math:: a(t) = L^{-1} k_u(t), \qquad r(t) = k(t, t) - |a(t)|^2 \ge 0.

    White noise belongs to every latent value by itself, to those at inducing points too: it is part of the diagonal of
    :math:`K_{uu}` and of :math:`k(t, t)` but not of :math:`k_u(t)`.

    Attributes
    ----------
    parameters : KernelParameters
    places : ndarray of shape (G,)
    between : ndarray of shape (M, M)
        Kernel between inducing points, without noise.
    cross : ndarray of shape (G, M)
        Kernel between places and inducing points.
    factor : ndarray of shape (M, M)
        L, lower triangular.
    features : ndarray of shape (G, M)
        Rows a(t).
    rest : ndarray of shape (G,)
        r(t): variance that the inducing points do not explain.
    """

    parameters: KernelParameters
    places: Vector
    between: Matrix
    cross: Matrix
    factor: Matrix
    features: Matrix
    rest: Vector

    @classmethod
    def at(cls, places: Vector, parameters: KernelParameters) -> Self:
        """Return the features of these places; O(G M^2)."""
        inducing, variance, length_scale, noise = parameters
        between = squared_exponential(inducing, inducing, variance, length_scale)
        diagonal = (JITTER * variance + noise) * np.eye(len(inducing))
        factor: Matrix = np.linalg.cholesky(between + diagonal).astype(np.float64, copy=False)
        cross = squared_exponential(places, inducing, variance, length_scale)
        features = _solved(factor, cross.T).T
        rest = variance + noise - np.einsum("jm,jm->j", features, features)
        return cls(parameters, places, between, cross, factor, features, np.maximum(rest, 0.0))

    def whitened(self, values: Matrix) -> Matrix:
        """Return whitened inducing variables for values at the inducing points, (M,) or (M, ...)."""
        return _solved(self.factor, values)

    def pulled_back(
        self, of_features: Matrix, of_rest: Vector, of_whitened: Vector, whitened: Vector
    ) -> tuple[Vector, KernelGradient]:
        """Return derivatives in the values at the inducing points and in the parameters of the kernel; O(G M^2).

        Reverse mode, step by step from features, rest and whitened values back to the kernel; through the Cholesky
        factor as in :cite:`murray2016`.

        Parameters
        ----------
        of_features, of_rest : ndarray of shape (G, M) and (G,)
            Derivatives in these.
        of_whitened, whitened : ndarray of shape (M,)
            Derivatives in :meth:`whitened` of the values, and what it returned.
        """
        _, variance, length_scale, _ = self.parameters
        of_features = of_features - 2.0 * of_rest[:, np.newaxis] * self.features
        of_values = _solved_back(self.factor, of_whitened)  # whitened = L^-1 values
        of_cross = _solved_back(self.factor, of_features.T).T  # features = cross L^-T
        of_factor = -np.tril(of_cross.T @ self.features + np.outer(of_values, whitened))
        inner = np.tril(self.factor.T @ of_factor)  # L L^T = between + diagonal
        inner[np.diag_indices_from(inner)] *= 0.5
        half = _solved_back(self.factor, inner + inner.T)
        of_between = 0.5 * _solved_back(self.factor, half.T)

        of_diagonal, of_rest_sum = float(np.trace(of_between)), float(of_rest.sum())
        cross_part, between_part = of_cross * self.cross, of_between * self.between
        inducing = self.parameters.inducing
        apart = (self.places[:, np.newaxis] - inducing) / length_scale
        between_apart = (inducing[:, np.newaxis] - inducing) / length_scale
        gradient = KernelGradient(
            log_variance=float(cross_part.sum() + between_part.sum())
            + variance * (JITTER * of_diagonal + of_rest_sum),
            log_length_scale=float(
                np.einsum("jm,jm,jm->", cross_part, apart, apart)
                + np.einsum("lm,lm,lm->", between_part, between_apart, between_apart)
            ),
            noise=of_diagonal + of_rest_sum,
        )
        return of_values, gradient


def _solved(factor: Matrix, values: Matrix) -> Matrix:
    solved: Matrix = solve_triangular(factor, values, lower=True, check_finite=False)
    return solved


def _solved_back(factor: Matrix, values: Matrix) -> Matrix:
    solved: Matrix = solve_triangular(factor, values, lower=True, trans=1, check_finite=False)
    return solved
