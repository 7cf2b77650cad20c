"""Covariance of the inducing variables with the curvature averaged over the posterior, not taken at its mean."""

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.latent.process_kernel import KernelParameters, WhitenedFeatures
from calibrant.calibrators.latent.variational import VariationalBound

__all__ = ["averaged_covariance"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

MOST_STEPS = 40
TOLERANCE = 1e-4  # of the logarithms of precisions

# Largest logarithm of the factor by which exp(g) is raised: more, and nothing else would be seen beside it.
MOST_RAISED = 30.0


def averaged_covariance(
    bound: VariationalBound, parameters: KernelParameters, mean: Vector, covariance: Matrix
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
    """
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
        wanted = bound.curvature(raised, features, full=bound.full) + np.eye(len(mean))
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
