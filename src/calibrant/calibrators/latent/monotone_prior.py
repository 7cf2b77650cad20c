"""The prior of a monotone process: what a Gaussian process says about its slopes at knots."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from calibrant.objective import ConvexExpansion

__all__ = ["SlopePrior"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Variance of independent noise in the slopes, as a share of their variance: neighbouring slopes of so smooth a
# process are equal to many digits, and their covariance is singular as far as floats can tell.
NOISE = 1e-6


@dataclass(frozen=True, eq=False)
class SlopePrior:
    r"""Slopes of :math:`g \sim \mathrm{GP}(z, k)` at knots, with :math:`k(z, z') = v\, e^{-(z - z')^2 / 2 \ell^2}`.

    Derivatives of a Gaussian process are Gaussian: with :math:`d = t_i - t_j`,

    .. math:: \mathrm{E}\, g'(t_i) = 1, \qquad \mathrm{Cov}\bigl(g'(t_i), g'(t_j)\bigr)
              = \frac{v}{\ell^2}\Bigl(1 - \frac{d^2}{\ell^2}\Bigr) e^{-d^2 / 2\ell^2}, \qquad
              \mathrm{Cov}\bigl(g'(t_i), g(z)\bigr) = -\frac{v\,(t_i - z)}{\ell^2} e^{-(t_i - z)^2 / 2\ell^2}.

    Attributes
    ----------
    knots : ndarray of shape (m,)
    variance, length_scale : float
        :math:`v` and :math:`\ell` of the kernel.
    """

    knots: Vector
    variance: float
    length_scale: float

    def covariance(self) -> Matrix:
        """Return the covariance of the slopes, (m, m), with a little noise of their own on the diagonal."""
        squares = ((self.knots[:, np.newaxis] - self.knots) / self.length_scale) ** 2
        covariance: Matrix = (self.variance / self.length_scale**2) * (1 - squares) * np.exp(-squares / 2)
        covariance[np.diag_indices_from(covariance)] *= 1 + NOISE
        return covariance

    @cached_property
    def precision(self) -> Matrix:
        """Inverse of the covariance, exactly symmetric."""
        inverse = self._solve(np.eye(len(self.knots)))
        return (inverse + inverse.T) / 2

    def penalty(self, slopes: Vector) -> float:
        r"""Return :math:`\tfrac12 (\xi - 1)^\top \Gamma^{-1} (\xi - 1)`, the prior's negative log-density."""
        away = slopes - 1.0
        return float(away @ self.precision @ away) / 2

    def added_to(self, data: ConvexExpansion, slopes: Vector) -> ConvexExpansion:
        """Return the expansion of the negative log-posterior, given that of the negative log-likelihood."""
        away = slopes - 1.0
        pull = self.precision @ away
        return ConvexExpansion(
            data.value + float(away @ pull) / 2, data.gradient + pull, data.hessian + self.precision
        )

    def level(self, place: float) -> tuple[Vector, float]:
        r"""Return how the value at a place depends on the slopes: weights :math:`a` (m,) and the variance left.

        Given the slopes, :math:`g(z)` is normal with mean :math:`z + a^\top(\xi - 1)`. Labels depend on differences
        of g only, so this is all that they tell about its level.
        """
        distances = (self.knots - place) / self.length_scale
        joint = -(self.variance / self.length_scale) * distances * np.exp(-(distances**2) / 2)
        weights = self._solve(joint)
        return weights, max(0.0, self.variance - float(joint @ weights))

    def _solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        solved: NDArray[np.float64] = cho_solve(cho_factor(self.covariance(), lower=True), right)
        return solved
