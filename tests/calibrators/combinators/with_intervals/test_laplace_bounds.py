"""The normal distribution around a fit: bounds, flat directions and weights."""

import interval_rows
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit

from calibrant import (
    BetaCalibration,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
    WithIntervals,
)
from calibrant.calibrators.combinators.with_intervals.posterior import Posterior, fitted_family


def rows_of(n_rows, n_classes, seed=0):
    return interval_rows.rows_of(n_rows, n_classes, seed, shift=0.3)


def test_parameters_at_a_bound_have_the_distribution_that_is_cut_off_there():
    """Centre -1, deviation 1, bound 0: mean phi(1) / Phi(-1) - 1 = 0.5251, and correlation moves the other along."""
    covariance = np.array([[1.0, 0.5], [0.5, 1.0]])
    bounds = np.array([0.0, -np.inf])
    posterior = Posterior(np.linalg.cholesky(covariance), np.array([-1.0, -0.5]), bounds, np.zeros(2, bool))
    assert posterior.is_cut
    draws = posterior.draws(np.random.default_rng(0), 4000)
    assert draws[:, 0].min() >= 0
    assert draws[:, 0].mean() == pytest.approx(0.5251, abs=0.03)
    # Given the first, the second has mean -0.5 + 0.5 (x + 1) and variance 0.75.
    rest = draws[:, 1] - (-0.5 + 0.5 * (draws[:, 0] + 1))
    assert rest.mean() == pytest.approx(0, abs=0.05)
    assert rest.var() == pytest.approx(0.75, abs=0.06)
    assert np.corrcoef(rest, draws[:, 0])[0, 1] == pytest.approx(0, abs=0.05)


def test_draws_have_the_covariance_and_no_bound_is_met_from_afar():
    factor = np.array([[1.0, 0.0], [-2.0, 0.5]])
    posterior = Posterior(factor, np.zeros(2), np.array([-5.0, -np.inf]), np.zeros(2, bool))
    assert not posterior.is_cut
    draws = posterior.draws(np.random.default_rng(0), 4001)
    assert draws.shape == (4001, 2)
    assert_allclose(draws[:4000].mean(axis=0), 0, atol=1e-12)  # every second one is a mirror image
    assert_allclose(np.cov(draws.T), factor @ factor.T, rtol=0.07)


def test_a_fit_that_is_pressed_against_its_bound_has_the_centre_beyond_it():
    """Of the loss to second order, exp(-g d - d A d / 2) for d >= 0, whose moments a grid gives."""
    generator = np.random.default_rng(3)
    p = generator.uniform(0.05, 0.95, 150)
    y = (generator.random(150) < 1 - (2 * (1 - p)) ** 0.9 / 2.6).astype(int)
    y[p < 0.25] = generator.random((p < 0.25).sum()) < 0.55  # low scores that point the wrong way
    fitted = WithIntervals(BetaCalibration("ab"), covariance="model", n_draws=4000).fit(p, y)
    inner = fitted.calibrator_
    columns = np.column_stack([np.log(2 * p), -np.log(2 * (1 - p))])
    q = expit(columns @ [inner.a_, inner.b_])
    gradient, hessian = columns.T @ (q - y), columns.T @ (columns * (q * (1 - q))[:, np.newaxis])
    assert inner.a_ == 0
    assert gradient[0] > 0.5 * np.sqrt(hessian[0, 0])  # far enough for the centre to matter
    reach = 6 / np.sqrt(np.linalg.eigvalsh(hessian)[0])
    first, second = np.meshgrid(np.linspace(0, reach, 800), np.linspace(-inner.b_, reach, 800))
    changes = np.column_stack([first.ravel(), second.ravel()])
    logarithms = -gradient[0] * changes[:, 0] - np.einsum("gp,pq,gq->g", changes, hessian, changes) / 2
    density = np.exp(logarithms - logarithms.max())
    mean = density @ changes / density.sum()
    deviation = np.sqrt(density @ (changes - mean) ** 2 / density.sum())
    found = fitted.parameter_draws_
    assert_allclose(found.mean(axis=0), mean, atol=0.06 * deviation.min())
    assert_allclose(found.std(axis=0), deviation, rtol=0.06)


def test_the_powers_of_beta_calibration_stay_positive():
    """Scores that say nothing: the best powers are zero, and no draw has a negative one."""
    p = np.tile([0.2, 0.4, 0.6, 0.8], 50)
    y = np.tile([1, 0, 1, 0, 0, 1, 0, 1], 25)
    fitted = WithIntervals(BetaCalibration()).fit(p, y)
    assert fitted.is_cut_
    inner = fitted.calibrator_
    powers = fitted.parameter_draws_[:, :2] + [inner.a_, inner.b_]
    assert powers.min() >= 0
    assert powers.max() > 0
    lower, upper = fitted.predict_interval(p[:4])
    assert (lower < upper).all()
    assert (upper[:, 1] < 0.85).all()


def test_rows_that_say_nothing_about_a_direction_leave_everything_open():
    """All calibration rows give three classes alike: nothing is known of a temperature."""
    fitted = WithIntervals(VectorScaling(bias=False)).fit(np.full((30, 3), 1 / 3), [0, 1, 2] * 10)
    lower, upper = fitted.predict_interval([[0.7, 0.2, 0.1]])
    assert lower.max() < 1e-6
    assert upper.min() > 1 - 1e-6


def test_nearly_certain_rows_have_exact_information():
    """q (1 - q) of a row with log-odds of 40 is 4e-18, where 1 - q^2 would be rounding."""
    family = fitted_family(VectorScaling(bias=False).fit([[0.6, 0.4], [0.4, 0.6]] * 5, [0, 1, 1, 0, 0] * 2))
    p = np.array([[expit(40.0), expit(-40.0)]])
    found = family.family.map.information(p, np.ones(1), np.ones((1, 2)))
    assert_allclose(found, expit(-40.0) * np.array([[1, -1], [-1, 1]]), rtol=1e-9)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), copies=st.integers(2, 4))
def test_a_weight_counts_as_copies_of_the_row(seed, copies):
    p, y = rows_of(40, 3, seed)
    weights = np.where(np.arange(40) % 3 == 0, copies, 1)
    repeated = np.repeat(np.arange(40), weights)
    for calibrator in (TemperatureScaling(), PlattScaling()):
        weighted = WithIntervals(calibrator).fit(p, y, weights)
        copied = WithIntervals(calibrator).fit(p[repeated], y[repeated])
        ends = zip(weighted.predict_interval(p), copied.predict_interval(p), strict=True)
        for mine, theirs in ends:
            assert_allclose(mine, theirs, atol=1e-5)


def test_weights_that_sum_to_one_do_not_make_rows_fewer():
    p, y = rows_of(100, 3)
    plain = WithIntervals(VectorScaling()).fit(p, y).predict_interval(p)
    small = WithIntervals(VectorScaling()).fit(p, y, np.full(100, 0.01)).predict_interval(p)
    assert_allclose(plain, small, atol=1e-6)
