"""Penalties: a price for leaving a centre, separate for every parameter."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["QuadraticPenalty"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class QuadraticPenalty:
    r"""Weighted squared distance, :math:`\sum_j s_j (\theta_j - c_j)^2`.

    No penalty, L2 and ODIR are the same formula with other strengths s and centre c, so gradient and
    Hessian are written once.
    """

    strengths: Vector
    center: Vector

    @classmethod
    def none(cls, n_parameters: int) -> Self:
        """No penalty at all."""
        return cls(np.zeros(n_parameters), np.zeros(n_parameters))

    def value(self, theta: Vector) -> float:
        """Return the price of ``theta``."""
        return float(self.strengths @ (theta - self.center) ** 2)

    def gradient(self, theta: Vector) -> Vector:
        """Return the derivative at ``theta``."""
        gradient: Vector = 2 * self.strengths * (theta - self.center)
        return gradient

    @property
    def curvature(self) -> Vector:
        """Diagonal of the (diagonal) Hessian."""
        return 2 * self.strengths

    def hessian(self, size: int | None = None) -> NDArray[np.float64]:
        """Return the Hessian, (P, P), or that of the first ``size`` parameters."""
        return np.diag(self.curvature[:size])
