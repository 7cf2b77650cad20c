"""Variance and length scale of a monotone process, chosen by the evidence of the labels."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from calibrant.calibrators.latent.monotone_likelihood import SlopeLikelihood
from calibrant.calibrators.latent.monotone_prior import SlopePrior
from calibrant.numerics.row_blocks import BlockSums
from calibrant.solvers.bounded_newton import ConvexExpansion, bounded_newton
from calibrant.solvers.solution import Solution

__all__ = ["KernelChoice", "likeliest_kernel", "log_evidence"]

Vector = NDArray[np.float64]

# Length scales between twice the median distance of knots, below which they could not follow the process, and a
# multiple of the range, beyond which all mean a straight line.
KNOT_DISTANCES, RANGES = 2.0, 4.0
# Standard deviations of a slope between these multiples of the prior slope.
STIFFEST, LOOSEST = 1e-3, 1e3
FIRST_RANGES, FIRST_DEVIATION = 0.3, 0.5
MAX_ROUNDS = 8
FIRST_SIZE = 0.5  # of the triangle with which the search begins, in logarithms
CLOSE = 0.01  # change of the logarithms after which another round is not worth a pass over the rows
NATS = 1e-2  # accuracy of the mode at which the evidence is taken


class KernelChoice(NamedTuple):
    """A kernel, the logarithm of its evidence, likely slopes, and the passes over the rows that it took."""

    variance: float
    length_scale: float
    log_evidence: float
    slopes: Vector
    n_evaluations: int


def likeliest_kernel(
    likelihood: SlopeLikelihood, in_all_blocks: BlockSums, knots: Vector, slope: float, least: float
) -> KernelChoice:
    r"""Return the kernel under which the labels are likeliest, all increasing curves taken together.

    Integrating over the slopes by Laplace's method :cite:`rasmussen2006` gives

    .. math:: \log p(y \mid v, \ell) \approx -\ell(\hat\xi) - \tfrac12 (\hat\xi - s)^\top \Gamma^{-1} (\hat\xi - s)
              - \tfrac12 \log \det(I + \Gamma H)

    with the mode :math:`\hat\xi` under the bound, the prior covariance :math:`\Gamma` of the slopes and the Hessian H
    of the negative log-likelihood there. How much of the prior and of the posterior lies beyond the bound is left out:
    the two shares are of a like size. Rows are needed for the expansion of the likelihood only, so both
    parameters are sought with that at hand, and then it is renewed at the new mode, three or four times.

    Parameters
    ----------
    likelihood : SlopeLikelihood
    in_all_blocks : BlockSums
        From its ``open``.
    knots : ndarray of shape (m,)
    slope : float
        Prior mean of the slopes.
    least : float
        Their bound.
    """
    span, distance = float(knots[-1] - knots[0]), float(np.median(np.diff(knots)))
    bounds = [
        (np.log(STIFFEST * slope), np.log(LOOSEST * slope)),
        (np.log(KNOT_DISTANCES * distance), np.log(RANGES * span)),
    ]
    place = np.clip(np.log([FIRST_DEVIATION * slope, FIRST_RANGES * span]), *np.transpose(bounds))
    slopes, n_evaluations = np.full(len(knots), slope), 0

    def prior_at(place: Vector) -> SlopePrior:
        deviation, length_scale = np.exp(place)
        return SlopePrior(knots, float((deviation * length_scale) ** 2), float(length_scale), slope)

    def missing_evidence(place: Vector, data: ConvexExpansion, slopes: Vector) -> float:
        return -log_evidence(data, slopes, prior_at(place), least)

    size = FIRST_SIZE
    for _ in range(MAX_ROUNDS):
        mode = _rough_mode(likelihood, in_all_blocks, prior_at(place), slopes, least)
        slopes = mode.theta
        data = likelihood.expand(slopes, in_all_blocks)
        n_evaluations += mode.n_evaluations + 1
        found = minimize(
            missing_evidence,
            place,
            args=(data, slopes),
            method="Nelder-Mead",
            bounds=bounds,
            options={
                "xatol": CLOSE / 4,
                "fatol": np.inf,
                "maxfev": 200,
                "initial_simplex": _triangle(place, size, bounds),
            },
        )
        change, place = float(np.abs(found.x - place).max()), found.x
        if change < CLOSE:
            break
        size = min(FIRST_SIZE, change)
    chosen = prior_at(place)
    return KernelChoice(chosen.variance, chosen.length_scale, -float(found.fun), slopes, n_evaluations)


def log_evidence(data: ConvexExpansion, slopes: Vector, prior: SlopePrior, least: float) -> float:
    """Return the logarithm of the evidence if the likelihood were its expansion around some slopes."""
    covariance = prior.covariance()
    whitened = np.eye(len(slopes)) + data.hessian @ covariance
    determinant = float(np.linalg.slogdet(whitened)[1])

    def expand(point: Vector) -> ConvexExpansion:
        step = point - slopes
        bent = data.hessian @ step
        value = data.value + float(step @ (data.gradient + bent / 2))
        return prior.added_to(ConvexExpansion(value, data.gradient + bent, data.hessian), point)

    # Without the bound the mode follows from one linear equation, and mostly it is above the bound.
    pull = np.linalg.solve(whitened, data.hessian @ (slopes - prior.slope) - data.gradient)
    away = covariance @ pull
    if (prior.slope + away).min() >= least:
        step = prior.slope + away - slopes
        value = data.value + step @ (data.gradient + data.hessian @ step / 2) + away @ pull / 2
    else:
        value = bounded_newton(expand, slopes, least, tolerance=NATS / 1000).value
    return -float(value) - determinant / 2


def _rough_mode(
    likelihood: SlopeLikelihood, in_all_blocks: BlockSums, prior: SlopePrior, start: Vector, least: float
) -> Solution:
    def expand(point: Vector) -> ConvexExpansion:
        return prior.added_to(likelihood.expand(point, in_all_blocks), point)

    return bounded_newton(expand, start, least, tolerance=NATS)


def _triangle(place: Vector, size: float, bounds: list[tuple[float, float]]) -> NDArray[np.float64]:
    """Return three corners within the bounds, the first of them at the place."""
    corners = np.tile(place, (3, 1))
    for column, (_, highest) in enumerate(bounds):
        corners[column + 1, column] += size if place[column] + size <= highest else -size
    return corners
