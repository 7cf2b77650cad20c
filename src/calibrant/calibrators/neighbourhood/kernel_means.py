"""KernelMeans: averages in which every calibration point weighs what a kernel gives it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from calibrant.calibrators.neighbourhood.distances import BLOCK_ENTRIES, KullbackLeibler, SquaredEuclidean
from calibrant.calibrators.neighbourhood.local_means import LocalMeans
from calibrant.calibrators.neighbourhood.points import Points
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.threads import in_threads

__all__ = [
    "DirichletAroundPoints",
    "DirichletAroundRows",
    "GaussianBell",
    "KernelMeans",
    "KernelWeights",
]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Squarings in a row: each doubles the relative error, so that these leave thirteen digits.
SQUARINGS = 8

# Factors of points that are further apart than exp of this are put into the exponent: a product of two numbers that
# are each above exp(-708) is then still a number.
WIDEST_FACTORS = 300.0

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


class KernelMeans(LocalMeans):
    """Means of targets (u, K) at points, each weighing its own weight times the kernel.

    Parameters
    ----------
    kernel : KernelWeights
        The kernel, with the points.
    targets : ndarray of shape (u, K)
        What is averaged.
    weights : ndarray of shape (u,)
        Weights of the points.
    sizes : sequence of float
        The sizes for which means will be asked.
    """

    def __init__(
        self, kernel: KernelWeights, targets: Matrix, weights: Vector, sizes: Sequence[float]
    ) -> None:
        self.kernel = kernel
        factors = in_threads(kernel.log_factors, sizes, kernel.points.size)
        self.log_factors = dict(zip(sizes, factors, strict=True))
        # The last column adds up the weights in the same product.
        self.loads = np.column_stack([targets * weights[:, np.newaxis], weights])
        self.block_rows = max(1, BLOCK_ENTRIES // max(len(weights), len(sizes) * self.loads.shape[1]))

    @classmethod
    def among(
        cls, points: Points, targets: Matrix, sizes: Sequence[float], kernel: type[KernelWeights]
    ) -> "KernelMeans":
        """Return means of targets at calibration points by a kernel of some kind."""
        return cls(kernel(points.probabilities.astype(np.float64)), targets, points.weights, sizes)

    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        distances = self.kernel.distances(rows)
        nearest = distances.min(axis=1, keepdims=True)
        # Weights are relative to that of the nearest point, which is then never zero; a row that is infinitely far
        # from all points has no neighbour.
        distances -= np.where(np.isfinite(nearest), nearest, 0.0)
        rates = [self.kernel.rate(size) for size in sizes]
        found: dict[int, Matrix] = {}
        for number, weights in _powers(distances, rates):
            factors = self.log_factors[sizes[number]]
            if factors is not None:
                weights = _multiplied(weights, factors, distances, rates[number])
            sums = weights @ self.loads
            with np.errstate(invalid="ignore"):
                found[number] = sums[:, :-1] / sums[:, -1:]
        return (found[number] for number in range(len(sizes)))


def _stirling_gaps(points: Matrix, size: float) -> Matrix:
    """Return x ln x - x - ln Gamma(x + 1) for x = points / size, without loss of digits where x is large."""
    with np.errstate(over="ignore"):
        x = np.minimum(points / size, LARGEST)
    far = x > STIRLING
    large, near = x[far], np.where(far, 0.0, x)
    gaps: Matrix = xlogy(near, near) - near - gammaln(near + 1)
    gaps[far] = -0.5 * (np.log(2 * np.pi) + np.log(large)) - 1 / 12 / large
    return gaps


def _powers(distances: Matrix, rates: Sequence[float]) -> Iterator[tuple[int, Matrix]]:
    """Yield the number of every rate and exp(-rate d), from the lowest rate to the highest; the array is used again.

    A rate that is twice the one before squares its exponentials, which costs a tenth of new ones.
    """
    order = np.argsort(rates, kind="stable").tolist()
    weights = np.empty_like(distances)
    before, squarings = np.nan, SQUARINGS
    for number in order:
        rate = rates[number]
        with np.errstate(under="ignore", over="ignore"):
            if rate == 2 * before and squarings < SQUARINGS:
                np.multiply(weights, weights, out=weights)
                squarings += 1
            else:
                np.multiply(distances, -rate, out=weights)
                np.exp(weights, out=weights)
                squarings = 0
        before = rate
        yield number, weights


def _multiplied(weights: Matrix, log_factors: Vector, distances: Matrix, rate: float) -> Matrix:
    """Return weights exp(-rate d) times the factors of points, up to a constant for every row."""
    highest = log_factors.max()
    if highest - log_factors.min() <= WIDEST_FACTORS:
        multiplied: Matrix = weights * np.exp(log_factors - highest)
        return multiplied
    with np.errstate(over="ignore"):
        exponents = log_factors - rate * distances
    highest_of_rows = exponents.max(axis=1, keepdims=True)
    exponents -= np.where(np.isfinite(highest_of_rows), highest_of_rows, 0.0)
    return np.exp(exponents, out=exponents)
