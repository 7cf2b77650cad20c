"""Posterior: the normal distribution around a fit, cut off at the bounds of its parameters."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from calibrant.arrays import Matrix, Vector
from calibrant.calibrators.latent.monotone_draws import TruncatedNormal
from calibrant.calibrators.uncertainty.fitted_family import FittedFamily
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.row_blocks import row_blocks

__all__ = ["Covariance", "Posterior", "laplace"]

Covariance = Literal["model", "sandwich"]

# Curvature, relative to that of each parameter, of a prior that only matters where rows say nothing: there deviations
# are finite, but so large that intervals reach from 0 to 1.
RIDGE = 1e-10

# Share of the variance of the ridge alone beyond which a parameter counts as unknown.
FLAT = 0.01

# Bounds further away than this, in standard deviations, are never met.
FAR = 4.0

# Curvature per row below which a parameter counts as unknown.
LEAST_CURVATURE = 1e-16

# Of the rows, that parameters may leave free at the least; with fewer rows than parameters nothing can be said.
LEAST_SHARE = 0.25

MIN_ROWS = 256  # at a time


@dataclass(frozen=True, eq=False)
class Posterior:
    r"""Normal distribution of the change of the parameters from their fitted values.

    Attributes
    ----------
    factor : ndarray of shape (P, P)
        R with :math:`R R^\top` the covariance.
    centre : ndarray of shape (P,)
        Mean before the distribution is cut off: zero, unless the fit is pressed against a bound.
    lower : ndarray of shape (P,)
        Least change that the bounds allow, at most zero.
    flat : ndarray of shape (P,)
        Whether the rows say nothing about a parameter, so that its deviation is that of the ridge.
    """

    factor: Matrix
    centre: Vector
    lower: Vector
    flat: NDArray[np.bool_]

    @property
    def is_cut(self) -> bool:
        """Whether the bound of a parameter is within reach, so that the distribution is not normal.

        A bound is no knowledge: what rows leave open stays open, and such parameters do not count.
        """
        return bool((self._within_reach & ~self.flat).any())

    @property
    def _within_reach(self) -> NDArray[np.bool_]:
        deviations = np.sqrt(np.einsum("pr,pr->p", self.factor, self.factor))
        return np.asarray(self.centre - FAR * deviations < self.lower)

    def draws(self, generator: np.random.Generator, n_draws: int) -> Matrix:
        """Return changes of the parameters, (n_draws, P), none of them beyond a bound.

        Every second draw mirrors the one before, which cancels errors of odd order, unless the distribution is cut.
        """
        if not self._within_reach.any():
            halves = generator.standard_normal(((n_draws + 1) // 2, self.factor.shape[1])) @ self.factor.T
            return np.stack([halves, -halves], axis=1).reshape(-1, len(self.factor))[:n_draws]
        bounded = np.isfinite(self.lower)
        covariance = self.factor @ self.factor.T
        own = covariance[np.ix_(bounded, bounded)]
        room = -self.lower[bounded]
        within = np.maximum(room, 0.1 * np.sqrt(np.diag(own)))
        cut = TruncatedNormal(self.centre[bounded] + room, own, 0.0, within).draws(generator, n_draws) - room
        # The others given these: a draw of all, moved by what its bounded part differs from the one that is kept.
        free = self.centre + generator.standard_normal((n_draws, self.factor.shape[1])) @ self.factor.T
        scale = np.sqrt(np.diag(own))
        correlation = own / np.outer(scale, scale)
        correlation[np.diag_indices_from(correlation)] += RIDGE
        slopes = cho_solve(cho_factor(correlation), covariance[bounded] / scale[:, np.newaxis])
        changes: Matrix = free + ((cut - free[:, bounded]) / scale) @ slopes
        changes[:, bounded] = cut
        return changes


def laplace(family: FittedFamily, data: LabelledPredictions, covariance: Covariance) -> Posterior:
    r"""Return the normal distribution around a fit to these rows.

    With A the Hessian of the sum of losses and of the penalty, :math:`\Lambda` the part of the penalty in it and B the
    sum of the squared gradients of the rows,

    .. math:: \Sigma_{\text{model}} = A^{-1}, \qquad
              \Sigma_{\text{sandwich}} = A^{-1} \Bigl(\frac{n}{n - d} B + \Lambda + g g^\top\Bigr) A^{-1}.

    A penalty counts as the normal prior whose logarithm it is. If the family is right B tends to the Hessian of the losses,
    and the two agree. The parameters have fitted themselves to the gradients; :math:`d = P - \mathrm{tr}(A^{-1} \Lambda)`,
    the number of those that the rows and not the prior determine, makes up for that. A truth that the prior thinks unlikely is
    missed by the bias of the penalty: :math:`A^{-1} g`, with g the gradient of the penalty at the fit, estimates it, and the
    variance has its square besides. Without a penalty g is zero. For estimates that are not those of
    one likelihood, such as K maps one against the rest, the model's form has the covariance that the gradients have
    if the map is true in the place of B. Costs :math:`O(n P^2 + P^3)` time, memory for a few matrices (P, P) and a
    block of rows.
    """
    size = family.n_parameters
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    hessian, squares, gradient = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size)
    for rows in row_blocks(data.n_rows, family.n_classes + size, min_rows=MIN_ROWS):
        features = family.features(data.predictions.take(rows))
        gradients = family.gradients(features, data.labels[rows])
        gradient += weights[rows] @ gradients
        hessian += family.information(features, weights[rows])
        if covariance == "sandwich":
            squares += (gradients * weights[rows, np.newaxis]).T @ gradients
        else:
            squares += family.expected_squares(features, weights[rows])
    prior = family.penalty_hessian(data.total_weight)
    at_bound = family.theta <= family.lower
    # Where a penalised fit stands still, the rows pull as much as the penalty does.
    pull = np.where(at_bound, 0.0, gradient) if prior.any() else np.zeros(size)
    gradient += family.penalty_gradient(data.total_weight)

    whole = hessian + prior
    scale = np.sqrt(np.maximum(np.diag(whole), LEAST_CURVATURE * data.total_weight))
    between = np.outer(scale, scale)
    root = _root(whole / between)
    hessian /= between
    if covariance == "sandwich":
        n_determined = float(np.trace(cho_solve((root, True), hessian)))
        squares *= 1 / max(1 - n_determined / data.total_weight, LEAST_SHARE)
        squares += np.outer(pull, pull)
    if covariance == "model" and family.is_likelihood:
        factor = solve_triangular(root, np.eye(size), lower=True).T
    else:
        factor = cho_solve((root, True), _root((squares + prior) / between))
    # A fit at a bound is where the loss would still fall if it could.
    pressing = np.where(at_bound & (gradient > 0), gradient, 0.0)
    centre = -cho_solve((root, True), pressing / scale) / scale
    flat = np.einsum("pr,pr->p", factor, factor) > FLAT / RIDGE
    return Posterior(factor / scale[:, np.newaxis], centre, family.lower - family.theta, flat)


def _root(matrix: Matrix) -> Matrix:
    """Return the Cholesky factor of a positive semidefinite matrix with a diagonal of about one, and of its ridge."""
    ridge = RIDGE
    while True:
        lifted = matrix + ridge * np.eye(len(matrix))
        try:
            root: Matrix = cholesky(lifted, lower=True)
            return root
        except np.linalg.LinAlgError:
            ridge *= 10  # rounding made a flat direction negative
