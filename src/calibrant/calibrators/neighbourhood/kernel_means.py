"""KernelMeans: averages in which every calibration point weighs what a kernel gives it."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.neighbourhood.distances import BLOCK_ENTRIES
from calibrant.calibrators.neighbourhood.kernel_weights import KernelWeights
from calibrant.calibrators.neighbourhood.local_means import LocalMeans
from calibrant.calibrators.neighbourhood.points import Points
from calibrant.numerics.threads import in_threads

__all__ = ["KernelMeans"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Squarings in a row: each doubles the relative error, so that these leave thirteen digits.
SQUARINGS = 8

# Factors of points that are further apart than exp of this are put into the exponent: a product of two numbers that
# are each above exp(-708) is then still a number.
WIDEST_FACTORS = 300.0


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
        self._kernel = kernel
        factors = in_threads(kernel.log_factors, sizes, kernel.points.size)
        self._log_factors = dict(zip(sizes, factors, strict=True))
        # The last column adds up the weights in the same product.
        self._loads = np.column_stack([targets * weights[:, np.newaxis], weights])
        self.numbers_per_row = len(weights)
        self.block_rows = max(1, BLOCK_ENTRIES // max(len(weights), len(sizes) * self._loads.shape[1]))

    @classmethod
    def among(
        cls, points: Points, targets: Matrix, sizes: Sequence[float], kernel: type[KernelWeights]
    ) -> "KernelMeans":
        """Return means of targets at calibration points by a kernel of some kind."""
        return cls(kernel(points.probabilities.astype(np.float64)), targets, points.weights, sizes)

    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        distances = self._kernel.distances(rows)
        nearest = distances.min(axis=1, keepdims=True)
        # Weights are relative to that of the nearest point, which is then never zero; a row that is infinitely far
        # from all points has no neighbour.
        distances -= np.where(np.isfinite(nearest), nearest, 0.0)
        rates = [self._kernel.rate(size) for size in sizes]
        found: dict[int, Matrix] = {}
        for number, weights in _powers(distances, rates):
            factors = self._log_factors[sizes[number]]
            if factors is not None:
                weights = _multiplied(weights, factors, distances, rates[number])
            sums = weights @ self._loads
            with np.errstate(invalid="ignore"):
                found[number] = sums[:, :-1] / sums[:, -1:]
        return (found[number] for number in range(len(sizes)))


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
