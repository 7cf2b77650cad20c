"""Kernels as weights of calibration points: exponentials of distances, up to constants that cancel in means."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from calibrant.calibrators.neighbourhood.distances import KullbackLeibler, SquaredEuclidean
from calibrant.numerics.row_blocks import row_blocks

__all__ = ["DirichletAroundPoints", "DirichletAroundRows", "GaussianBell", "KernelWeights"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

LARGEST = float(np.finfo(np.float64).max)

# From here on Stirling's series has twelve digits, while the difference of its two sides loses them.
STIRLING = 1e3


@dataclass(frozen=True, eq=False)
class KernelWeights(ABC):
    r"""A kernel of the form :math:`c_i(s) \, e^{-r(s) \, d(p, p_i)}`, with a rate r and factors c that its size s decides.

    Factors that are the same for all points cancel in means and are left out.
    """

    points: Matrix

    @abstractmethod
    def distances(self, rows: Matrix) -> Matrix:
        """Return d of every row to every point, (m, u), as a new array; infinite where the kernel is zero."""

    @abstractmethod
    def rate(self, size: float) -> float:
        """Return what the distance is multiplied by."""

    def log_factors(self, size: float) -> Vector | None:  # noqa: ARG002 (most kernels have none)
        """Return the logarithm of c for every point, (u,), or None where all are one."""
        return None


@dataclass(frozen=True, eq=False)
class GaussianBell(KernelWeights):
    r""":math:`\exp(-\gamma \|p - p_i\|_2^2)`; the size is :math:`\gamma`."""

    @cached_property
    def _squares(self) -> SquaredEuclidean:
        return SquaredEuclidean(self.points)

    def distances(self, rows: Matrix) -> Matrix:
        return self._squares.of(rows)

    def rate(self, size: float) -> float:
        return size


@dataclass(frozen=True, eq=False)
class DirichletAroundRows(KernelWeights):
    r"""Density at the point of a Dirichlet distribution around the row, :math:`\alpha = p / h + 1`; the size is h.

    Its normalising constant belongs to the row and cancels, so does the row's entropy; what is left is
    :math:`\exp(-\mathrm{KL}(p \,\|\, p_i) / h)`.
    """

    @cached_property
    def _divergence(self) -> KullbackLeibler:
        return KullbackLeibler(self.points)

    def distances(self, rows: Matrix) -> Matrix:
        return self._divergence.ordering(rows)

    def rate(self, size: float) -> float:
        return min(1 / size, LARGEST)


@dataclass(frozen=True, eq=False)
class DirichletAroundPoints(KernelWeights):
    r"""Density at the row of a Dirichlet distribution around the point, :math:`\alpha = p_i / h + 1`; the size is h.

    That is :math:`\exp(-\mathrm{KL}(p_i \,\|\, p) / h)` times a factor of the point, large in the corners of the simplex
    and small inside.
    """

    def distances(self, rows: Matrix) -> Matrix:
        return KullbackLeibler(rows).ordering(self.points).T

    def rate(self, size: float) -> float:
        return min(1 / size, LARGEST)

    def log_factors(self, size: float) -> Vector:
        r"""Return :math:`\sum_k (x_k \ln x_k - x_k - \ln \Gamma(x_k + 1))` with :math:`x = p_i / h`."""
        blocks = row_blocks(*self.points.shape)
        return np.concatenate([_stirling_gaps(self.points[rows], size).sum(axis=1) for rows in blocks])


def _stirling_gaps(points: Matrix, size: float) -> Matrix:
    """Return x ln x - x - ln Gamma(x + 1) for x = points / size, without loss of digits where x is large."""
    with np.errstate(over="ignore"):
        x = np.minimum(points / size, LARGEST)
    far = x > STIRLING
    large, near = x[far], np.where(far, 0.0, x)
    gaps: Matrix = xlogy(near, near) - near - gammaln(near + 1)
    gaps[far] = -0.5 * (np.log(2 * np.pi) + np.log(large)) - 1 / 12 / large
    return gaps
