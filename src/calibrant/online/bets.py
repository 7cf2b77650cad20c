"""Bets against forecasts: their stakes, and their gains once the outcome is known (testing by betting)."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import expit

from calibrant.arrays import Vector

__all__ = ["Bets", "bin_bets", "class_bets", "global_bets"]


SLOPES = np.exp([-1.2, -0.7, -0.35, -0.15, -0.05, 0.05, 0.15, 0.35, 0.7, 1.2])
SHIFTS = np.array([-1.5, -0.75, -0.35, -0.15, -0.05, 0.05, 0.15, 0.35, 0.75, 1.5])
JOINT_SLOPES, JOINT_SHIFTS = np.exp([-0.6, -0.25, 0.25, 0.6]), np.array([-0.8, -0.3, 0.3, 0.8])
BIN_SHIFTS = np.array([-1.5, -0.6, -0.2, 0.2, 0.6, 1.5])
CLASS_SLOPES, CLASS_SHIFTS = np.exp([-0.5, -0.15, 0.15, 0.5]), np.array([-1.0, -0.4, -0.15, 0.15, 0.4, 1.0])
N_BINS = 10


@dataclass(frozen=True)
class Bets:
    r"""Alternative hypotheses about the probability of an event, each with a share of the capital.

    A bet assumes that the log-odds are :math:`a z + b` instead of z for forecasts from ``low`` to ``high``, and makes no
    claim about others. Its stake maximises the growth rate of its capital if it is correct (Kelly betting). After a
    forecast p and the outcome y, one unit becomes

    .. math:: 1 + \lambda (y - p), \qquad \lambda = \frac{q - p}{p (1 - p)}, \qquad q = \sigma(a z + b)

    which is the likelihood ratio of the two hypotheses. If forecasts are calibrated its expectation is 1 for any p, and
    it is never negative.

    Attributes
    ----------
    slope, shift : ndarray of shape (J,)
        a and b.
    low, high : ndarray of shape (J,)
        Range of forecasts to which the bet applies.
    share : ndarray of shape (J,)
        Its part of the initial capital; shares sum to one.
    """

    slope: Vector
    shift: Vector
    low: Vector
    high: Vector
    share: Vector

    def log_factors(self, p: Vector, y: Vector, weights: Vector | None, floor: float) -> Vector:
        """Return the logarithm of what one unit becomes, (..., J), for forecasts and outcomes of shape (...).

        Forecasts are clipped to a distance ``floor`` from 0 and 1 to form the alternative, so that a single outcome with
        probability zero does not win everything. The stakes are still fair for the forecast itself.
        """
        held = np.clip(p, floor, 1 - floor)[..., np.newaxis]
        opinion = expit(self.slope * (np.log(held) - np.log1p(-held)) + self.shift)
        own = p[..., np.newaxis]
        stake = (opinion - held) / (held * (1 - held))
        with np.errstate(divide="ignore", over="ignore"):
            # Larger stakes could lose more than the capital.
            np.clip(stake, -1 / (1 - own), 1 / own, out=stake)
        if self.low.any() or (self.high <= 1).any():
            stake *= (own >= self.low) & (own < self.high)
        stake *= (y - p)[..., np.newaxis]
        if weights is not None:
            stake *= weights.reshape(weights.shape + (1,) * (stake.ndim - 1))
        np.maximum(stake, -1.0, out=stake)  # true up to rounding
        with np.errstate(divide="ignore"):
            factors: Vector = np.log1p(stake, out=stake)
        return factors


def _over_all(slope: Vector, shift: Vector, share: Vector) -> Bets:
    return Bets(slope, shift, np.zeros(len(slope)), np.full(len(slope), np.inf), share / share.sum())


@cache
def global_bets() -> Bets:
    """Return bets on all forecasts: over- or underconfident, too high or too low, or combinations of two."""
    slopes, shifts = np.meshgrid(JOINT_SLOPES, JOINT_SHIFTS, indexing="ij")
    return _over_all(
        np.concatenate([SLOPES, np.ones(len(SHIFTS)), slopes.ravel()]),
        np.concatenate([np.zeros(len(SLOPES)), SHIFTS, shifts.ravel()]),
        np.repeat(
            [1 / len(SLOPES), 1 / len(SHIFTS), 1 / slopes.size], [len(SLOPES), len(SHIFTS), slopes.size]
        ),
    )


@cache
def bin_bets() -> Bets:
    """Return bets on the forecasts of one bin, for each of ten bins, with the same shifts."""
    edges = np.arange(N_BINS + 1) / N_BINS
    edges[-1] = np.inf
    size = N_BINS * len(BIN_SHIFTS)
    return Bets(
        np.ones(size),
        np.tile(BIN_SHIFTS, N_BINS),
        np.repeat(edges[:-1], len(BIN_SHIFTS)),
        np.repeat(edges[1:], len(BIN_SHIFTS)),
        np.full(size, 1 / size),
    )


@cache
def class_bets() -> Bets:
    """Return the smaller set of bets for each of many classes."""
    n_slopes, n_shifts = len(CLASS_SLOPES), len(CLASS_SHIFTS)
    return _over_all(
        np.concatenate([CLASS_SLOPES, np.ones(n_shifts)]),
        np.concatenate([np.zeros(n_slopes), CLASS_SHIFTS]),
        np.repeat([1 / n_slopes, 1 / n_shifts], [n_slopes, n_shifts]),
    )
