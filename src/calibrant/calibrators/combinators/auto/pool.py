"""Pools: weights of the candidates, from their held-out losses and a prior that was estimated on other tasks."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.arrays import Matrix, Vector
from calibrant.calibrators.combinators.auto.trials import STEPS, Candidate, Trials
from calibrant.calibrators.scaling.temperature import TemperatureScaling
from calibrant.solvers.simplex_weights import likeliest_weights

__all__ = ["Pool", "pooled", "prior_log_odds", "probability_of_identity", "single"]


# Differences of fewer nats than this are rounding and unfinished searches.
ROUNDING = 2e-5

# The constants of the prior are chosen on the odd-numbered sets by benchmarks/prior_of_automatic_choice.py.

# Dirichlet prior of the weights, in pseudo-counts per family of candidates. It keeps the weights of a small calibration set
# spread. A temperature is what fits best with few rows. The identity has little, since it has a prior probability too, and
# step functions enter only if the rows want them.
PRIOR_ROWS, PRIOR_ROWS_OF_TEMPERATURE, PRIOR_ROWS_OF_IDENTITY, PRIOR_ROWS_OF_STEPS = 0.5, 1.0, 0.1, 0.01

# Prior odds of the identity against the pool: the first number, divided by a power of the number of classes. Classifiers of
# many classes are rarely calibrated.
PRIOR_ODDS, POWER_OF_CLASSES = 10.0, 0.8

# A smaller posterior probability of the identity is rounded to 0.
LEAST_SHARE = 1e-4


@dataclass(frozen=True, eq=False)
class Pool:
    """Weights of the candidates, and the out-of-fold losses of the pool.

    Attributes
    ----------
    weights : ndarray of shape (m,)
        Weight of every evaluated candidate; non-negative, with sum 1.
    losses : ndarray of shape (N,)
        Log-loss of every held-out row, with maps and weights fitted without its fold.
    """

    weights: Vector
    losses: Vector


def pooled(trials: Trials, negligible: float, n_classes: int) -> Pool:
    r"""Average a mixture of all candidates and the identity, by the posterior probability that predictions are calibrated.

    The mixture has the weights of the largest posterior density given the held-out rows,

    .. math:: \max_{w \ge 0, \sum_c w_c = 1} \; \sum_i v_i \log \sum_c w_c\, \hat q_c^{(-i)}(y_i) + \sum_c \tau_c \log w_c

    Components with a weight below ``negligible`` are dropped and the weights of the others are refitted. The posterior
    probability of the identity is that of :func:`probability_of_identity`. The losses are out of fold: neither maps nor
    weights are fitted to the row, although the weights come from losses of maps that are.
    """
    losses = np.stack([trial.losses for trial in trials.evaluated if trial.losses is not None], axis=1)
    prior = _prior([trial.candidate for trial in trials.evaluated])
    weights = _sparse_weights(losses, trials.weights, prior, negligible)
    log_odds = prior_log_odds(n_classes)
    held_out = [(trials.fold_numbers == fold) for fold in np.unique(trials.fold_numbers)]
    both = losses[:, [0, 0]]  # of the identity and of the mixture
    for test in held_out:
        without = _sparse_weights(losses[~test], trials.weights[~test], prior, negligible)
        both[test, 1] = _mixture_losses(losses[test], without)
    gains = trials.weights * (both[:, 0] - both[:, 1])
    own = np.empty(len(losses))
    for test in held_out:
        share = probability_of_identity(float(gains[~test].sum()), log_odds, negligible)
        own[test] = _mixture_losses(both[test], np.array([share, 1 - share]))
    share = probability_of_identity(float(gains.sum()), log_odds, negligible)
    weights *= 1 - share
    weights[0] += share
    return Pool(weights, own)


def prior_log_odds(n_classes: int) -> float:
    r"""Return the prior log-odds of the identity against the pool, :math:`\rho = \log(10 / K^{0.8})`.

    >>> [round(prior_log_odds(n_classes), 2) for n_classes in (2, 10, 100)]
    [1.75, 0.46, -1.38]
    """
    return float(np.log(PRIOR_ODDS) - POWER_OF_CLASSES * np.log(n_classes))


def probability_of_identity(gain: float, log_odds: float, negligible: float) -> float:
    r"""Return the posterior probability that the uncalibrated predictions are better than the pool.

    .. math:: \frac{1}{1 + e^{G - \rho}}

    for the total held-out gain G of the pool, in nats: its exponential is the pseudo-Bayes factor :cite:`geisser1979` and
    :math:`\rho` the prior log-odds. Rounded to 0 or 1 if the identity or the pool is negligible.

    >>> [round(probability_of_identity(gain, 1.5, 0.02), 3) for gain in (-10.0, 0.0, 5.0, 20.0)]
    [1.0, 0.818, 0.029, 0.0]
    """
    share = float(expit(log_odds - gain))
    if share < LEAST_SHARE:
        return 0.0
    return 1.0 if 1 - share < negligible else share


def single(trials: Trials) -> Pool:
    """Put all weight on the simplest candidate within one standard error of the best one.

    The losses are those of a choice without the fold of the row.
    """
    losses = np.stack([trial.losses for trial in trials.evaluated if trial.losses is not None], axis=1)
    own = np.empty(len(losses))
    for fold in np.unique(trials.fold_numbers):
        test = trials.fold_numbers == fold
        own[test] = losses[test, _simplest(losses, trials, ~test)]
    weights = np.zeros(losses.shape[1])
    weights[_simplest(losses, trials, np.full(len(losses), True))] = 1.0
    return Pool(weights, own)


def _simplest(losses: Matrix, trials: Trials, rows: NDArray[np.bool_]) -> int:
    """Return the first candidate within one standard error of the best on the given rows."""
    losses = losses[rows]
    means = np.average(losses, axis=0, weights=trials.weights[rows])
    best = int(np.argmin(means))
    for place in range(losses.shape[1]):
        excess = losses[:, place] - losses[:, best]
        allowed = max(ROUNDING, trials.standard_error(excess, rows) if place != best else 0.0)
        if means[place] - means[best] <= allowed:
            return place
    return best


def _prior(candidates: list[Candidate]) -> Vector:
    """Return the pseudo-count of each candidate; a family shares one."""
    counts = Counter(candidate.family for candidate in candidates)
    prior = np.array([_pseudo_count(candidate) / counts[candidate.family] for candidate in candidates])
    prior[0] = PRIOR_ROWS_OF_IDENTITY
    return prior


def _pseudo_count(candidate: Candidate) -> float:
    if isinstance(candidate.calibrator, TemperatureScaling):
        return PRIOR_ROWS_OF_TEMPERATURE
    return PRIOR_ROWS_OF_STEPS if candidate.name in STEPS else PRIOR_ROWS


def _sparse_weights(losses: Matrix, row_weights: Vector, prior: Vector, negligible: float) -> Vector:
    """Return the maximum-a-posteriori weights with negligible ones dropped; identical candidates share their weight."""
    weights = np.zeros(losses.shape[1])
    kept = np.arange(losses.shape[1])
    likelihoods = _likelihoods(losses)
    while True:
        # A pseudo-count is a row to which only this candidate gives a positive likelihood.
        rows = np.concatenate([likelihoods[:, kept], np.eye(len(kept))])
        found = likeliest_weights(rows, np.concatenate([row_weights, prior[kept]])).theta
        small = (found < negligible) & (found < found.max())
        if not small.any():
            weights[kept] = found / found.sum()
            return weights
        kept = kept[~small]


def _likelihoods(losses: Matrix) -> Matrix:
    """Return likelihoods relative to the largest of each row, so that they do not all underflow."""
    likelihoods: Matrix = np.exp(losses.min(axis=1, keepdims=True) - losses)
    return likelihoods


def _mixture_losses(losses: Matrix, weights: Vector) -> Vector:
    lowest = losses.min(axis=1)
    mixed = np.exp(lowest[:, np.newaxis] - losses) @ weights
    result: Vector = lowest - np.log(mixed)
    return result
