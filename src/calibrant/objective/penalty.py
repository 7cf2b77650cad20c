"""Quadratic penalties on the distance of the parameters from a centre."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from calibrant.arrays import Matrix, Vector

__all__ = ["QuadraticPenalty"]


@dataclass(frozen=True)
class QuadraticPenalty:
    r"""Squared distance from a centre, :math:`\sum_j s_j (\theta_j - c_j)^2 + d^\top M d` with :math:`d = (\theta - c)_{1..Q}`.

    No penalty, L2 and ODIR are diagonal. M couples the first Q parameters, for example to penalise differences of
    neighbouring slopes.

    Attributes
    ----------
    strengths : ndarray of shape (P,)
        s.
    center : ndarray of shape (P,)
        c.
    coupling : ndarray of shape (Q, Q)
        M, symmetric and positive semidefinite; (0, 0) for none.

    Examples
    --------
    >>> penalty = QuadraticPenalty(np.array([1.0, 1.0, 3.0]), np.array([1.0, 1.0, 0.0]), np.array([[2.0, -2.0], [-2.0, 2.0]]))
    >>> theta = np.array([1.0, 2.0, 1.0])
    >>> penalty.value(theta)                                                      # 1 + 3 + 2 * 1
    6.0
    >>> penalty.hessian() @ (theta - penalty.center) - penalty.gradient(theta)
    array([0., 0., 0.])
    """

    strengths: Vector
    center: Vector
    coupling: Matrix = field(default_factory=lambda: np.empty((0, 0)))

    @classmethod
    def none(cls, n_parameters: int) -> Self:
        """No penalty at all."""
        return cls(np.zeros(n_parameters), np.zeros(n_parameters))

    def times(self, factor: float) -> Self:
        """Return the penalty multiplied by a number."""
        return replace(self, strengths=self.strengths * factor, coupling=self.coupling * factor)

    def __add__(self, other: Self) -> Self:
        """Return the sum of two penalties around the same centre."""
        size = max(len(self.coupling), len(other.coupling))
        coupling = np.zeros((size, size))
        for part in (self.coupling, other.coupling):
            coupling[: len(part), : len(part)] += part
        return replace(self, strengths=self.strengths + other.strengths, coupling=coupling)

    def value(self, theta: Vector) -> float:
        """Return the penalty at ``theta``."""
        away = theta - self.center
        first = away[: len(self.coupling)]
        return float(self.strengths @ away**2) + float(first @ self.coupling @ first)

    def gradient(self, theta: Vector) -> Vector:
        """Return the derivative at ``theta``."""
        return self.product(theta - self.center)

    def product(self, direction: Vector) -> Vector:
        """Return the Hessian times ``direction``."""
        size = len(self.coupling)
        product: Vector = 2 * self.strengths * direction
        if size:
            product[:size] += 2 * (self.coupling @ direction[:size])
        return product

    @property
    def curvature(self) -> Vector:
        """Diagonal of the Hessian."""
        curvature: Vector = 2 * self.strengths
        curvature[: len(self.coupling)] += 2 * np.diag(self.coupling)
        return curvature

    def hessian(self, size: int | None = None) -> Matrix:
        """Return the Hessian, (P, P), or that of the first ``size`` parameters, which must include the coupled ones."""
        hessian = np.diag(2 * self.strengths[:size])
        coupled = len(self.coupling)
        hessian[:coupled, :coupled] += 2 * self.coupling
        return hessian
