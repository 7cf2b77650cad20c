"""The likelihood in the slopes: against loops and finite differences; prior and knots by their formulas."""

import numpy as np
import pytest
from monotone_rows import kernel, naive_loss, some_rows
from scipy.optimize import approx_fprime

from calibrant.calibrators.latent.gaussian_process.increasing import (
    NOISE,
    SlopeLikelihood,
    SlopePrior,
    informative_knots,
)
from calibrant.numerics.increasing_curve import Pieces


def expansion(scores, labels, weights, knots, slopes):
    likelihood = SlopeLikelihood(scores, labels, weights, Pieces(knots))
    with likelihood.open() as in_all_blocks:
        return likelihood.expand(slopes, in_all_blocks)


@pytest.fixture
def problem():
    scores, labels = some_rows(30, 4)
    generator = np.random.default_rng(1)
    knots = np.sort(np.append(generator.uniform(scores.min(), 0, 5), [scores.min(), scores.max()]))
    return scores, labels, generator.uniform(0.5, 2, 30), knots, generator.exponential(size=7)


def test_the_value_is_that_of_loops(problem):
    assert expansion(*problem).value == pytest.approx(naive_loss(*problem), rel=1e-12)


def test_gradient_and_hessian_against_finite_differences(problem):
    *rows, slopes = problem
    exact = expansion(*problem)
    numeric = approx_fprime(slopes, lambda s: naive_loss(*rows, s), 1e-6)
    assert exact.gradient == pytest.approx(numeric, abs=2e-4)
    bent = [
        (expansion(*rows, slopes + step).gradient - expansion(*rows, slopes - step).gradient) / 2e-5
        for step in 1e-5 * np.eye(len(slopes))
    ]
    assert exact.hessian == pytest.approx(np.array(bent), abs=1e-6 * np.abs(exact.hessian).max())


def test_many_blocks_of_rows_against_dense_features():
    """Sum of w (F^T (diag q - q q^T) F) with all features F of a row, (K, m)."""
    scores, labels = some_rows(700, 5, seed=4)
    weights = np.random.default_rng(0).uniform(size=700)
    knots = informative_knots(scores, weights, 12)
    slopes = np.linspace(0.2, 1.5, 12)
    features = Pieces(knots).features_at(scores)
    value, gradient, hessian = 0.0, np.zeros(12), np.zeros((12, 12))
    for row, label, weight in zip(features, labels, weights, strict=True):
        shares = np.exp(row @ slopes)
        value += weight * (np.log(shares.sum()) - row[label] @ slopes)
        shares /= shares.sum()
        gradient += weight * (shares @ row - row[label])
        hessian += weight * (row.T * shares @ row - np.outer(shares @ row, shares @ row))
    found = expansion(scores, labels, weights, knots, slopes)
    assert found.value == pytest.approx(value, rel=1e-12)
    assert found.gradient == pytest.approx(gradient, abs=1e-9 * np.abs(gradient).max())
    assert found.hessian == pytest.approx(hessian, abs=1e-10 * np.abs(hessian).max())


def test_float32_scores_give_the_same_to_their_accuracy():
    scores, labels = some_rows(100, 3)
    knots, slopes = np.linspace(scores.min(), scores.max(), 9), np.linspace(1, 2, 9)
    narrow = expansion(scores.astype(np.float32), labels, None, knots, slopes)
    wide = expansion(scores, labels, None, knots, slopes)
    for mine, theirs in zip(narrow, wide, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4, abs=1e-4)


def test_covariances_of_slopes_are_mixed_differences_of_the_kernel():
    """Cov(g'(s), g'(t)) = d/ds d/dt k(s, t), Cov(g'(s), g(t)) = d/ds k(s, t)."""
    knots, h = np.array([-3.0, -1.5, 0.0, 4.0]), 1e-4
    prior = SlopePrior(knots, 2.5, 1.7)
    up, down = knots + h, knots - h
    mixed = sum(
        sign * kernel(a, b, 2.5, 1.7)
        for a, b, sign in [(up, up, 1), (up, down, -1), (down, up, -1), (down, down, 1)]
    )
    without_noise = prior.covariance() / (1 + NOISE * np.eye(4))
    assert without_noise == pytest.approx(mixed / (4 * h * h), abs=1e-6)
    assert prior.precision @ prior.covariance() == pytest.approx(np.eye(4), abs=1e-9)
    one_sided = (kernel(up, np.array([1.0]), 2.5, 1.7) - kernel(down, np.array([1.0]), 2.5, 1.7)).ravel() / (
        2 * h
    )
    weights, rest = prior.level(1.0)
    assert prior.covariance() @ weights == pytest.approx(one_sided, abs=1e-6)
    assert rest == pytest.approx(2.5 - one_sided @ weights, abs=1e-6)
    assert 0 < rest < 2.5


def test_the_penalty_is_a_gaussian_density_but_for_a_constant():
    prior = SlopePrior(np.array([0.0, 1.0]), 4.0, 2.0)
    away = np.array([0.25, -0.5])
    expected = away @ np.linalg.inv(prior.covariance()) @ away / 2
    assert prior.penalty(1.0 + away) == pytest.approx(expected, rel=1e-9)


def test_half_of_the_knots_are_where_information_is():
    """Nearly all shares between 0.2 and 0.8 lie in a tenth of the range, beside one score that is far out."""
    scores = np.log(np.random.default_rng(0).uniform(0.2, 0.8, size=(500, 1)))
    scores = np.hstack([scores, np.log1p(-np.exp(scores))])
    scores[0] = [0.0, -20.0]
    knots = informative_knots(scores, None, 41)
    assert (np.diff(knots) > 0).all()
    assert knots[[0, -1]] == pytest.approx([-20, 0], abs=1e-12)
    assert 20 <= (knots > -2).sum() <= 24
    assert np.diff(knots).max() <= 2 * 20 / 40 + 1e-12


def test_knots_of_weights_and_of_repeated_rows_agree():
    scores, _ = some_rows(50, 3)
    weights = np.arange(50) % 3 + 1.0
    repeated = np.repeat(scores, weights.astype(int), axis=0)
    assert informative_knots(scores, weights, 20) == pytest.approx(
        informative_knots(repeated, None, 20), abs=1e-12
    )


@pytest.mark.parametrize(
    "scores",
    [np.zeros((4, 3)), np.full((2, 2), -1e6), np.array([[1e6, 1e6 + 1e-6]]), np.array([[0.0, 1e-310]])],
)
def test_knots_of_equal_scores_lie_around_them(scores):
    knots = informative_knots(scores, None, 5)
    assert (np.diff(knots) > 0).all()
    assert knots[0] < scores.min() <= scores.max() < knots[-1]


def test_rows_without_doubt_have_even_knots():
    assert informative_knots(np.array([[0.0, -2000.0]] * 3), None, 5) == pytest.approx(
        np.linspace(-2000, 0, 5)
    )
