"""The pool: weights of candidates by the likelihood of rows held out, and how much it gains there."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.automatic.trials import Trials
from calibrant.solvers.simplex_weights import likeliest_weights

__all__ = ["Pool", "pooled", "single"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Differences of fewer nats than this are rounding and unfinished searches.
ROUNDING = 2e-5

# Rows that each family of candidates is thought to have explained before any is seen, the identity more of them: with few
# rows the weights stay spread, and what a good fit of few rows can cost is bounded. Chosen on the odd-numbered sets of
# benchmarks/structured_and_auto.py.
PRIOR_ROWS, PRIOR_ROWS_OF_IDENTITY = 0.3, 1.0


@dataclass(frozen=True, eq=False)
class Pool:
    """Weights of the candidates, and what they promise for rows that were not used to find them.

    Attributes
    ----------
    weights : ndarray of shape (m,)
        One for every candidate that was judged, not negative, summing to one.
    losses : ndarray of shape (N,)
        Log-loss of every row held out, by maps and weights that have not seen its fold.
    """

    weights: Vector
    losses: Vector


def pooled(trials: Trials, negligible: float) -> Pool:
    r"""Return the mixture of all candidates that makes rows held out most likely, with a little prior belief in each.

    .. math:: \max_{w \ge 0, \sum_c w_c = 1} \; \sum_i v_i \log \sum_c w_c\, \hat q_c^{(-i)}(y_i) + \sum_c \tau_c \log w_c

    Components below ``negligible`` are dropped and the weights of the others found anew. The losses are those of
    weights found without the fold that a row is in: neither the maps that speak about a row nor the weights have been fitted to
    it, though the weights come from losses of maps that have.
    """
    losses = np.stack([trial.losses for trial in trials.judged if trial.losses is not None], axis=1)
    prior = _prior([trial.candidate.family for trial in trials.judged])
    weights = _sparse_weights(losses, trials.weights, prior, negligible)
    own = np.empty(len(losses))
    for fold in np.unique(trials.fold_numbers):
        test = trials.fold_numbers == fold
        without = _sparse_weights(losses[~test], trials.weights[~test], prior, negligible)
        own[test] = _mixture_losses(losses[test], without)
    return Pool(weights, own)


def single(trials: Trials) -> Pool:
    """Return all weight on the simplest candidate within one standard error of the best one.

    The losses are those of the choice made without the fold that a row is in.
    """
    losses = np.stack([trial.losses for trial in trials.judged if trial.losses is not None], axis=1)
    own = np.empty(len(losses))
    for fold in np.unique(trials.fold_numbers):
        test = trials.fold_numbers == fold
        own[test] = losses[test, _simplest(losses, trials, ~test)]
    weights = np.zeros(losses.shape[1])
    weights[_simplest(losses, trials, np.full(len(losses), True))] = 1.0
    return Pool(weights, own)


def _simplest(losses: Matrix, trials: Trials, rows: NDArray[np.bool_]) -> int:
    """Return the first candidate within one standard error of the best, on some of the rows."""
    losses = losses[rows]
    means = np.average(losses, axis=0, weights=trials.weights[rows])
    best = int(np.argmin(means))
    for place in range(losses.shape[1]):
        excess = losses[:, place] - losses[:, best]
        allowed = max(ROUNDING, trials.standard_error(excess, rows) if place != best else 0.0)
        if means[place] - means[best] <= allowed:
            return place
    return best


def _prior(families: list[str]) -> Vector:
    """Return the rows that each candidate is believed to have explained; those of one family share theirs."""
    counts = Counter(families)
    prior = np.array([PRIOR_ROWS / counts[family] for family in families])
    prior[0] = PRIOR_ROWS_OF_IDENTITY
    return prior


def _sparse_weights(losses: Matrix, row_weights: Vector, prior: Vector, negligible: float) -> Vector:
    """Return the likeliest weights without those that are negligible; candidates that are the same share theirs."""
    weights = np.zeros(losses.shape[1])
    kept = np.arange(losses.shape[1])
    likelihoods = _likelihoods(losses)
    while True:
        # Belief in one candidate is a row that only this one can explain.
        rows = np.concatenate([likelihoods[:, kept], np.eye(len(kept))])
        found = likeliest_weights(rows, np.concatenate([row_weights, prior[kept]])).theta
        small = (found < negligible) & (found < found.max())
        if not small.any():
            weights[kept] = found / found.sum()
            return weights
        kept = kept[~small]


def _likelihoods(losses: Matrix) -> Matrix:
    """Return likelihoods, in every row as shares of the largest, so that none of them underflows."""
    likelihoods: Matrix = np.exp(losses.min(axis=1, keepdims=True) - losses)
    return likelihoods


def _mixture_losses(losses: Matrix, weights: Vector) -> Vector:
    lowest = losses.min(axis=1)
    mixed = np.exp(lowest[:, np.newaxis] - losses) @ weights
    result: Vector = lowest - np.log(mixed)
    return result
