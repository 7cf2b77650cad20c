"""E-processes and e-detectors of calibration: likelihood ratios of many alternatives, mixed (testing by betting)."""

from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np
from scipy.special import expit

from calibrant.arrays import Vector

__all__ = ["Capital", "Kind", "bin_bets", "capitals", "class_bets", "global_bets"]


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


Kind = Literal["any-time", "change"]
About = Literal["event", "top-label", "class"]


@dataclass(frozen=True)
class Paths:
    """Capital after each row.

    Attributes
    ----------
    total : ndarray of shape (n,)
        Logarithm of the total capital.
    of_bets : ndarray of shape (n, S, J)
        Logarithm of the part of each bet.
    """

    total: Vector
    of_bets: Vector


@dataclass
class Capital:
    r"""Capital of the same bets on each of S events.

    For ``"any-time"`` every bet starts with its share and stakes its complete capital in every row,
    :math:`M_t = M_{t-1} L_t`, so the sum is a martingale with expectation one while forecasts are calibrated.
    No row affects bets on two bins. The capitals of bins, of which half is never staked, may
    therefore be multiplied, which adds up the evidence of all bins. For ``"change"`` every bet receives its share
    again before each row, :math:`R_t = (R_{t-1} + 1) L_t` (Shiryaev-Roberts), so that losses before a change have no
    effect; :math:`R_t - t` is then the martingale.

    Attributes
    ----------
    bets : Bets
    about : {"event", "top-label", "class"}
        Kind of event.
    share : float
        Part of the total capital.
    n_events : int
        S.
    by_bin : int
        Number of bins whose capitals are multiplied; 0 to add all bets.
    logarithms : ndarray of shape (S, J)
        Log-capital of each bet, relative to an initial capital of one.
    """

    bets: Bets
    about: About
    share: float
    n_events: int
    by_bin: int
    kind: Kind
    logarithms: Vector = field(init=False)

    def __post_init__(self) -> None:
        start = 0.0 if self.kind == "any-time" else -np.inf
        self.logarithms = np.full((self.n_events, len(self.bets.share)), start)

    def advance(self, p: Vector, y: Vector, weights: Vector | None, floor: float) -> Paths:
        """Process some rows, (n, S), and return the paths, including the share of the total."""
        factors = self.bets.log_factors(p, y, weights, floor)
        if self.kind == "any-time":
            money = self.logarithms + np.cumsum(factors, axis=0)
        else:
            money = _restarted(self.logarithms, factors)
        self.logarithms = money[-1].copy()
        own = money + np.log(self.bets.share * self.share / self.n_events)
        if not self.by_bin or self.kind == "change":
            return Paths(_log_sum(own.reshape(len(own), -1)), own)
        # Per event and bin half of the capital is not staked; the other half is divided among the bets.
        n_bets = money.shape[2] // self.by_bin
        bins = money.reshape(len(money), -1, n_bets)
        within = np.logaddexp(0.0, _log_sum(bins) - np.log(n_bets)) - np.log(2.0)
        total = within.reshape(len(money), self.n_events, self.by_bin).sum(axis=2)
        return Paths(_log_sum(total) + np.log(self.share / self.n_events), own)


def capitals(about: About, n_classes: int, kind: Kind) -> list[Capital]:
    """Return the capitals for a stream; their shares sum to one."""
    if about == "class":
        of_top = 0.5
        classes = [Capital(class_bets(), "class", 1 - of_top, n_classes, 0, kind)]
        return [*_both("top-label", of_top, kind), *classes]
    return _both(about, 1.0, kind)


def _both(about: About, share: float, kind: Kind) -> list[Capital]:
    n_bins = len(np.unique(bin_bets().low))
    return [
        Capital(global_bets(), about, 0.75 * share, 1, 0, kind),
        Capital(bin_bets(), about, 0.25 * share, 1, n_bins, kind),
    ]


def _restarted(before: Vector, factors: Vector) -> Vector:
    """Return the logarithm of R after each row, from its value before the first row and the log-factors."""
    if np.isneginf(factors).any():
        # A bet that has lost everything restarts from one unit, which sums of logarithms cannot represent.
        money = np.empty_like(factors)
        for row, factor in enumerate(factors):
            before = money[row] = np.logaddexp(before, 0.0) + factor
        return money
    # R_t = C_t (R_0 + sum over s <= t of 1 / C_(s-1)), with C the products of the factors.
    steps = np.cumsum(factors, axis=0)
    inverse = np.logaddexp.accumulate(factors - steps, axis=0)
    restarted: Vector = steps + np.logaddexp(before, inverse)
    return restarted


def _log_sum(logarithms: Vector) -> Vector:
    """Return log-sum-exp along the last axis; minus infinity for an empty sum."""
    largest = logarithms.max(axis=-1, keepdims=True)
    safe = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        total: Vector = np.log(np.exp(logarithms - safe).sum(axis=-1)) + safe[..., 0]
    return total
