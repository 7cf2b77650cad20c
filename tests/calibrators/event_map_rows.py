"""Log-odds of one event, outcomes that follow a function of them, and the log-odds that a calibrator makes of them."""

import numpy as np
from scipy.special import expit

from calibrant import Predictions


def rows_that_follow(truth, mean, spread, n_rows, seed):
    """Normal log-odds, and outcomes drawn from a function of them that gives true log-odds; both outcomes occur."""
    generator = np.random.default_rng(seed)
    log_odds = generator.normal(mean, spread, n_rows)
    outcomes = (generator.random(n_rows) < expit(truth(log_odds))).astype(int)
    outcomes[:2] = [0, 1]
    return log_odds, outcomes


def fit_log_odds(calibrator, log_odds, outcomes, weights=None):
    return calibrator.fit(Predictions.from_logits(log_odds), outcomes, weights)


def calibrated(fitted, log_odds):
    """Calibrated log-odds."""
    logits = fitted.transform(Predictions.from_logits(np.asarray(log_odds, dtype=float))).scores
    return logits[:, 1] - logits[:, 0]
