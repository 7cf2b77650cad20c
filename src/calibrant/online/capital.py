"""Capital of many bets after every row of a stream."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from calibrant.arrays import Vector
from calibrant.online.bets import Bets, bin_bets, class_bets, global_bets

__all__ = ["Capital", "Kind", "Paths", "capitals"]

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
