"""Class shares of unlabelled rows by maximum likelihood: what the steps of Saerens and others converge to."""

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.shift.profile_limits import ProfilePaths
from calibrant.calibrators.shift.shares_found import shares_found
from calibrant.calibrators.shift.simplex_directions import Directions
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import BlockSums
from calibrant.solvers import likeliest_weights

__all__ = ["LikelihoodPrior", "mean_ratios"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class LikelihoodPrior:
    r"""The shares that make calibrated predictions of unlabelled rows most likely.

    .. math:: \hat\pi = \arg\max_\pi \sum_i w_i \log \sum_k \pi_k \frac{q_{ik}}{\pi^0_k}

    Concave, hence one maximum, found by :func:`likeliest_weights`. With :math:`r_{ik} = (q_{ik} / \pi^0_k) / \sum_j
    \hat\pi_j q_{ij} / \pi^0_j` the mean of r is one for every class with a share, and the information of a row
    is :math:`r_i r_i^\top`, which is also the square of its score: no further correction for the target rows is due.

    Parameters
    ----------
    probabilities : ndarray of shape (n, K)
        Calibrated predictions q of the target rows.
    row_weights : ndarray of shape (n,) or None
        How many rows each counts for.
    source_prior : ndarray of shape (K,)
        Shares that the predictions are calibrated for, all positive.

    Attributes
    ----------
    prior : ndarray of shape (K,)
    directions : Directions
        How the estimate reacts to a change of the mean of r.
    """

    def __init__(self, probabilities: Matrix, row_weights: Vector | None, source_prior: Vector) -> None:
        ratios = probabilities / source_prior
        ratios /= row_maxima(ratios)[:, np.newaxis]  # a factor of a row changes nothing
        self.ratios = ratios
        self.row_weights = row_weights
        self.n_rows = float(len(ratios) if row_weights is None else row_weights.sum())
        self.prior = shares_found(likeliest_weights(ratios, row_weights))
        scores, information = self._moments()
        self.directions = Directions.around(self.prior, information, scores)

    def rows(self, block: slice) -> Matrix:
        """Return the scores r of some rows."""
        part = self.ratios[block]
        return np.asarray(part / (part @ self.prior)[:, np.newaxis])

    def limits(self, quantiles: Vector, source_variances: Vector) -> tuple[Vector, Vector]:
        """Return limits where twice the log-likelihood has fallen by the squared quantile.

        A variance from elsewhere makes the fall that is allowed larger, in the ratio of the variances
        :cite:`royall2003`.
        """
        variances = self.target_variances
        inflation = 1 + source_variances / variances
        paths = ProfilePaths(self.ratios, self.row_weights, self.prior, self.directions.vectors)
        widths = quantiles * np.sqrt(variances + source_variances)
        return paths.limits(quantiles**2 * inflation, widths)

    @property
    def target_variances(self) -> Vector:
        """Variances of the shares from the target rows alone."""
        return np.asarray(1 / (self.n_rows * self.directions.curvatures))

    def _moments(self) -> tuple[Vector, Matrix]:
        size = len(self.prior)

        def block(rows: slice) -> Vector:
            scores = self.rows(rows)
            counted = scores if self.row_weights is None else scores * self.row_weights[rows, np.newaxis]
            return np.concatenate([counted.sum(axis=0), (counted.T @ scores).ravel()])

        with BlockSums.over(*self.ratios.shape) as sums:
            total = sums(block) / self.n_rows
        return total[:size], total[size:].reshape(size, size)


def mean_ratios(
    probabilities: Matrix, row_weights: Vector | None, source_prior: Vector, prior: Vector
) -> Vector:
    """Return the mean of r, (K,), for predictions and shares of the source as another fit would have them."""
    ratios = probabilities / source_prior
    ratios /= (ratios @ prior)[:, np.newaxis]
    return np.asarray(np.average(ratios, axis=0, weights=row_weights))
