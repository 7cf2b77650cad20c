"""Murphy diagrams: a loop over rows, the Brier score as their area, dominance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.metrics import brier_score, murphy_curve
from strategies import problems


def naive_score(p, y, theta):
    """Mean of the elementary score, row by row."""
    cost = [
        theta * (q > theta) * (o == 0) + (1 - theta) * (q <= theta) * (o == 1)
        for q, o in zip(p, y, strict=True)
    ]
    return float(np.mean(cost))


@given(problem=problems(), theta=st.floats(0, 1))
def test_the_score_is_the_mean_regret(problem, theta):
    X, y = problem
    curve = murphy_curve(y, X)
    confidence = np.clip(X.max(axis=1), 0, 1).astype(np.float64)
    right = (X.argmax(axis=1) == y).astype(int)
    assert curve.at(theta) == pytest.approx(naive_score(confidence, right, theta), abs=1e-12)
    np.testing.assert_allclose(curve.at(curve.threshold), curve.score)


@given(problem=problems())
def test_twice_the_area_is_the_brier_score(problem):
    """Of all classes: the mean over rows and classes, that is the Brier score over K; of two classes half of that sum."""
    X, y = problem
    n_classes = X.shape[1]
    expected = brier_score(y, X) / (1 if n_classes == 2 else n_classes)
    assert murphy_curve(y, X, kind="classwise").brier == pytest.approx(expected, abs=1e-5)


def test_weights_count_rows():
    y, p = [1, 0, 1], [0.8, 0.4, 0.3]
    weighted = murphy_curve(y, p, kind="positive", sample_weight=[2, 1, 0])
    repeated = murphy_curve([1, 1, 0], [0.8, 0.8, 0.4], kind="positive")
    at = np.linspace(0, 1, 21)
    np.testing.assert_allclose(weighted.at(at), repeated.at(at))


def test_the_true_probabilities_are_nowhere_above_others_in_expectation():
    """All rows of a fine grid, weighted by the true chance of each outcome, so nothing is left to chance."""
    truth = np.linspace(0.01, 0.99, 99)
    y, weights = np.repeat([1, 0], 99), np.concatenate([truth, 1 - truth])
    at = np.linspace(0.005, 0.995, 100)
    best = murphy_curve(y, np.tile(truth, 2), kind="positive", sample_weight=weights).at(at)
    for other in (truth**2, np.clip(1.5 * truth - 0.25, 0, 1), np.full(99, 0.5)):
        score = murphy_curve(y, np.tile(other, 2), kind="positive", sample_weight=weights).at(at)
        assert (best <= score + 1e-12).all()
