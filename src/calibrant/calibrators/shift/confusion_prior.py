"""Class shares of unlabelled rows from how often each class is predicted, by the confusion matrix."""

import numpy as np

from calibrant.arrays import Matrix, Vector
from calibrant.calibrators.shift.shares_found import shares_found
from calibrant.calibrators.shift.simplex_directions import Directions
from calibrant.solvers import least_squares_weights

__all__ = ["ConfusionPrior"]


class ConfusionPrior:
    r"""The shares whose implied predictions are nearest to those of the target rows.

    .. math:: \hat\pi = \arg\min_{\pi \ge 0,\, \sum_k \pi_k = 1}
              \lVert C \pi - \mu \rVert^2 + \rho \sum_k (\pi_k / \pi^0_k - 1)^2

    where column k of C is the mean prediction, or the frequency of each predicted class, among source rows of class k,
    and :math:`\mu` the same over the target rows.

    Parameters
    ----------
    predicted : ndarray of shape (n, K)
        Calibrated predictions of the target rows, or one for the predicted class and zero for the others.
    row_weights : ndarray of shape (n,) or None
    confusion : ndarray of shape (K, K)
        C.
    source_prior : ndarray of shape (K,)
    ridge : float
        :math:`\rho`.

    Attributes
    ----------
    prior : ndarray of shape (K,)
    directions : Directions
    """

    def __init__(
        self,
        predicted: Matrix,
        row_weights: Vector | None,
        confusion: Matrix,
        source_prior: Vector,
        ridge: float,
    ) -> None:
        self.predicted = predicted
        self.row_weights = row_weights
        self.confusion = confusion
        self.n_rows = float(len(predicted) if row_weights is None else row_weights.sum())
        self.mean = np.average(predicted, axis=0, weights=row_weights)
        strengths = ridge / source_prior**2
        gram = confusion.T @ confusion + np.diag(strengths)
        linear = confusion.T @ self.mean + strengths * source_prior
        self.prior = shares_found(least_squares_weights(gram, linear))
        self.slopes = linear - gram @ self.prior
        self.directions = Directions.around(self.prior, gram, self.slopes)

    def rows(self, block: slice) -> Matrix:
        """Return the scores of some rows: what each adds to the slopes."""
        return np.asarray(self.predicted[block] @ self.confusion)

    @property
    def target_variances(self) -> Vector:
        """Variances of the shares from the target rows alone."""
        return self._spread() / self.n_rows

    def limits(self, quantiles: Vector, source_variances: Vector) -> tuple[Vector, Vector]:
        r"""Return the shares t with :math:`(t - \tilde t)^2` at most the squared quantile times the variance at t.

        As in Wilson's interval for a proportion, the variance is that which the share t would give, so that a class
        that is never predicted has an upper limit above zero.
        """
        vectors, curvatures = self.directions.vectors, self.directions.curvatures
        free = self.prior + vectors @ self.slopes / curvatures  # without the bound at zero
        # Which multiple of a row's prediction adds to share k, and how predictions change with that share.
        loads = (vectors @ self.confusion.T) / curvatures[:, np.newaxis]
        changes = vectors @ self.confusion.T
        implied = self.confusion @ self.prior
        squares, tilts = loads**2 @ implied, np.einsum("kj,kj->k", loads**2, changes)
        means, gains = loads @ implied, np.einsum("kj,kj->k", loads, changes)
        # If each row were a draw of one class the variance at t = prior + s would be
        # squares + tilts s - (means + gains s)^2; predictions between zero and one vary less.
        drawn = np.maximum(squares - means**2, 0.0)
        one_row = (loads**2).max(
            axis=1
        ) / self.n_rows  # so that no variance, seen or implied, is taken for less
        share = np.minimum((self._spread() + one_row) / (drawn + one_row), 1.0)
        scale = quantiles**2 * share / self.n_rows
        offset = self.prior - free
        quadratic = 1 + scale * gains**2
        linear = 2 * offset - scale * (tilts - 2 * means * gains)
        constant = offset**2 - scale * drawn - quantiles**2 * source_variances
        root = np.sqrt(np.maximum(linear**2 - 4 * quadratic * constant, 0.0))
        lower = self.prior + (-linear - root) / (2 * quadratic)
        upper = self.prior + (-linear + root) / (2 * quadratic)
        return np.clip(lower, 0.0, self.prior), np.clip(upper, self.prior, 1.0)

    def _spread(self) -> Vector:
        """Return the variance of what a row adds to each share."""
        loads = (self.directions.vectors @ self.confusion.T) / self.directions.curvatures[:, np.newaxis]
        weighted = (
            self.predicted if self.row_weights is None else self.predicted * self.row_weights[:, np.newaxis]
        )
        moments = weighted.T @ self.predicted / self.n_rows
        squares = np.einsum("kj,jl,kl->k", loads, moments, loads, optimize=True)
        return np.asarray(np.maximum(squares - (loads @ self.mean) ** 2, 0.0))
