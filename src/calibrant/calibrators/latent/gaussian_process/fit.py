"""Fit of the latent Gaussian process by maximising the variational bound."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.calibrators.latent.gaussian_process.latent_function import (
    LEAST_RANGE,
    KernelParameters,
    LatentScores,
    WhitenedFeatures,
    squared_exponential,
)
from calibrant.calibrators.latent.gaussian_process.variational import (
    Bound,
    NormalPrior,
    SpreadRows,
    VariationalBound,
    score_range,
)
from calibrant.numerics.interpolated import EvenGrid
from calibrant.solvers import LocalMinimum, Status, quasi_newton

__all__ = [
    "MOST_INDUCING",
    "ProcessFit",
    "ProcessUpdate",
    "averaged_covariance",
    "bound_of_rows",
    "fit_process",
    "placed_inducing_points",
    "update_process",
]


MOST_STEPS = 40
TOLERANCE = 1e-4  # of the logarithms of precisions

# Largest logarithm of the factor by which exp(g) is raised: more, and nothing else would be seen beside it.
MOST_RAISED = 30.0


def averaged_covariance(
    bound: VariationalBound,
    parameters: KernelParameters,
    mean: Vector,
    covariance: Matrix,
    earlier: Matrix | None = None,
) -> Matrix:
    r"""Return S that satisfies :math:`S^{-1} = I + E_q[B]` at this mean, to leading order.

    The normal distribution that is nearest to the posterior has the inverse covariance I + E[B], with the curvature B of
    the log-likelihood averaged over that distribution :cite:`opper2009`. An expansion to second order takes B at the mean
    instead, and is blind to what happens where the softmax nearly vanishes: scores far below the largest of
    their row seem to say nothing, and draws of g may rise there as they like. But if g did rise, labels would
    contradict. With :math:`E e^{g(z)} = e^{\varphi(z) + v(z) / 2}`, v the variance of g(z) relative to the level of g, B is
    taken at :math:`\varphi + v / 2` here, with v from S itself. Where deviations are small this changes nothing.

    Solved by steps on the logarithm of the precision, shortened when they begin to go back and forth.

    Parameters
    ----------
    bound : VariationalBound
    parameters : KernelParameters
    mean : ndarray of shape (M,)
        Of the whitened inducing variables.
    covariance : ndarray of shape (M, M)
        Where to start: the one with the curvature at the mean.
    earlier : ndarray of shape (M, M), optional
        Precision given earlier rows, instead of the I of the prior.
    """
    precision = np.eye(len(mean)) if earlier is None else earlier
    kernel = WhitenedFeatures.at(bound.nodes, parameters)
    features = kernel.features
    function = features @ mean
    relative = features
    if bound.full:
        # Latent values of a row share their level, which the softmax does not see: that of the classes it favours.
        shares = bound.shares(function)
        relative = features - (shares @ features) / shares.sum()
    length, last = 1.0, np.inf
    factor = np.linalg.cholesky(covariance)  # of S = factor factor^T
    for _ in range(MOST_STEPS):
        spread = relative @ factor
        variance = np.einsum("jm,jm->j", spread, spread) + kernel.rest
        raised = function + np.minimum(0.5 * variance, MOST_RAISED)
        wanted = bound.curvature(raised, features, full=bound.full) + precision
        # Precision wanted in units of the present one: its logarithms are the steps that are missing.
        ratios, directions = np.linalg.eigh(factor.T @ wanted @ factor)
        if (
            not ratios[0] > 0
        ):  # lost to rounding, as it happens where functions are as steep as the grid is fine
            break
        steps = np.log(ratios)
        largest = float(np.abs(steps).max())
        if largest < TOLERANCE:
            break
        if largest > 0.8 * last:
            length = max(0.7 * length, 0.01)
        last = largest
        factor = np.linalg.cholesky((factor @ directions * np.exp(-length * steps)) @ (factor @ directions).T)
    return factor @ factor.T


# Where the points so far leave less than this share of the variance, another one would only repeat them.
REDUNDANT = 1e-7

# Places without any information count this much of the best one, so that none is left without a neighbour.
LEAST_INFORMATION = 1e-6


def placed_inducing_points(
    places: Vector, information: Vector, length_scale: float, n_inducing: int
) -> Vector:
    """Return at most so many of the places, in their order, for a squared exponential kernel of this length scale.

    One after the other, each where the variance that the points so far leave unexplained, times the information that
    the rows have about this place, is largest :cite:`burt2020`. There are fewer where the kernel is so smooth
    that more would only repeat them. O(G M^2) for G places.

    >>> placed_inducing_points(np.linspace(0, 1, 11), np.ones(11), length_scale=0.3, n_inducing=3)
    array([0. , 0.5, 1. ])
    """
    worth = np.maximum(information, LEAST_INFORMATION * max(float(information.max()), np.finfo(float).tiny))
    unexplained = np.ones(len(places))
    explained = np.empty((0, len(places)))
    chosen: list[int] = []
    for _ in range(n_inducing):
        best = int(np.argmax(unexplained * worth))
        if unexplained[best] <= REDUNDANT:
            break
        chosen.append(best)
        column = squared_exponential(places, places[[best]], 1.0, length_scale)[:, 0]
        column -= explained[:, best] @ explained
        column /= np.sqrt(unexplained[best])
        explained = np.vstack([explained, column])
        unexplained = np.maximum(unexplained - column * column, 0.0)
        unexplained[best] = 0.0
    placed: Vector = places[np.sort(chosen)]
    return placed


FEWEST_NODES, MOST_NODES = 256, 1024
NODES_PER_INDUCING = 16
MOST_INDUCING = MOST_NODES // NODES_PER_INDUCING
# At the starting slope, latent values of neighbouring nodes differ by 1 / this or less, up to the most nodes.
NODES_PER_NAT = 40

# Shortest length scale in steps of the grid: cubics through the nodes are then good to about 1e-5 of a change.
STEPS_PER_LENGTH = 8
LONGEST_LENGTH = 4.0  # in units of the range of scores: over it, functions are all but straight

# Standard deviation of the slope that the kernel stands for, in units of the distance of slopes from the prior's one.
SLOPE_RANGE = (1e-4, 3.0)
LEAST_START_SLOPE = 0.1

# Of the authors' program for probabilities: length scale 0.5 and variance 1 at first, variance up to 5.
PROBABILITY_LENGTH = 0.5
PROBABILITY_DEVIATIONS = (1e-4, 5.0**0.5)

# Inducing points and units are those of the kernel that a round starts from; the last round changes it little.
LEAST_ROUNDS, MOST_ROUNDS = 2, 5
STEPS_PER_ROUND = 60
# Rounds on few rows are cheap and go on to their end: one that is cut short ends where rounding leads.
FEW_ROWS, STEPS_ON_FEW = 1000, 200

# Of many rows, a sample with so many scores and rows is searched first, if that spares several times the work.
SAMPLE_SCORES, SAMPLE_ROWS = 2**17, 5000
LEAST_SPARED = 4
GOLDEN = (5.0**0.5 - 1.0) / 2.0

# In units of a standard deviation of the posterior, in nats: 1e-4 leaves about 1e-8 nats in all. That is for a thousand
# rows; for more of them deviations are smaller, and the tolerance for latent values stays the same.
SLOPE_TOLERANCE, TOLERANCE_ROWS = 1e-4, 1000.0
VALUE_TOLERANCE = 1e-12
IMPOSSIBLE = 1e8  # nats below the start, for parameters at which nothing can be computed


class ProcessFit(NamedTuple):
    """The process with the highest bound that was found, and how much higher it might be, in nats.

    The covariance is the one of :func:`~calibrant.calibrators.latent.gaussian_process.fit.averaged_covariance`.
    """

    parameters: KernelParameters
    mean: Vector
    covariance: NDArray[np.float64]
    elbo: float
    decrement: float
    n_iterations: int
    n_evaluations: int
    status: Status


class ProcessUpdate(NamedTuple):
    """Posterior of the whitened inducing variables given earlier rows and a batch, for a kernel that stays.

    The covariance is that of :func:`averaged_covariance`. The gain is the bound of the batch given the earlier rows, in nats.
    """

    posterior: NormalPrior
    covariance: Matrix
    gain: float
    decrement: float
    n_iterations: int
    n_evaluations: int
    status: Status


class _Round(NamedTuple):
    """End of one round: the last two logarithms of the kernel, and where they led."""

    logarithms: Vector
    parameters: KernelParameters
    bound: Bound
    decrement: float
    minimum: LocalMinimum


def fit_process(
    scores: LatentScores,
    labels: NDArray[np.intp],
    weights: Vector,
    slope: float,
    *,
    n_inducing: int,
    full: bool,
    max_iterations: int,
    kernel: tuple[float, float] | None = None,
) -> ProcessFit:
    """Return the latent process whose variational bound on these rows, taken to second order, is highest.

    Parameters
    ----------
    scores : LatentScores
    labels : ndarray of shape (n,)
    weights : ndarray of shape (n,)
    slope : float
        Inverse temperature from which the search starts.
    n_inducing : int
        Inducing points at the most, and never more than ``MOST_INDUCING``, for which the grid has its most nodes.
    full : bool
        Whether the latent values of a row are taken with all their covariances.
    max_iterations : int
        Steps at the most.
    kernel : tuple of float, optional
        Deviation of slopes, or of values where the prior mean is not the identity, and length scale, which are then not searched
        for; without noise.

    Notes
    -----
    Rounds of quasi-Newton search over values at the inducing points, length scale, variance and noise, about 100
    passes in all. Of many rows a sample is searched first, from where all rows need about 20. Nothing is random,
    and the order of rows does not matter, but for which ones are in the sample from which all rows start.
    """
    nearby = None
    n_rows, n_classes = scores.places.shape
    n_sampled = max(SAMPLE_SCORES // n_classes, SAMPLE_ROWS)
    if n_rows >= LEAST_SPARED * n_sampled:
        # Even over all rows, and without a period that rows might have too.
        rows = np.unique((np.arange(n_sampled) * GOLDEN % 1.0 * n_rows).astype(np.intp))
        places = scores.places[rows]
        prior = places if scores.prior_is_identity else scores.prior[rows]
        nearby = fit_process(
            LatentScores(places, prior),
            labels[rows],
            weights[rows] * (weights.sum() / weights[rows].sum()),
            slope,
            n_inducing=n_inducing,
            full=full,
            max_iterations=max_iterations,
            kernel=kernel,
        )
    search = _Search(scores, labels, weights, slope, n_inducing, full, kernel)
    with search.bound.rows.open(), np.errstate(all="ignore"):
        try:
            return search.best(max_iterations, nearby)
        except np.linalg.LinAlgError:
            return search.prior()


def bound_of_rows(
    scores: LatentScores,
    labels: NDArray[np.intp],
    weights: Vector,
    slope: float,
    n_inducing: int,
    *,
    full: bool,
    earlier: NormalPrior | None = None,
) -> VariationalBound:
    """Return the bound of some rows, on a grid over their scores; see :func:`fit_process` for the parameters."""
    low, high = score_range(scores.places, scores.prior, slope, labels)
    if high - low <= LEAST_RANGE:
        high = low
    nodes = max(NODES_PER_INDUCING * n_inducing, FEWEST_NODES)
    nodes = max(nodes, int(min(NODES_PER_NAT * slope * (high - low), MOST_NODES)))
    grid = EvenGrid.around(low, high, nodes)
    rows = SpreadRows(scores.places, scores.prior, slope, labels, weights, grid)
    away = slope - 1.0 if scores.prior_is_identity else 0.0
    return VariationalBound(rows, -away * grid.nodes, full=full, earlier=earlier)


def update_process(
    scores: LatentScores,
    labels: NDArray[np.intp],
    weights: Vector,
    slope: float,
    parameters: KernelParameters,
    earlier: NormalPrior,
    averaged: Matrix,
    *,
    full: bool,
    max_iterations: int,
) -> ProcessUpdate:
    r"""Return the posterior given a batch, with the posterior of earlier rows as its prior.

    Streaming variational inference :cite:`bui2017` with fixed inducing points and kernel: the normal distribution that
    maximises :math:`E_q \ln p(y \mid v) - \mathrm{KL}(q \| q_{\text{earlier}})` to second order, by the same bound as
    :func:`fit_process`. Its covariance has a closed form, so the mean alone is searched for, from the earlier one.

    Parameters
    ----------
    scores, labels, weights, slope, full, max_iterations
        Of the batch; see :func:`fit_process`.
    parameters : KernelParameters
    earlier : NormalPrior
        Posterior given earlier rows, with the curvature at the mean.
    averaged : ndarray of shape (M, M)
        Its precision with the averaged curvature.
    """
    bound = bound_of_rows(scores, labels, weights, slope, len(earlier.mean), full=full, earlier=earlier)
    with bound.rows.open(), np.errstate(all="ignore"):
        try:
            return _updated(bound, parameters, earlier, averaged, max_iterations)
        except np.linalg.LinAlgError:
            covariance: Matrix = np.linalg.inv(averaged).astype(np.float64, copy=False)
            return ProcessUpdate(earlier, covariance, 0.0, np.inf, 0, 0, Status.OUT_OF_PRECISION)


def _updated(
    bound: VariationalBound,
    parameters: KernelParameters,
    earlier: NormalPrior,
    averaged: Matrix,
    max_iterations: int,
) -> ProcessUpdate:
    kernel = WhitenedFeatures.at(bound.nodes, parameters)
    values = kernel.factor @ earlier.mean
    begin = bound(values, parameters)
    if not -np.inf < begin.value <= 0:
        raise np.linalg.LinAlgError
    # In units of the posterior's standard deviations all directions are about equally curved.
    unit = kernel.factor @ np.linalg.cholesky(begin.covariance)

    def lost(x: Vector) -> tuple[float, Vector]:
        try:
            at = bound(values + unit @ x, parameters)
        except np.linalg.LinAlgError:
            return IMPOSSIBLE, np.zeros_like(x)
        gradient = at.of_values @ unit
        if not (-np.inf < at.value <= 0 and np.isfinite(gradient).all()):
            return IMPOSSIBLE, np.zeros_like(x)
        return begin.value - at.value, -gradient

    minimum = quasi_newton(
        lost,
        np.zeros(len(values)),
        tolerance=VALUE_TOLERANCE,
        slope_tolerance=SLOPE_TOLERANCE,
        max_iterations=max_iterations,
    )
    end = bound(values + unit @ minimum.theta, parameters)
    slopes = lost(minimum.theta)[1]
    start: Matrix = np.linalg.inv(averaged + end.precision - earlier.precision).astype(np.float64, copy=False)
    hessian = end.precision
    if not bound.full:
        hessian = earlier.hessian + bound.curvature(kernel.features @ end.mean, kernel.features, full=True)
    return ProcessUpdate(
        posterior=NormalPrior(end.mean, hessian, end.precision),
        covariance=averaged_covariance(bound, parameters, end.mean, start, averaged),
        gain=end.value + 0.5 * float(np.linalg.slogdet(earlier.precision)[1]),
        decrement=0.5 * float(slopes @ slopes),
        n_iterations=minimum.n_iterations,
        n_evaluations=minimum.n_evaluations + 3,
        status=minimum.status,
    )


class _Search:
    r"""Logarithms of length scale and deviation, noise, and values at the inducing points, as one vector.

    For the identity as prior mean the deviation is that of the slope, :math:`\sqrt v / \ell`: the data fix it while
    the length scale of a nearly straight function may be anything.
    """

    def __init__(
        self,
        scores: LatentScores,
        labels: NDArray[np.intp],
        weights: Vector,
        slope: float,
        n_inducing: int,
        full: bool,
        kernel: tuple[float, float] | None = None,
    ) -> None:
        self.is_identity = scores.prior_is_identity
        self.n_inducing = min(n_inducing, MOST_INDUCING)
        self.steps_per_round = STEPS_ON_FEW if len(labels) <= FEW_ROWS else STEPS_PER_ROUND
        self.bound = bound_of_rows(scores, labels, weights, slope, self.n_inducing, full=full)
        self.start_function = -self.bound.prior_gap
        grid = self.bound.rows.grid
        spread = grid.step * (grid.n_nodes - 3)
        away = slope - 1.0 if self.is_identity else 0.0
        if self.is_identity:
            self.start = np.log([spread / 3.0, max(abs(away), LEAST_START_SLOPE)])
            deviations = np.array(SLOPE_RANGE) * max(1.0, abs(away))
        else:
            self.start = np.log([PROBABILITY_LENGTH * spread, 1.0])
            deviations = np.array(PROBABILITY_DEVIATIONS)
        lengths = np.array([STEPS_PER_LENGTH * grid.step, LONGEST_LENGTH * spread])
        length_range, deviation_range = np.log([lengths, deviations]).tolist()
        self.bounds: list[tuple[float, float | None]] = [
            tuple(length_range),
            tuple(deviation_range),
            (0.0, None),
        ]
        if kernel is not None:
            deviation, length_scale = kernel
            self.start = np.log([length_scale, deviation])
            self.bounds = [(start, start) for start in (*self.start.tolist(), 0.0)]

    def kernel(self, inducing: Vector, logarithms: Vector, noise: float) -> KernelParameters:
        """Return the kernel that the first parameters stand for."""
        length, deviation = logarithms
        if self.is_identity:
            deviation += length
        return KernelParameters(inducing, float(np.exp(2.0 * deviation)), float(np.exp(length)), noise)

    def best(self, max_iterations: int, nearby: ProcessFit | None) -> ProcessFit:
        """Return the best process.

        Searched from one nearby, else from temperature scaling, or the prior mean if it cannot have that.
        """
        logarithms, noise, function, least_rounds = self.start, 0.0, self.start_function, LEAST_ROUNDS
        if nearby is not None:
            _, variance, length_scale, noise = nearby.parameters
            deviation = np.sqrt(variance) / (length_scale if self.is_identity else 1.0)
            logarithms, least_rounds = np.log([length_scale, deviation]), 1
            function = WhitenedFeatures.at(self.bound.nodes, nearby.parameters).features @ nearby.mean
        n_iterations = n_evaluations = 0
        for number in range(1, MOST_ROUNDS + 1):
            inducing = placed_inducing_points(
                self.bound.nodes,
                self.bound.information(function),
                float(np.exp(logarithms[0])),
                self.n_inducing,
            )
            steps = min(
                self.steps_per_round if number < MOST_ROUNDS else max_iterations,
                max_iterations - n_iterations,
            )
            end = self._round(logarithms, noise, inducing, function, max(steps, 1))
            logarithms, noise = end.logarithms, end.parameters.noise
            n_iterations += end.minimum.n_iterations
            n_evaluations += end.minimum.n_evaluations + 3
            converged = end.minimum.status is not Status.OUT_OF_ITERATIONS
            if (converged and number >= least_rounds) or n_iterations >= max_iterations:
                break
            function = WhitenedFeatures.at(self.bound.nodes, end.parameters).features @ end.bound.mean
        covariance = averaged_covariance(self.bound, end.parameters, end.bound.mean, end.bound.covariance)
        return ProcessFit(
            parameters=end.parameters,
            mean=end.bound.mean,
            covariance=covariance,
            elbo=end.bound.value,
            decrement=end.decrement,
            n_iterations=n_iterations,
            n_evaluations=n_evaluations,
            status=end.minimum.status,
        )

    def prior(self) -> ProcessFit:
        """Return a process that stays at its prior mean, for scores with which nothing can be computed."""
        grid = self.bound.rows.grid
        parameters = KernelParameters(np.array([grid.low]), 1.0, grid.high - grid.low, 0.0)
        nothing, certain = np.zeros(1), np.ones((1, 1))
        return ProcessFit(parameters, nothing, certain, -np.inf, np.inf, 0, 0, Status.OUT_OF_PRECISION)

    def _round(
        self, logarithms: Vector, noise: float, inducing: Vector, function: Vector, max_iterations: int
    ) -> _Round:
        first = self.kernel(inducing, logarithms, noise)
        kernel = WhitenedFeatures.at(self.bound.nodes, first)
        # But for the prior, and with the curvature of the log-likelihood there, the function would be the best one.
        columns = np.column_stack([kernel.features, function])
        curvature = self.bound.curvature(function, columns, full=True)
        covariance = np.linalg.inv(curvature[:-1, :-1] + np.eye(len(inducing)))
        values = kernel.factor @ (covariance @ curvature[:-1, -1])
        # In units of the posterior's standard deviations all directions are about equally curved.
        unit = kernel.factor @ np.linalg.cholesky(covariance)
        begin = self.bound(values, first)
        if not -np.inf < begin.value <= 0:
            raise np.linalg.LinAlgError
        noise_unit = 1.0 / max(abs(begin.of_kernel.noise), 1.0)

        def unpacked(x: Vector) -> tuple[Vector, KernelParameters]:
            return values + unit @ x[3:], self.kernel(inducing, x[:2], noise_unit * float(x[2]))

        def lost(x: Vector) -> tuple[float, Vector]:
            try:
                bound = self.bound(*unpacked(x))
            except np.linalg.LinAlgError:
                return IMPOSSIBLE, np.zeros_like(x)
            of_deviation = 2.0 * bound.of_kernel.log_variance
            of_length = bound.of_kernel.log_length_scale + (of_deviation if self.is_identity else 0.0)
            gradient = np.concatenate(
                [[of_length, of_deviation, noise_unit * bound.of_kernel.noise], bound.of_values @ unit]
            )
            # No bound is positive; where one comes out so, the function is steeper than the grid is fine.
            if not (-np.inf < bound.value <= 0 and np.isfinite(gradient).all()):
                return IMPOSSIBLE, np.zeros_like(x)
            return begin.value - bound.value, -gradient

        minimum = quasi_newton(
            lost,
            np.concatenate([logarithms, [noise / noise_unit], np.zeros(len(inducing))]),
            bounds=[*self.bounds, *[(None, None)] * len(inducing)],
            tolerance=VALUE_TOLERANCE,
            slope_tolerance=SLOPE_TOLERANCE * max(1.0, self.bound.rows.weights.sum() / TOLERANCE_ROWS) ** 0.5,
            max_iterations=max_iterations,
        )
        best_values, parameters = unpacked(minimum.theta)
        bound = self.bound(best_values, parameters)
        slopes = lost(minimum.theta)[1]
        least = np.array([low for low, _ in self.bounds])
        most = np.array([np.inf if high is None else high for _, high in self.bounds])
        at_edge = ((minimum.theta[:3] <= least) & (slopes[:3] > 0)) | (
            (minimum.theta[:3] >= most) & (slopes[:3] < 0)
        )
        slopes[:3][at_edge] = 0.0
        return _Round(minimum.theta[:2], parameters, bound, 0.5 * float(slopes @ slopes), minimum)
