"""One-vs-rest log-odds, their delta-method deviations, and confidence intervals."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, ndtri

from calibrant.arrays import Cube, Matrix
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["LogOdds", "normal_quantile"]


def normal_quantile(level: float) -> float:
    """Return the two-sided normal quantile z of a confidence level.

    >>> round(normal_quantile(0.95), 3)
    1.96
    """
    return float(-ndtri((1 - level) / 2))


@dataclass(frozen=True, eq=False)
class LogOdds:
    r"""One-vs-rest log-odds of rows of probabilities, with full precision near one.

    For :math:`p = \mathrm{softmax}(u)` a change du of the scores changes them by

    .. math:: d \ln\frac{p_k}{1 - p_k} = \frac{du_k - \sum_j p_j\, du_j}{1 - p_k},

    the change of the score of class k minus the mean change of the others. So the variance of u gives theirs to first
    order (the delta method). For two classes it is exact.

    Attributes
    ----------
    log_odds : ndarray of shape (n, K)
        Infinite where a probability is exactly zero or one.
    largest : ndarray of shape (n,)
        Column of the largest probability of every row.
    shares : ndarray of shape (n, K)
        Distribution over the other classes, given that the class is not the largest; zero for the largest itself.

    Examples
    --------
    >>> rows = LogOdds.of(Predictions.from_probabilities([[0.2, 0.8], [1e-20, 1.0]]))
    >>> rows.log_odds.round(2)
    array([[ -1.39,   1.39], [-46.05,  46.05]])
    """

    log_odds: Matrix
    largest: NDArray[np.intp]
    shares: Matrix

    @classmethod
    def of(cls, predictions: Predictions) -> Self:
        """Return the log-odds of predictions; O(nK)."""
        scores = predictions.scores.astype(np.float64)
        if predictions.space is Space.PROBABILITIES:
            with np.errstate(divide="ignore"):
                np.log(scores, out=scores)
        rows, largest = np.arange(len(scores)), predictions.predicted
        own = scores[rows, largest].copy()
        scores[rows, largest] = -np.inf
        second = scores.max(axis=1)
        # If all others are zero their shares are zero.
        shares = np.exp(scores - np.where(np.isfinite(second), second, 0.0)[:, np.newaxis])
        totals = shares.sum(axis=1)
        some = totals > 0
        of_others = np.full(len(scores), -np.inf)
        of_others[some] = second[some] + np.log(totals[some])
        shares[some] /= totals[some, np.newaxis]
        of_largest = own - of_others
        # Not by the logarithm of a share, which may be too small to be a number.
        log_odds = np.full_like(scores, -np.inf)
        log_odds[some] = scores[some] + (log_expit(-of_largest[some]) - of_others[some])[:, np.newaxis]
        log_odds -= np.log1p(-np.exp(log_odds))
        log_odds[rows, largest] = of_largest
        return cls(log_odds, largest, shares)

    def deviations(self, directions: Cube) -> Matrix:
        """Return standard deviations of the log-odds, (n, K), where scores vary as ``directions`` times white noise.

        The directions are (n, K, r), the derivatives of the scores in r independent standard normal variables. O(nKr).
        """
        rows = np.arange(len(directions))
        of_others = np.einsum("ik,ikr->ir", self.shares, directions)
        of_largest = directions[rows, self.largest]
        confidence = expit(self.log_odds[rows, self.largest])[:, np.newaxis]
        mean = confidence * of_largest + (1 - confidence) * of_others
        apart = directions - mean[:, np.newaxis]
        deviations: Matrix = np.sqrt(np.einsum("ikr,ikr->ik", apart, apart))
        deviations /= self._complements()
        # One minus a probability near one has lost its digits; the shares of the others have not.
        apart = of_largest - of_others
        deviations[rows, self.largest] = np.sqrt(np.einsum("ir,ir->i", apart, apart))
        return deviations

    def independent_deviations(self, variances: Matrix) -> Matrix:
        """Return standard deviations of the log-odds, (n, K), where all scores vary by themselves, by (n, K) variances."""
        rows = np.arange(len(variances))
        own = self.log_odds[rows, self.largest]
        probabilities = expit(-own)[:, np.newaxis] * self.shares
        probabilities[rows, self.largest] = expit(own)
        squares = probabilities**2 * variances
        of_others = (squares.sum(axis=1, keepdims=True) - squares) / self._complements() ** 2
        of_others[rows, self.largest] = (self.shares**2 * variances).sum(axis=1)
        deviations: Matrix = np.sqrt(variances + np.maximum(of_others, 0.0))
        return deviations

    def ends(self, deviations: Matrix, level: float) -> tuple[Matrix, Matrix]:
        """Return both ends of the intervals of this level for the probabilities, (n, K) each."""
        reach = normal_quantile(level) * deviations
        return expit(self.log_odds - reach), expit(self.log_odds + reach)

    def _complements(self) -> Matrix:
        """Return one minus the probability of every class but the largest, at least one half; one for the largest."""
        complements: Matrix = expit(-self.log_odds)
        complements[np.arange(len(complements)), self.largest] = 1.0
        return complements
