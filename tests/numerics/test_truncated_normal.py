"""Draws from a normal distribution above a bound: closed forms, rejection sampling, near-singular covariances."""

import numpy as np
import pytest
from scipy.stats import truncnorm

from calibrant.numerics.truncated_normal import TruncatedNormal


@pytest.mark.parametrize("centre", [-4.0, -1.0, 0.0, 2.0, 40.0])
def test_one_variable_by_closed_form(centre):
    """Mean and deviation of a truncated normal; 20,000 draws leave a hundredth of a deviation."""
    expected = truncnorm(-centre / 2, np.inf, loc=centre, scale=2)
    bounded = TruncatedNormal(np.array([centre]), np.array([[4.0]]), 0.0, np.array([1.0]))
    draws = bounded.draws(np.random.default_rng(0), 20_000)[:, 0]
    assert draws.min() >= 0
    assert draws.mean() == pytest.approx(expected.mean(), abs=0.03 * expected.std())
    assert draws.std() == pytest.approx(expected.std(), rel=0.03)
    below = expected.ppf(0.25)
    assert (draws < below).mean() == pytest.approx(0.25, abs=0.015)


def test_correlated_variables_by_rejection():
    generator = np.random.default_rng(1)
    root = generator.normal(size=(3, 3))
    centre, covariance = np.array([0.3, -0.4, 1.0]), root @ root.T
    plain = centre + generator.normal(size=(400_000, 3)) @ root.T
    kept = plain[(plain >= 0.1).all(axis=1)]
    assert len(kept) > 2000
    bounded = TruncatedNormal(centre, covariance, 0.1, np.ones(3))
    draws = bounded.draws(np.random.default_rng(2), 10_000)
    scale = kept.std(axis=0)
    assert np.abs(draws.mean(axis=0) - kept.mean(axis=0)) / scale == pytest.approx(0, abs=0.06)
    assert np.cov(draws.T) == pytest.approx(np.cov(kept.T), abs=0.12 * scale.max() ** 2)


def test_moments_are_those_of_many_draws():
    covariance = np.exp(-np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))))
    bounded = TruncatedNormal(np.array([0.0, 1.0, -1.0, 3.0]), covariance, 0.0, np.ones(4))
    mean, spread = bounded.moments(np.random.default_rng(0))
    draws = bounded.draws(np.random.default_rng(1), 20_000)
    assert mean == pytest.approx(draws.mean(axis=0), abs=0.1)
    assert spread == pytest.approx(np.cov(draws.T), abs=0.1)


def test_nearly_equal_variables_stay_nearly_equal_and_still_move():
    """One at a time they could move by 1e-4 of their deviation only; here each travel takes all of them along."""
    covariance = np.ones((6, 6)) + 1e-8 * np.eye(6)
    bounded = TruncatedNormal(np.zeros(6), covariance, 0.0, np.ones(6))
    draws = bounded.draws(np.random.default_rng(0), 5000)
    assert draws.min() >= 0
    assert np.ptp(draws, axis=1).max() < 1e-3
    assert draws.mean() == pytest.approx(np.sqrt(2 / np.pi), abs=0.03)


def test_a_singular_covariance_is_no_trouble():
    bounded = TruncatedNormal(np.array([0.5, 0.5]), np.ones((2, 2)), 0.0, np.array([0.6, 0.6]))
    draws = bounded.draws(np.random.default_rng(0), 1000)
    assert np.isfinite(draws).all()
    assert draws[:, 0] == pytest.approx(draws[:, 1], abs=1e-6)


def test_a_distribution_pressed_against_all_walls_stays_inside():
    """Deep in the tail the density is exp(-rate x) with rate = precision times distance: 3 / (0.01 + 10 * 0.005) = 50."""
    covariance = 0.01 * np.eye(10) + 0.005
    bounded = TruncatedNormal(np.full(10, -3.0), covariance, 0.0, np.full(10, 0.01))
    draws = bounded.draws(np.random.default_rng(0), 200)
    assert draws.min() >= 0
    assert draws.mean() == pytest.approx(1 / 50, rel=0.1)


def test_equal_sources_give_equal_draws():
    bounded = TruncatedNormal(np.zeros(3), np.eye(3), 0.0, np.ones(3))
    first, second = (bounded.draws(np.random.default_rng(5), 20) for _ in range(2))
    assert (first == second).all()
    assert len(np.unique(first[:, 0])) == 20
