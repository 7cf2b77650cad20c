"""Logistic regression on one variable: the likeliest line, its profile, and the limits where there is none."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, log_expit, xlogy

from calibrant.arrays import Vector

__all__ = ["LogisticLine", "profile_end"]


LARGEST_NUMBER_OF_STEPS = 200


class LogisticLine:
    """Logistic regression of an outcome on one score, with the limits where there is no maximum."""

    def __init__(self, scores: Vector, outcomes: NDArray[np.bool_], weights: Vector) -> None:
        self.scores = scores
        self.outcomes = outcomes.astype(np.float64)
        self.signs = 2 * self.outcomes - 1
        self.weights = weights
        self.one_outcome = bool(outcomes.all() or not outcomes.any())
        self.one_score = bool(scores.min() == scores.max())

    def log_likelihood(self, linear: Vector) -> float:
        """Return the weighted log-likelihood of the outcomes at these log-odds."""
        return float(self.weights @ log_expit(self.signs * linear))

    def best(self, column: Vector, offset: Vector, start: float) -> tuple[float, float]:
        """Return the coefficient of one column that maximises the likelihood, and the maximum."""
        low, high, reach, at = -np.inf, np.inf, 1.0, start
        for _ in range(LARGEST_NUMBER_OF_STEPS):
            mean = expit(offset + at * column)
            slope = float(self.weights @ ((self.outcomes - mean) * column))
            bend = float(self.weights @ (mean * (1 - mean) * column * column))
            low, high = (at, high) if slope > 0 else (low, at)
            # Where everything is saturated Newton would leap anywhere: reach out further each time instead.
            step = slope / bend if bend * reach > abs(slope) else float(np.copysign(reach, slope))
            if slope == 0 or abs(step) <= 1e-9 * (1 + abs(at)):
                break
            at = at + step if low < at + step < high else (low + high) / 2
            reach *= 2
        return at, self.log_likelihood(offset + at * column)

    def shift(self, slope: float, start: float = 0.0) -> tuple[float, float]:
        """Return the best intercept for a given slope, and the likelihood there."""
        return self.best(np.ones_like(self.scores), slope * self.scores, start)

    def best_line(self) -> tuple[Vector, float, NDArray[np.float64]]:
        """Return intercept and slope, the maximum, and the covariance, by Newton on standardised scores."""
        centre = float(np.average(self.scores, weights=self.weights))
        spread = float(np.sqrt(np.average((self.scores - centre) ** 2, weights=self.weights)))
        columns = np.stack([np.ones_like(self.scores), (self.scores - centre) / spread])
        theta = np.zeros(2)
        value = self.log_likelihood(theta @ columns)
        for _ in range(LARGEST_NUMBER_OF_STEPS):
            mean = expit(theta @ columns)
            gradient = columns @ (self.weights * (self.outcomes - mean))
            hessian = (columns * (self.weights * mean * (1 - mean))) @ columns.T
            covariance = np.linalg.pinv(hessian, hermitian=True)
            step = covariance @ gradient
            if gradient @ step < 1e-16:  # the square of the distance from the optimum, in standard errors
                break
            while (new := self.log_likelihood((theta + step) @ columns)) < value - 1e-12 * abs(value):
                step /= 2
            theta, value = theta + step, new
        back = np.array([[1.0, -centre / spread], [0.0, 1 / spread]])
        return back @ theta, value, back @ covariance @ back.T

    def supremum(self) -> tuple[float, float] | None:
        """Return slope and likelihood in the limit where outcomes are separated; None where they overlap."""
        if self.one_outcome:
            return np.nan, 0.0
        hits, misses = self.scores[self.outcomes == 1], self.scores[self.outcomes == 0]
        if self.one_score:
            return np.nan, self.shift(0.0)[1]
        for slope, below, above in ((np.inf, misses.max(), hits.min()), (-np.inf, hits.max(), misses.min())):
            if below < above:
                return slope, 0.0
            if below == above:  # rows on the border stay undecided
                border = self.scores == below
                hit = float(self.weights @ (border * self.outcomes))
                miss = float(self.weights @ (border * (1 - self.outcomes)))
                return slope, float(xlogy(hit, hit / (hit + miss)) + xlogy(miss, miss / (hit + miss)))
        return None


def profile_end(
    value: float, reach: float, loss: Callable[[float], float], allowed: float, side: int
) -> float:
    """Return where the log-likelihood has fallen from its maximum by as much as the interval allows."""
    if value == side * np.inf:
        return value
    # Saturated rows make standard errors that are far too long for a step.
    inside, step = value, side * min(reach, 1 + abs(value))
    if np.isinf(value):
        inside, step = 0.0, -float(side)
        while loss(inside) >= allowed:
            inside, step = inside + step, 2 * step
        step = float(side)
    outside = inside + step
    while loss(outside) < allowed:
        inside, step = outside, 2 * step
        outside = inside + step
    precision = 1e-7 * abs(outside - inside)
    return float(brentq(lambda at: loss(at) - allowed, inside, outside, xtol=precision))
