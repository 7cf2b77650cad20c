"""Rows for the tests of Bayesian binning."""

import numpy as np
from numpy.typing import NDArray

from calibrant import BayesianBinning


def problem(n_rows: int, seed: int = 0, decimals: int = 16) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return scores of all sizes, and events of which there are fewer than the scores say."""
    generator = np.random.default_rng(seed)
    scores = generator.beta(0.4, 0.6, n_rows).round(decimals)
    outcomes = generator.random(n_rows) < scores**1.5
    outcomes[:2] = False, True
    return scores, outcomes.astype(int)


def positive(fitted: BayesianBinning, scores: object) -> NDArray[np.float64]:
    """Return the calibrated probability of the event."""
    return fitted.predict_proba(np.asarray(scores, dtype=np.float64))[:, 1]
