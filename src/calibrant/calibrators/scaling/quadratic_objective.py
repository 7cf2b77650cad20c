"""Log-loss of log-odds that are linear in a few parameters, with a quadratic penalty."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from calibrant.calibrators.reductions.binary_problem import binary_problem
from calibrant.calibrators.scaling.temperature_fit import fit_inverse_temperature
from calibrant.numerics.row_blocks import BlockSums
from calibrant.predictions import Predictions
from calibrant.solvers import Solution
from calibrant.solvers.bounded_newton import ConvexExpansion, bounded_newton

__all__ = ["EventRows", "PenalisedLogOdds"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

BOUNDS = (1e-6, 1e6)  # of the inverse temperature, around that which makes log-odds of unit size


@dataclass(frozen=True, eq=False)
class EventRows:
    """What was predicted of one event, and whether it happened.

    Attributes
    ----------
    log_odds : ndarray of shape (n,)
        Scores; finite.
    outcomes : ndarray of shape (n,)
        True where the event happened; either occurs.
    weights : ndarray of shape (n,) or None
        Positive weights that count rows.

    Examples
    --------
    >>> rows = EventRows(np.log([9.0, 9.0, 9.0, 9.0]), np.array([True, True, True, False]), None)
    >>> round(rows.temperature().theta.item(), 6)
    0.5
    """

    log_odds: Vector
    outcomes: NDArray[np.bool_]
    weights: Vector | None

    @property
    def total_weight(self) -> float:
        """Number of rows, or the sum of their weights."""
        return float(len(self.outcomes) if self.weights is None else self.weights.sum())

    def log_loss(self, log_odds: Vector) -> float:
        """Return the mean log-loss of other log-odds for these rows."""
        losses = log_expit(np.where(self.outcomes, log_odds, -log_odds))
        return -float(np.average(losses, weights=self.weights))

    def temperature(self) -> Solution:
        """Return the best inverse temperature as a one-element theta; never worse than 1."""
        size = float(np.average(np.abs(self.log_odds), weights=self.weights))
        unit = 1 / size if 1 / np.finfo(np.float64).max < size < np.inf else 1.0
        data = binary_problem(Predictions.from_logits(self.log_odds), self.outcomes, self.weights)
        return fit_inverse_temperature(
            data, bounds=(BOUNDS[0] * min(1.0, unit), BOUNDS[1] * max(1.0, unit)), tolerance=1e-10
        )


@dataclass(frozen=True, eq=False)
class PenalisedLogOdds:
    r"""Mean log-loss of :math:`u = \theta^\top f` with a penalty, as a function of the parameters.

    .. math:: F(\theta) = \frac{1}{\sum_i w_i} \Big[ \sum_i w_i \big(\ln(1 + e^{u_i}) - o_i u_i\big)
              + (\theta - c)^\top M (\theta - c) \Big]

    Convex. Its gradient is :math:`\sum_i w_i (\sigma(u_i) - o_i) f_i` and its Hessian
    :math:`\sum_i w_i \sigma(u_i) \sigma(-u_i) f_i f_i^\top`, besides the penalty, all from one pass.

    Attributes
    ----------
    rows : EventRows
        Calibration rows.
    features : callable
        Gives the features f of some rows, (m, rows).
    centre : ndarray of shape (m,)
        Where the penalty is zero, c.
    strengths : ndarray of shape (m, m)
        Symmetric matrix M of the penalty, in rows.

    Notes
    -----
    Costs O(n m^2) time a pass and the memory of a block of rows.

    Examples
    --------
    Three of four events at a single score of 1, without and with a penalty on the slope:

    >>> rows = EventRows(np.ones(4), np.array([True, True, True, False]), None)
    >>> for strength in (0.0, 1.0):
    ...     objective = PenalisedLogOdds(rows, lambda block: rows.log_odds[np.newaxis, block], np.zeros(1),
    ...                                  np.array([[strength]]))
    ...     print(objective.minimum(np.zeros(1), -np.inf).theta.round(4))
    [1.0986]
    [0.3344]
    """

    rows: EventRows
    features: Callable[[slice], Matrix]
    centre: Vector
    strengths: Matrix

    def price(self, theta: Vector) -> float:
        """Return the penalty alone."""
        away = theta - self.centre
        return float(away @ self.strengths @ away / self.rows.total_weight)

    def expand(self, theta: Vector) -> ConvexExpansion:
        """Return value, gradient and Hessian."""
        size, total = len(theta), self.rows.total_weight
        with BlockSums.over(len(self.rows.outcomes), 2 * size) as in_all_blocks:
            sums = in_all_blocks(lambda block: self._block(theta, block)) / total
        bend = 2 * self.strengths / total
        return ConvexExpansion(
            float(sums[0]) + self.price(theta),
            sums[1 : size + 1] + bend @ (theta - self.centre),
            sums[size + 1 :].reshape(size, size) + bend,
        )

    def minimum(self, start: Vector, lower: Vector | float) -> Solution:
        """Return the best parameters above their bounds; the identity's loss is that of the rows as they are."""
        found = bounded_newton(self.expand, start, lower)
        return replace(
            found,
            loss=found.value - self.price(found.theta),
            identity_loss=self.rows.log_loss(self.rows.log_odds),
        )

    def _block(self, theta: Vector, rows: slice) -> Vector:
        """Return the sums of losses, gradients and Hessians of some rows, one after the other."""
        features, outcomes = self.features(rows), self.rows.outcomes[rows]
        log_odds = theta @ features
        small = np.exp(-np.abs(log_odds))  # at most one: nothing overflows
        larger = 1 / (1 + small)
        smaller = small * larger
        losses = np.log1p(small) + np.maximum(np.where(outcomes, -log_odds, log_odds), 0.0)
        # The probability of what did not happen, with all its digits, and the sign of the outcome.
        residuals = np.where(outcomes == (log_odds >= 0), smaller, larger)
        np.negative(residuals, out=residuals, where=outcomes)
        bends = smaller * larger
        if self.rows.weights is not None:
            weights = self.rows.weights[rows]
            losses *= weights
            residuals *= weights
            bends *= weights
        hessian = (features * bends) @ features.T
        return np.concatenate([[losses.sum()], features @ residuals, hessian.ravel()])
