"""Increasing Gaussian process: conditioned on positive slopes, with a softmax link."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from calibrant.arrays import FloatArray, Matrix, Vector
from calibrant.calibrators.latent.gaussian_process.latent_function import LEAST_RANGE
from calibrant.calibrators.latent.gaussian_process.slope_likelihood import SlopeLikelihood
from calibrant.calibrators.latent.gaussian_process.variational import score_range
from calibrant.calibrators.quadratic_summary import QuadraticLoss
from calibrant.graph.curves import Piecewise
from calibrant.numerics.increasing_curve import IncreasingCurve, Pieces, parabolas
from calibrant.numerics.row_blocks import BlockSums
from calibrant.numerics.truncated_normal import TruncatedNormal
from calibrant.objective import ConvexExpansion
from calibrant.objective.losses import softmax_in_place
from calibrant.solvers import bounded_newton
from calibrant.solvers.solution import Solution

__all__ = [
    "LEAST_SLOPE",
    "MonotoneCurves",
    "MonotoneProcess",
    "SlopePrior",
    "fit_monotone_process",
    "informative_knots",
    "slope_loss",
    "update_monotone_process",
]


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


N_BINS = 4096
SMALLEST_RANGE = 1e-9  # of the size of scores; what is closer together counts as equal


def informative_knots(
    scores: FloatArray, weights: Vector | None, n_knots: int, smallest: float = -np.inf
) -> Vector:
    r"""Return knots from the smallest to the largest score, strictly increasing; none below ``smallest``.

    A label tells about the curve at score :math:`z_{ik}` as much as :math:`q_{ik} (1 - q_{ik})`, with q the softmax
    of the scores. The knots are quantiles of a distribution that is one half this information and one half
    uniform over the range, so a few scores far from all others cost no resolution where it matters, and no gap is
    wider than twice the even distance. If all scores are equal, the knots lie around them.

    Costs one pass over the rows, memory for one block of them; information is added up at many marks, so a row of
    weight two is the same as two rows.

    >>> informative_knots(np.log([[0.5, 0.5], [0.75, 0.25]]), None, 3).round(2)
    array([-1.39, -0.69, -0.29])
    """
    lowest, highest = max(float(scores.min()), smallest), float(scores.max())
    size = max(abs(lowest), abs(highest))
    if highest - lowest <= max(SMALLEST_RANGE * size, LEAST_RANGE):
        half = 0.5 * max(1.0, size)
        return np.linspace(lowest - half, highest + half, n_knots)
    rate = N_BINS / (highest - lowest)

    def information(rows: slice) -> Vector:
        shares = np.array(scores[rows], dtype=np.float64)
        softmax_in_place(shares)
        shares *= 1 - shares
        if weights is not None:
            shares *= weights[rows, np.newaxis]
        places = np.maximum(np.asarray(scores[rows], dtype=np.float64) - lowest, 0.0) * rate
        before = np.minimum(places.astype(np.intp), N_BINS - 1)
        # Shared out between the two nearest marks, so that knots do not jump when a score moves by a rounding error.
        after = shares * (places - before)
        found = np.zeros(N_BINS + 1)
        found += np.bincount(before.ravel(), (shares - after).ravel(), N_BINS + 1)
        found += np.bincount(before.ravel() + 1, after.ravel(), N_BINS + 1)
        return found

    with BlockSums.over(*scores.shape) as in_all_blocks:
        density = in_all_blocks(information)
    evenly = np.linspace(0, 1, N_BINS + 1)
    told = np.append(0, np.cumsum(density[1:] + density[:-1]))
    # Rows that are all certain tell nothing, at any score.
    distribution = (told / told[-1] + evenly) / 2 if told[-1] > 0 else evenly
    marks = np.linspace(lowest, highest, N_BINS + 1)
    knots: Vector = np.interp(np.linspace(0, 1, n_knots), distribution, marks)
    return knots


@dataclass(frozen=True, eq=False)
class MonotoneCurves:
    """Increasing functions with common knots.

    Attributes
    ----------
    knots : ndarray of shape (m,)
    slopes : ndarray of shape (n_curves, m)
        Positive.
    levels : ndarray of shape (n_curves,)
        Values at the last knot.

    Examples
    --------
    >>> curves = MonotoneCurves(np.array([-1.0, 0.0]), np.array([[1.0, 1.0], [2.0, 2.0]]), np.zeros(2))
    >>> curves(np.array([-1.0, 0.0, 1.0]))
    array([[-1.,  0.,  1.], [-2.,  0.,  2.]])
    >>> curves.mean_softmax(np.log([[0.5, 0.25, 0.25]])).round(4)         # half of 1/2, 1/4, 1/4 and of 2/3, 1/6, 1/6
    array([[0.5833, 0.2083, 0.2083]])
    """

    knots: Vector
    slopes: Matrix
    levels: Vector

    def __len__(self) -> int:
        return len(self.slopes)

    def __iter__(self) -> Iterator[IncreasingCurve]:
        """Go through the curves one by one."""
        for slopes, level in zip(self.slopes, self.levels, strict=True):
            yield IncreasingCurve(self.knots, slopes, float(level))

    def __call__(self, x: FloatArray) -> Vector:
        """Return the value of every curve at every x, (n_curves, ...)."""
        return np.stack([curve(x) for curve in self])

    def mean_softmax(self, scores: FloatArray) -> Matrix:
        r"""Return :math:`\frac1n \sum_g \mathrm{softmax}(g(z_{i1}), \dots, g(z_{iK}))`, (n, K).

        Every curve keeps the order of a row, hence so does the mean, but for rounding. Costs O(nK) time
        for each curve; memory for the result and one block of rows.
        """
        pieces = Pieces(self.knots)
        tables = list(zip(*pieces.coefficients(self.slopes), strict=True))
        result = np.zeros(scores.shape)

        def fill(rows: slice) -> int:
            piece = pieces.locate(scores[rows])
            place = pieces.places(scores[rows], piece)
            total = result[rows]
            for table in tables:
                shares = parabolas(table, piece, place)
                softmax_in_place(shares)
                total += shares
            total /= len(tables)
            return 1

        with BlockSums.over(*scores.shape) as in_all_blocks:
            in_all_blocks(fill)
        return result


LEAST_SLOPE = 1e-6
"""Smallest slope allowed; that of the prior mean is one."""

START_SHARE = 1e-3  # of the way from the mode to the prior mean, where draws begin
# Standard deviations from the bound at which it does not matter any more.
FAR = 6.0


@dataclass(frozen=True, eq=False)
class MonotoneProcess:
    r"""Posterior of an increasing latent function g, as left by :func:`fit_monotone_process`.

    It is known through its slopes :math:`\xi_j = g'(t_j)` at knots: between them :math:`g'` is a straight line,
    beyond the ends it is constant. The posterior of the slopes is approximated by a normal distribution that is cut
    off at the least slope.

    **Order is kept, provably.** Every slope is at least :math:`\epsilon = 10^{-6}`, those of the mode and those of all draws.
    Between two knots :math:`g'(z) = (1 - u)\,\xi_j + u\,\xi_{j+1} \ge \epsilon` since :math:`0 \le u \le 1`, and
    beyond the ends :math:`g'` equals the first or last slope; so :math:`g(b) - g(a) = \int_a^b g' \ge \epsilon (b - a)`
    for all :math:`a < b`, not only for knots or calibration scores. One function serves all classes, so in
    every row :math:`z_j > z_k` implies :math:`g(z_j) > g(z_k)` and, the softmax being increasing in its own
    argument relative to others, :math:`q_j > q_k`: the whole order of the row and hence its arg-max stay. An average
    over draws keeps it as well, since every term does. What rounding does to nearly equal numbers is for the
    caller to repair.

    Attributes
    ----------
    knots : ndarray of shape (m,)
        :math:`t_j`, strictly increasing.
    slopes : ndarray of shape (m,)
        Mode of the posterior.
    centre : ndarray of shape (m,)
        Mean of the normal distribution before it is cut off: the mode, unless some slopes are at their bound.
    covariance : ndarray of shape (m, m)
        Covariance before it is cut off: inverse Hessian of the negative log-posterior at the mode.
    level_weights : ndarray of shape (m,)
        How the level of g depends on its slopes, see :meth:`SlopePrior.level`.
    level_variance : float
        Variance of the level given the slopes; labels say nothing about it.
    solution : Solution
        End of the search for the mode; the value is the mean loss plus the prior's penalty per row.
    """

    knots: Vector
    slopes: Vector
    centre: Vector
    covariance: Matrix
    level_weights: Vector
    level_variance: float
    solution: Solution

    def mode(self, z: FloatArray) -> Vector:
        """Return the curve of the likeliest slopes at every z, in its shape; O(log m) each.

        Where slopes are near their bound it is less steep than the posterior mean, since the bound cuts off slopes on one
        side only. The level is the mean of the process given these slopes, as for a process without bounds. Far beyond the
        calibration scores the curve goes on straight, where a process without bounds returns to its prior mean.
        """
        return IncreasingCurve(self.knots, self.slopes, float(self._levels(self.slopes)))(z)

    def curve(self) -> Piecewise:
        """Return the curve of :meth:`mode` as an operation."""
        pieces = Pieces(self.knots)
        _, rates = pieces.frames()
        base, rise, bend = pieces.coefficients(self.slopes)
        level = float(self._levels(self.slopes))
        return Piecewise.smooth(self.knots, np.stack([base + level, rise * rates, bend * rates**2]))

    def standard_deviation(self, z: FloatArray, reference: float | None = None) -> Vector:
        """Return the posterior standard deviation of g at every z, in its shape.

        Parameters
        ----------
        z : ndarray
        reference : float, optional
            Give the deviation of g(z) - g(reference), which is what probabilities depend on. Without it, that of
            g(z), as for a process without bounds: it contains the doubt about the level of g, about which labels
            say nothing.

        Notes
        -----
        Where a bound is within reach, moments of the slopes are taken from draws, the same at every call, which adds two
        or three per cent of noise. The normal distribution that is cut off is an approximation itself: the true
        posterior has a longer tail towards steep slopes, and where slopes sit at their bound deviations may come out
        too small.
        """
        pieces = Pieces(self.knots)
        covariance = self.slope_moments()[1]
        base, rise, bend = pieces.features()
        if reference is None:
            base, rest = base + self.level_weights, self.level_variance
        else:
            base, rest = base - pieces.features_at(np.asarray(reference, dtype=np.float64)), 0.0

        def joint(first: Matrix, second: Matrix) -> Vector:
            products: Vector = np.einsum("ci,ij,cj->c", first, covariance, second)
            return products

        # On every piece g is quadratic in the place, its variance a polynomial of degree four.
        powers = [
            joint(base, base),
            2 * joint(base, rise),
            joint(rise, rise) + 2 * joint(base, bend),
            2 * joint(rise, bend),
            joint(bend, bend),
        ]
        piece = pieces.locate(z)
        place = pieces.places(z, piece)
        variances = np.zeros(np.shape(z))
        for coefficients in reversed(powers):
            variances *= place
            variances += coefficients.take(piece)
        return np.sqrt(np.maximum(variances, 0.0) + rest)

    def slope_moments(self) -> tuple[Vector, Matrix]:
        """Return mean (m,) and covariance (m, m) of the slopes, cut off at the bound; deterministic."""
        deviations = np.sqrt(np.diag(self.covariance))
        if np.all(self.centre - LEAST_SLOPE > FAR * deviations):
            return self.centre, self.covariance
        return self._slope_distribution().moments(np.random.default_rng(0))

    def draws(self, generator: np.random.Generator, n_draws: int) -> MonotoneCurves:
        """Return functions from the posterior, every one of them increasing.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of the draws; equal sources give equal draws.
        n_draws : int
        """
        slopes = self._slope_distribution().draws(generator, n_draws)
        noise = np.sqrt(self.level_variance) * generator.standard_normal(n_draws)
        return MonotoneCurves(self.knots, slopes, self._levels(slopes) + noise)

    def _levels(self, slopes: Vector) -> Vector:
        """Return the mean value at the last knot given slopes, (...,) for (..., m)."""
        levels: Vector = self.knots[-1] + (slopes - 1.0) @ self.level_weights
        return levels

    def _slope_distribution(self) -> TruncatedNormal:
        # As likely as the mode, nearly, and above the bound.
        inside = self.slopes + START_SHARE * (1.0 - self.slopes)
        return TruncatedNormal(self.centre, self.covariance, LEAST_SLOPE, inside)


def fit_monotone_process(
    scores: FloatArray,
    labels: NDArray[np.intp],
    weights: Vector | None = None,
    *,
    variance: float,
    length_scale: float,
    n_knots: int = 40,
    slope: float = 1.0,
) -> MonotoneProcess:
    r"""Return the posterior of one increasing function g that maps the scores of all classes.

    Labels follow :math:`q_i = \mathrm{softmax}(g(z_{i1}), \dots, g(z_{iK}))`. The prior is the Gaussian process
    :math:`g \sim \mathrm{GP}(z, k)`, :math:`k(z, z') = v\,e^{-(z - z')^2 / 2\ell^2}`,
    given that it increases: the extension that :cite:`wenger2020` name as future work, after :cite:`riihimaki2010`
    and :cite:`agrell2019`, who ask for positive slopes at chosen points. Here :math:`g'` is interpolated between its
    values :math:`\xi` at knots :cite:`maatouk2017`, so that positive values at the knots make it positive
    everywhere, and

    .. math:: -\log p(\xi \mid y) = \sum_i w_i \Bigl[\log \sum_k e^{g(z_{ik})} - g(z_{iy_i})\Bigr]
              + \tfrac12 (\xi - 1)^\top \Gamma^{-1} (\xi - 1) + \text{const}, \qquad \xi_j \ge \epsilon,

    with the covariance :math:`\Gamma` of :class:`SlopePrior`. Since g is linear in :math:`\xi` this is convex and has
    one minimum, the mode, found by Newton's method under the bounds; the distribution around it is the normal one of
    the second-order expansion there, cut off at the bound (Laplace's method :cite:`rasmussen2006`).

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Log-probabilities or logits, for which the prior mean says that the classifier is calibrated already.
    labels : ndarray of shape (n,)
        Column of the true class of every row.
    weights : ndarray of shape (n,), optional
        How often each row counts; a row of weight zero is as good as absent.
    variance, length_scale : float
        :math:`v` and :math:`\ell`; together they say that slopes differ from one by about :math:`\sqrt v / \ell`.
    n_knots : int, default=40
        Number of knots, at least two. None is at scores that no softmax would see, such as those of masked classes.
    slope : float, default=1.0
        Inverse temperature, which says what these are.

    Returns
    -------
    MonotoneProcess
        On the calibration rows the curve of its mode has at most the log-loss of doing nothing: that is the prior mean
        with penalty zero, and the mode has the smaller sum.

    Notes
    -----
    A pass costs :math:`O(nK + nm^2)` for m knots and a fit takes about ten; memory for one block of rows
    and one byte per score. Nothing is random.

    Examples
    --------
    A classifier that gives out the squares of probabilities, divided by their sum; the map back is a slope of one half:

    >>> generator = np.random.default_rng(0)
    >>> right = generator.dirichlet(np.ones(10) / 2, size=2000)
    >>> labels = np.array([generator.choice(10, p=row) for row in right])
    >>> given = right**2 / (right**2).sum(axis=1, keepdims=True)
    >>> process = fit_monotone_process(np.log(given), labels, variance=100.0, length_scale=20.0)
    >>> half = (process.mode(np.log(0.9)) - process.mode(np.log(0.01))) / np.log(90)
    >>> bool(abs(half - 0.5) < 0.05)
    True
    >>> bool((np.diff(process.draws(generator, 100)(np.linspace(-9, 0, 500))) > 0).all())
    True
    """
    if weights is not None and not weights.all():
        counted = weights > 0
        scores, labels, weights = scores[counted], labels[counted], weights[counted]
    smallest, _ = score_range(scores, scores, slope, labels)
    knots = informative_knots(scores, weights, n_knots, smallest)
    likelihood = SlopeLikelihood(scores, labels, weights, Pieces(knots))
    return _posterior(likelihood, SlopePrior(knots, variance, length_scale), np.ones(n_knots))


def update_monotone_process(
    process: MonotoneProcess,
    earlier: QuadraticLoss,
    scores: FloatArray,
    labels: NDArray[np.intp],
    weights: Vector,
    *,
    variance: float,
    length_scale: float,
) -> MonotoneProcess:
    """Return the posterior given a batch and the quadratic expansion of the loss of earlier rows, for the same knots.

    See :func:`fit_monotone_process` for the other parameters.
    """
    likelihood = SlopeLikelihood(scores, labels, weights, Pieces(process.knots))
    prior = SlopePrior(process.knots, variance, length_scale)
    return _posterior(likelihood, prior, process.slopes, earlier)


def slope_loss(
    process: MonotoneProcess,
    scores: FloatArray,
    labels: NDArray[np.intp],
    weights: Vector,
    earlier: QuadraticLoss | None = None,
) -> QuadraticLoss:
    """Return the expansion of the loss of these rows, and of earlier ones, around the slopes of the mode."""
    likelihood = SlopeLikelihood(scores, labels, weights, Pieces(process.knots))
    with likelihood.open() as in_all_blocks:
        value, gradient, hessian = _with_earlier(
            likelihood.expand(process.slopes, in_all_blocks), earlier, process.slopes
        )
    weight = likelihood.total_weight + (0.0 if earlier is None else earlier.weight)
    return QuadraticLoss(process.slopes, float(value), gradient, hessian, weight)


def _with_earlier(rows: ConvexExpansion, earlier: QuadraticLoss | None, slopes: Vector) -> ConvexExpansion:
    if earlier is None:
        return rows
    past = earlier.at(slopes)
    return ConvexExpansion(
        rows.value + past.value, rows.gradient + past.gradient, rows.hessian + past.hessian
    )


def _posterior(
    likelihood: SlopeLikelihood, prior: SlopePrior, start: Vector, earlier: QuadraticLoss | None = None
) -> MonotoneProcess:
    """Return the normal approximation around the mode, given some rows and a summary of earlier ones."""
    total = likelihood.total_weight + (0.0 if earlier is None else earlier.weight)
    knots = prior.knots
    with likelihood.open() as in_all_blocks:

        def expand(point: Vector) -> ConvexExpansion:
            return _with_earlier(likelihood.expand(point, in_all_blocks), earlier, point)

        identity_loss = expand(np.ones(len(knots))).value / total

        def mean_loss(point: Vector) -> ConvexExpansion:
            value, gradient, hessian = prior.added_to(expand(point), point)
            return ConvexExpansion(value / total, gradient / total, hessian / total)

        solution = bounded_newton(mean_loss, start, LEAST_SLOPE)
        mode = solution.theta
        _, gradient, hessian = prior.added_to(expand(mode), mode)
    covariance = _inverse(hessian)
    level_weights, level_variance = prior.level(float(knots[-1]))
    return MonotoneProcess(
        knots=knots,
        slopes=mode,
        # At the mode free slopes have gradient zero; the others are pushed against their bound.
        centre=mode - covariance @ np.where(mode > LEAST_SLOPE, 0.0, gradient),
        covariance=covariance,
        level_weights=level_weights,
        level_variance=float(level_variance),
        solution=replace(
            solution,
            loss=solution.value - prior.penalty(mode) / total,
            identity_loss=identity_loss,
            n_evaluations=solution.n_evaluations + 2,
        ),
    )


def _inverse(matrix: Matrix) -> Matrix:
    """Return the inverse of a positive definite matrix, symmetric; what rounding made negative counts as rounding."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, values[-1] * len(values) * np.finfo(np.float64).eps)
    inverse: Matrix = (vectors / values) @ vectors.T
    return (inverse + inverse.T) / 2
