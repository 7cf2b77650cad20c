"""Latent function of a fitted Gaussian process: kernel, scores, moments, and calibrated probabilities."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from calibrant.arrays import Matrix, Vector
from calibrant.errors import ParameterError
from calibrant.graph import TracedPredictions
from calibrant.numerics.interpolated import CubicTable, EvenGrid
from calibrant.numerics.row_blocks import BlockSums, row_blocks
from calibrant.objective.losses import softmax_in_place
from calibrant.options import real_array
from calibrant.predictions import ROW_SUM_TOLERANCE, Predictions
from calibrant.space import Space

__all__ = [
    "LEAST_RANGE",
    "KernelGradient",
    "KernelParameters",
    "LatentMoments",
    "LatentProcess",
    "LatentScores",
    "ScoreKind",
    "WhitenedFeatures",
    "latent_scores",
    "parsed_scores",
    "squared_exponential",
]


ScoreKind = Literal["log-probabilities", "given"]

LEAST_RANGE = 1e-100
"""Scores this close to each other count as equal: squares and inverses of their distances may be no floats any more."""

# Rows of probabilities sum to one within a tolerance, and their logarithms may be above zero by as much.
LARGEST_LOG_PROBABILITY = float(np.log1p(ROW_SUM_TOLERANCE))


class LatentScores(NamedTuple):
    """Arguments of the latent function, (n, K), and its prior mean at them, (n, K): the same array for the identity."""

    places: Any
    prior: Any

    @property
    def prior_is_identity(self) -> bool:
        """Whether the prior mean is the score itself."""
        return self.prior is self.places


def latent_scores(
    predictions: Predictions | TracedPredictions, kind: ScoreKind, factor: float = 1.0
) -> LatentScores:
    """Return log-probabilities, or the scores as they were given, with the prior mean that leaves predictions as they are.

    Log-probabilities and logits are multiplied by ``factor``.

    >>> scores = latent_scores(Predictions.from_probabilities([[0.8, 0.2]]), "given")
    >>> scores.places, scores.prior.round(3)
    (array([[0.8, 0.2]]), array([[-0.223, -1.609]]))
    """
    if kind == "given" and predictions.space is Space.PROBABILITIES:
        return LatentScores(predictions.scores, predictions.log_probabilities)
    scores = predictions.scores if kind == "given" else predictions.log_probabilities
    if factor != 1.0:
        scores = scores * float(factor)
    return LatentScores(scores, scores)


def parsed_scores(name: str, given: Any, kind: ScoreKind) -> NDArray[np.float64]:
    """Return scores at which the latent function is asked for, or say why there can be none of this kind.

    >>> parsed_scores("z", 0.9, "log-probabilities")
    Traceback (most recent call last):
    calibrant.errors.ParameterError: z must be log-probabilities, not above zero, but 0.9 is; pass np.log(p) for probabilities p.
    """
    scores = real_array(given)
    if scores is None or not np.isfinite(scores).all():
        raise ParameterError(f"{name} must be finite numbers, such as log-probabilities, not {given!r}.")
    if kind == "log-probabilities" and (scores > LARGEST_LOG_PROBABILITY).any():
        raise ParameterError(
            f"{name} must be log-probabilities, not above zero, but {scores.max():g} is; "
            "pass np.log(p) for probabilities p."
        )
    return scores


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
