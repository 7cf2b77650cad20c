"""Latent values and calibrated probabilities from a fitted latent process."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibrant.arrays import Matrix, Vector
from calibrant.calibrators.latent.process_kernel import (
    KernelParameters,
    WhitenedFeatures,
    squared_exponential,
)
from calibrant.calibrators.latent.process_scores import LatentScores
from calibrant.numerics.interpolated import CubicTable, EvenGrid
from calibrant.numerics.row_blocks import BlockSums, row_blocks
from calibrant.objective.losses import softmax_in_place

__all__ = ["LatentMoments", "LatentProcess"]


# Beyond this many length scales from all inducing points the process is at its prior: exp(-50) is left of it.
REACH = 10.0

# Nodes per length scale of a table: cubics are then good to 3e-10 of the deviation of the kernel.
NODES_PER_LENGTH = 128

# What a draw of a latent value counts when rows are parted into blocks.
BYTES_PER_DRAW = 2


class LatentMoments(NamedTuple):
    """Mean and standard deviation of the latent function."""

    mean: Vector
    standard_deviation: Vector


@dataclass(frozen=True, eq=False)
class LatentProcess:
    r"""Posterior of the latent function, less the prior mean: a Gaussian process given by q of its inducing variables.

    Attributes
    ----------
    parameters : KernelParameters
    mean : ndarray of shape (M,)
        Mean of the whitened inducing variables.
    factor : ndarray of shape (M, M)
        Lower triangular, times its transpose their covariance.
    """

    parameters: KernelParameters
    mean: Vector
    factor: Matrix

    def moments(self, places: Vector, reference: float | None = None) -> LatentMoments:
        """Return mean above the prior mean and standard deviation, noise included, at every place; O(M^2) each.

        With a reference, those of the difference from the value there.
        """
        flat = np.ravel(places)
        mean, variance = np.empty(len(flat)), np.empty(len(flat))
        origin = None
        if reference is not None:
            origin = WhitenedFeatures.at(np.array([reference]), self.parameters)
        _, kernel_variance, length_scale, _ = self.parameters
        for part in row_blocks(len(flat), len(self.mean)):
            at = WhitenedFeatures.at(flat[part], self.parameters)
            features, rest = at.features, at.rest
            if origin is not None:
                shared = squared_exponential(flat[part], origin.places, kernel_variance, length_scale)
                shared -= features @ origin.features.T
                features = features - origin.features
                rest = np.maximum(rest + origin.rest - 2.0 * shared[:, 0], 0.0)
            spread = features @ self.factor
            mean[part] = features @ self.mean
            variance[part] = rest + np.einsum("jm,jm->j", spread, spread)
        return LatentMoments(mean.reshape(np.shape(places)), np.sqrt(variance).reshape(np.shape(places)))

    def table(self) -> CubicTable:
        """Return the mean above the prior mean as a table, zero where it is out of reach."""
        inducing, _, length_scale, _ = self.parameters
        low, high = inducing.min() - REACH * length_scale, inducing.max() + REACH * length_scale
        n_nodes = int(np.ceil((high - low) / length_scale * NODES_PER_LENGTH)) + 4
        grid = EvenGrid.around(float(low), float(high), n_nodes)
        values = self.moments(grid.nodes).mean
        # Beyond the grid a table keeps its last value.
        values[[0, -1]] = 0.0
        return CubicTable(grid, values)

    def mean_softmax(
        self, scores: LatentScores, *, full: bool, n_draws: int, generator: np.random.Generator
    ) -> Matrix:
        """Return the softmax of drawn latent values, averaged over draws, (n, K).

        The numbers drawn are the same for all rows: a row is mapped alike wherever it stands. With ``full`` each draw is
        one function for all classes of a row, and the rest that inducing points do not explain is drawn for each
        class; without, all is drawn for each class. Every second draw mirrors the one before, which cancels errors
        of odd order. O(n_draws nK) time, memory for the result and a block.
        """
        n_rows, n_classes = scores.prior.shape
        own = _mirrored(generator, n_draws, n_classes).T  # (K, draws)
        shared = self.factor @ _mirrored(generator, n_draws, len(self.mean)).T  # (M, draws)
        averages = np.empty((n_rows, n_classes))

        def fill(rows: slice) -> int:
            places = scores.places[rows].astype(np.float64)
            at = WhitenedFeatures.at(places.ravel(), self.parameters)
            mean = (scores.prior[rows].ravel() + at.features @ self.mean)[:, np.newaxis]
            if full:
                draws = mean + at.features @ shared
                variance = at.rest
            else:
                draws = np.repeat(mean, n_draws, axis=1)
                spread = at.features @ self.factor
                variance = at.rest + np.einsum("jm,jm->j", spread, spread)
            draws = draws.reshape(len(places), n_classes, n_draws)
            draws += np.sqrt(variance).reshape(len(places), n_classes, 1) * own
            by_draw = np.ascontiguousarray(draws.transpose(0, 2, 1)).reshape(-1, n_classes)
            softmax_in_place(by_draw)
            averages[rows] = by_draw.reshape(len(places), n_draws, n_classes).mean(axis=1)
            return 1

        with BlockSums.over(n_rows, n_classes * n_draws, BYTES_PER_DRAW) as in_all_blocks:
            in_all_blocks(fill)
        return averages


def _mirrored(generator: np.random.Generator, n_draws: int, width: int) -> Matrix:
    """Return standard normal draws, (n_draws, width), each second one with the opposite sign of the one before."""
    halves = generator.standard_normal(((n_draws + 1) // 2, width))
    both = np.stack([halves, -halves], axis=1).reshape(-1, width)
    return both[:n_draws]
