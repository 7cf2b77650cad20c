"""Temperature scaling: closed forms, invariances, the Brier variant, and what happens at the edges."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.metrics import log_loss

from calibrant import Predictions, TemperatureScaling
from calibrant.calibrators.scaling import temperature_fit
from calibrant.errors import ConvergenceWarning, ParameterError
from calibrant.objective import ArrayRows


def some_logits(n_rows=400, n_classes=4, seed=0, scale=3.0):
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=scale, size=(n_rows, n_classes))
    shares = np.exp(logits / 2 - (logits / 2).max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    labels = (shares.cumsum(axis=1) < generator.uniform(size=(n_rows, 1))).sum(axis=1).clip(max=n_classes - 1)
    return logits, labels


def test_three_of_four_right_at_ninety_percent():
    """sigmoid(beta log 9) = 3/4, hence beta = log 3 / log 9 = 1/2, for log-loss and Brier alike."""
    for loss in ("log", "brier"):
        fitted = TemperatureScaling(loss=loss).fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
        assert fitted.inverse_temperature_ == pytest.approx(log(3) / log(9), rel=1e-8)


def test_k_equal_wrong_classes():
    """Top class right with frequency r among K: r / (1 - r) * (K - 1) = exp(beta * gap)."""
    p = [[0.7, 0.1, 0.1, 0.1]] * 10
    fitted = TemperatureScaling().fit(p, [0] * 4 + [1] * 2 + [2] * 2 + [3] * 2)
    assert fitted.inverse_temperature_ == pytest.approx(log(4 / 2) / log(7), rel=1e-9)


def test_logits_and_their_softmax_give_the_same_map():
    """Proposition 1 of Kull et al. 2019, for temperature scaling."""
    logits, labels = some_logits()
    raw = Predictions.from_logits(logits)
    on_logits = TemperatureScaling().fit(raw, labels)
    on_probabilities = TemperatureScaling().fit(raw.probabilities, labels)
    assert on_probabilities.temperature_ == pytest.approx(on_logits.temperature_, rel=1e-9)


@given(factor=st.floats(0.05, 20))
def test_scaling_the_logits_scales_the_temperature(factor):
    logits, labels = some_logits()
    plain = TemperatureScaling().fit(Predictions.from_logits(logits), labels)
    scaled = TemperatureScaling().fit(Predictions.from_logits(factor * logits), labels)
    assert scaled.temperature_ == pytest.approx(factor * plain.temperature_, rel=1e-7)


@given(shift=st.floats(-1e6, 1e6))
def test_shifting_a_row_changes_nothing(shift):
    logits, labels = some_logits()
    plain = TemperatureScaling().fit(Predictions.from_logits(logits), labels)
    shifted = TemperatureScaling().fit(Predictions.from_logits(logits + shift), labels)
    assert shifted.temperature_ == pytest.approx(plain.temperature_, rel=1e-5)


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_the_loss_is_the_smallest_a_plain_search_finds(loss):
    logits, labels = some_logits(seed=4)
    fitted = TemperatureScaling(loss=loss).fit(Predictions.from_logits(logits), labels)

    def naive(log_beta):
        p = np.exp(np.exp(log_beta) * logits)
        p /= p.sum(axis=1, keepdims=True)
        if loss == "log":
            return log_loss(labels, p)
        return ((p - np.eye(4)[labels]) ** 2).sum(axis=1).mean()

    best = min(
        (
            minimize_scalar(naive, bounds=(a, a + 1), method="bounded", options={"xatol": 1e-9})
            for a in range(-4, 4)
        ),
        key=lambda found: found.fun,
    )
    assert fitted.solution_.loss == pytest.approx(best.fun, rel=1e-10)
    assert fitted.inverse_temperature_ == pytest.approx(np.exp(best.x), rel=1e-4)


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_derivatives_against_finite_differences(loss):
    logits, labels = some_logits(n_rows=50, seed=1)
    weights = np.random.default_rng(0).uniform(0.5, 2, 50)
    mean_loss = temperature_fit._MeanLoss(ArrayRows(logits, labels, weights), loss)
    step = 1e-5
    for beta in (0.2, 1.0, 3.0):
        _, first, second = mean_loss(beta)
        above, below = mean_loss(beta + step), mean_loss(beta - step)
        assert first == pytest.approx((above[0] - below[0]) / (2 * step), rel=1e-6)
        assert second == pytest.approx((above[1] - below[1]) / (2 * step), rel=1e-6)


def test_a_sample_of_rows_only_helps_to_start():
    """Many rows are first looked at in a sample; the answer is the one of all rows."""
    logits, labels = some_logits(n_rows=20_000, seed=2)
    fitted = TemperatureScaling().fit(Predictions.from_logits(logits), labels)
    exact = minimize_scalar(
        lambda beta: log_loss(
            labels, np.exp(beta * logits) / np.exp(beta * logits).sum(axis=1, keepdims=True)
        ),
        bounds=(0.1, 2),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert fitted.inverse_temperature_ == pytest.approx(exact.x, rel=1e-6)
    assert fitted.solution_.n_iterations <= 5


def test_rows_that_are_all_right_send_it_to_the_edge_and_warn():
    with pytest.warns(ConvergenceWarning, match="edge of the allowed range"):
        fitted = TemperatureScaling().fit([[0.6, 0.4], [0.4, 0.6]], [0, 1])
    assert fitted.inverse_temperature_ == pytest.approx(1000)
    assert np.isfinite(fitted.predict_proba([[0.6, 0.4]])).all()


def test_rows_that_are_all_wrong_send_it_to_the_other_edge():
    with pytest.warns(ConvergenceWarning, match="edge of the allowed range"):
        fitted = TemperatureScaling().fit([[0.6, 0.4], [0.4, 0.6]], [1, 0])
    assert fitted.inverse_temperature_ == pytest.approx(1e-3)


def test_huge_scores_do_not_overflow():
    logits, labels = some_logits()
    fitted = TemperatureScaling(bounds=(1e-9, 1e3)).fit(Predictions.from_logits(1e5 * logits), labels)
    assert np.isfinite(fitted.predict_proba(Predictions.from_logits(1e5 * logits))).all()
    assert fitted.solution_.converged


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "hinge"}, "loss must be 'log' or 'brier'"),
        ({"bounds": (2.0, 3.0)}, "positive numbers around 1"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        TemperatureScaling(**parameters).fit([[0.6, 0.4], [0.4, 0.6]], [0, 1])


def test_the_basin_of_the_brier_score_does_not_depend_on_the_order_of_rows():
    """Rows that repeat every eight, of which a regular sample would see one kind only."""
    generator = np.random.default_rng(0)
    kinds = generator.normal(size=(8, 3)) * [[0.1], [8], [0.1], [8], [0.1], [8], [0.1], [8]]
    logits = np.tile(kinds, (1000, 1))
    labels = np.where(generator.random(8000) < 0.5, logits.argmax(axis=1), generator.integers(3, size=8000))
    order = generator.permutation(8000)
    fitted, permuted = (
        TemperatureScaling(loss="brier").fit(Predictions.from_logits(logits[rows]), labels[rows])
        for rows in (np.arange(8000), order)
    )
    assert permuted.temperature_ == pytest.approx(fitted.temperature_, rel=1e-6)


@pytest.mark.parametrize("bounds", [None, 5, (1,), ("a", "b"), (2.0, 3.0), (1.0, 2.0, 3.0), "ab"])
def test_bounds_without_meaning_are_refused(bounds):
    with pytest.raises(ParameterError, match="bounds must be two positive numbers around 1"):
        TemperatureScaling(bounds=bounds).fit([[0.6, 0.4], [0.4, 0.6]], [0, 1])


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_the_temperature_is_the_same_to_the_last_digit_however_rows_are_counted(loss):
    """Otherwise the last digit would decide which tempered scores are ties for isotonic regression."""
    for seed in range(40):
        logits, labels = some_logits(n_rows=40, seed=seed)
        twice = np.arange(40) % 3 == 0
        repeated = np.concatenate([np.flatnonzero(twice), np.arange(40)[::-1]])
        weighted = TemperatureScaling(loss=loss).fit(
            Predictions.from_logits(logits), labels, np.where(twice, 2.0, 1.0)
        )
        other = TemperatureScaling(loss=loss).fit(Predictions.from_logits(logits[repeated]), labels[repeated])
        assert weighted.inverse_temperature_ == other.inverse_temperature_


def test_a_prior_adds_its_log_density_to_the_log_likelihood():
    """The derivative of the penalised loss vanishes: sum of (sigmoid(beta z) - y) z, plus (beta - 0.7) / 0.2^2."""
    z = np.array([2.0, 1.0, -1.5, 3.0, -0.5, 1.2])
    y = np.array([1, 0, 0, 1, 1, 1])
    X = Predictions.from_logits(np.column_stack([np.zeros(6), z]))
    beta = TemperatureScaling(prior=(0.7, 0.2)).fit(X, y).inverse_temperature_
    slope = ((1 / (1 + np.exp(-beta * z)) - y) @ z) + (beta - 0.7) / 0.2**2
    assert abs(slope) < 1e-6


def test_a_prior_keeps_the_temperature_of_separated_rows_finite():
    X, y = [[0.9, 0.1], [0.2, 0.8]] * 5, [0, 1] * 5
    assert 0.7 < TemperatureScaling(prior=(0.7, 0.5)).fit(X, y).inverse_temperature_ < 3


def test_batches_with_a_prior_end_at_the_fit_to_all_rows():
    generator = np.random.default_rng(0)
    X, y = generator.dirichlet(np.ones(3), 60), generator.integers(3, size=60)
    batches = TemperatureScaling(prior=(0.7, 0.1))
    for part in (slice(0, 20), slice(20, 40), slice(40, 60)):
        batches.partial_fit(X[part], y[part])
    whole = TemperatureScaling(prior=(0.7, 0.1)).fit(X, y)
    assert batches.inverse_temperature_ == pytest.approx(whole.inverse_temperature_, rel=1e-4)


@pytest.mark.parametrize("prior", [0.7, (0.7,), (0.7, 0.0), (-1.0, 0.5), "wide"])
def test_a_prior_is_a_mean_and_a_standard_deviation(prior):
    with pytest.raises(ParameterError, match="prior must be a positive mean and standard deviation"):
        TemperatureScaling(prior=prior).fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])


def test_a_prior_needs_a_likelihood():
    with pytest.raises(ParameterError, match="prior needs a likelihood"):
        TemperatureScaling("brier", prior=(0.7, 0.5)).fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
