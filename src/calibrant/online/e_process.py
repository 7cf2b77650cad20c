"""E-processes and e-detectors of calibration: mixtures of likelihood ratios (testing by betting)."""

from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np
from scipy.special import expit

from calibrant.arrays import Vector

__all__ = ["EProcess", "Kind", "bin_alternatives", "class_alternatives", "e_processes", "global_alternatives"]


SLOPES = np.exp([-1.2, -0.7, -0.35, -0.15, -0.05, 0.05, 0.15, 0.35, 0.7, 1.2])
SHIFTS = np.array([-1.5, -0.75, -0.35, -0.15, -0.05, 0.05, 0.15, 0.35, 0.75, 1.5])
JOINT_SLOPES, JOINT_SHIFTS = np.exp([-0.6, -0.25, 0.25, 0.6]), np.array([-0.8, -0.3, 0.3, 0.8])
BIN_SHIFTS = np.array([-1.5, -0.6, -0.2, 0.2, 0.6, 1.5])
CLASS_SLOPES, CLASS_SHIFTS = np.exp([-0.5, -0.15, 0.15, 0.5]), np.array([-1.0, -0.4, -0.15, 0.15, 0.4, 1.0])
N_BINS = 10


@dataclass(frozen=True)
class Alternatives:
    r"""Alternative hypotheses about the probability of an event, each with a prior weight.

    An alternative says that the log-odds are :math:`a z + b` instead of z for forecasts from ``low`` to ``high``, and agrees
    with all other forecasts. Its likelihood ratio against calibration, for a forecast p and the outcome y, is

    .. math:: 1 + \lambda (y - p), \qquad \lambda = \frac{q - p}{p (1 - p)}, \qquad q = \sigma(a z + b) .

    This is an e-value: never negative, and of expectation 1 for any p if forecasts are calibrated. It is also what a Kelly
    bet on the alternative makes of one unit.

    Attributes
    ----------
    slope, shift : ndarray of shape (J,)
        a and b.
    low, high : ndarray of shape (J,)
        Range of forecasts to which the alternative applies.
    prior : ndarray of shape (J,)
        Prior weights; they sum to one.
    """

    slope: Vector
    shift: Vector
    low: Vector
    high: Vector
    prior: Vector

    def log_likelihood_ratios(self, p: Vector, y: Vector, weights: Vector | None, floor: float) -> Vector:
        """Return the log-likelihood ratio of each alternative, (..., J), for forecasts and outcomes of shape (...).

        Forecasts are clipped to a distance ``floor`` from 0 and 1 to form the alternative, so that a single outcome with
        probability zero is not infinite evidence. The expectation is still 1 for the forecast itself.
        """
        clipped = np.clip(p, floor, 1 - floor)[..., np.newaxis]
        alternative = expit(self.slope * (np.log(clipped) - np.log1p(-clipped)) + self.shift)
        own = p[..., np.newaxis]
        change = (alternative - clipped) / (clipped * (1 - clipped))
        with np.errstate(divide="ignore", over="ignore"):
            # Beyond these limits the ratio could be negative.
            np.clip(change, -1 / (1 - own), 1 / own, out=change)
        if self.low.any() or (self.high <= 1).any():
            change *= (own >= self.low) & (own < self.high)
        change *= (y - p)[..., np.newaxis]
        if weights is not None:
            change *= weights.reshape(weights.shape + (1,) * (change.ndim - 1))
        np.maximum(change, -1.0, out=change)  # true up to rounding
        with np.errstate(divide="ignore"):
            factors: Vector = np.log1p(change, out=change)
        return factors


def _for_all_forecasts(slope: Vector, shift: Vector, prior: Vector) -> Alternatives:
    return Alternatives(slope, shift, np.zeros(len(slope)), np.full(len(slope), np.inf), prior / prior.sum())


@cache
def global_alternatives() -> Alternatives:
    """Return alternatives for all forecasts: over- or underconfident, too high or too low, or combinations of two."""
    slopes, shifts = np.meshgrid(JOINT_SLOPES, JOINT_SHIFTS, indexing="ij")
    return _for_all_forecasts(
        np.concatenate([SLOPES, np.ones(len(SHIFTS)), slopes.ravel()]),
        np.concatenate([np.zeros(len(SLOPES)), SHIFTS, shifts.ravel()]),
        np.repeat(
            [1 / len(SLOPES), 1 / len(SHIFTS), 1 / slopes.size], [len(SLOPES), len(SHIFTS), slopes.size]
        ),
    )


@cache
def bin_alternatives() -> Alternatives:
    """Return alternatives for the forecasts of one bin, for each of ten bins, with the same shifts."""
    edges = np.arange(N_BINS + 1) / N_BINS
    edges[-1] = np.inf
    size = N_BINS * len(BIN_SHIFTS)
    return Alternatives(
        np.ones(size),
        np.tile(BIN_SHIFTS, N_BINS),
        np.repeat(edges[:-1], len(BIN_SHIFTS)),
        np.repeat(edges[1:], len(BIN_SHIFTS)),
        np.full(size, 1 / size),
    )


@cache
def class_alternatives() -> Alternatives:
    """Return the smaller set of alternatives for each of many classes."""
    n_slopes, n_shifts = len(CLASS_SLOPES), len(CLASS_SHIFTS)
    return _for_all_forecasts(
        np.concatenate([CLASS_SLOPES, np.ones(n_shifts)]),
        np.concatenate([np.zeros(n_slopes), CLASS_SHIFTS]),
        np.repeat([1 / n_slopes, 1 / n_shifts], [n_slopes, n_shifts]),
    )


Kind = Literal["any-time", "change"]
About = Literal["event", "top-label", "class"]


@dataclass(frozen=True)
class Paths:
    """Log-e-values after each row.

    Attributes
    ----------
    total : ndarray of shape (n,)
        Logarithm of the mixture.
    of_alternatives : ndarray of shape (n, S, J)
        Logarithm of the term of each alternative.
    """

    total: Vector
    of_alternatives: Vector


@dataclass
class EProcess:
    r"""E-process against calibration: a mixture of the likelihood ratios of the same alternatives for each of S events.

    For ``"any-time"`` the likelihood ratios of all rows are multiplied, :math:`M_t = M_{t-1} L_t`, so the mixture is a
    martingale with expectation one while forecasts are calibrated. Each row is in one bin only. The e-values of
    bins, each mixed half and half with 1, may therefore be multiplied, which adds up the evidence of all bins. For
    ``"change"`` every alternative restarts before each row, :math:`R_t = (R_{t-1} + 1) L_t` (Shiryaev-Roberts), so that
    rows before a change have no effect; :math:`R_t - t` is then the martingale.

    Attributes
    ----------
    alternatives : Alternatives
    about : {"event", "top-label", "class"}
        Kind of event.
    prior : float
        Prior weight of this process among those of a stream.
    n_events : int
        S.
    by_bin : int
        Number of bins whose e-values are multiplied; 0 to mix all alternatives.
    logarithms : ndarray of shape (S, J)
        Log-likelihood ratio of each alternative so far, without its prior weight.
    """

    alternatives: Alternatives
    about: About
    prior: float
    n_events: int
    by_bin: int
    kind: Kind
    logarithms: Vector = field(init=False)

    def __post_init__(self) -> None:
        start = 0.0 if self.kind == "any-time" else -np.inf
        self.logarithms = np.full((self.n_events, len(self.alternatives.prior)), start)

    def advance(self, p: Vector, y: Vector, weights: Vector | None, floor: float) -> Paths:
        """Process some rows, (n, S), and return the paths, including prior weights."""
        factors = self.alternatives.log_likelihood_ratios(p, y, weights, floor)
        if self.kind == "any-time":
            logarithms = self.logarithms + np.cumsum(factors, axis=0)
        else:
            logarithms = _restarted(self.logarithms, factors)
        self.logarithms = logarithms[-1].copy()
        own = logarithms + np.log(self.alternatives.prior * self.prior / self.n_events)
        if not self.by_bin or self.kind == "change":
            return Paths(_log_sum(own.reshape(len(own), -1)), own)
        # Per event and bin, half of the weight is on calibration; the other half is divided among the alternatives.
        n_alternatives = logarithms.shape[2] // self.by_bin
        bins = logarithms.reshape(len(logarithms), -1, n_alternatives)
        within = np.logaddexp(0.0, _log_sum(bins) - np.log(n_alternatives)) - np.log(2.0)
        total = within.reshape(len(logarithms), self.n_events, self.by_bin).sum(axis=2)
        return Paths(_log_sum(total) + np.log(self.prior / self.n_events), own)


def e_processes(about: About, n_classes: int, kind: Kind) -> list[EProcess]:
    """Return the processes of a stream; their prior weights sum to one."""
    if about == "class":
        of_top = 0.5
        classes = [EProcess(class_alternatives(), "class", 1 - of_top, n_classes, 0, kind)]
        return [*_both("top-label", of_top, kind), *classes]
    return _both(about, 1.0, kind)


def _both(about: About, prior: float, kind: Kind) -> list[EProcess]:
    n_bins = len(np.unique(bin_alternatives().low))
    return [
        EProcess(global_alternatives(), about, 0.75 * prior, 1, 0, kind),
        EProcess(bin_alternatives(), about, 0.25 * prior, 1, n_bins, kind),
    ]


def _restarted(before: Vector, factors: Vector) -> Vector:
    """Return the logarithm of R after each row, from its value before the first row and the log-factors."""
    if np.isneginf(factors).any():
        # A likelihood ratio of zero restarts from one, which sums of logarithms cannot represent.
        logarithms = np.empty_like(factors)
        for row, factor in enumerate(factors):
            before = logarithms[row] = np.logaddexp(before, 0.0) + factor
        return logarithms
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
