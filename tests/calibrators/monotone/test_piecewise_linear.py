"""Monotone piecewise-linear calibration: optimum, knots, order, mixing, limits and hard rows."""

from itertools import pairwise
from math import exp, inf, log, nan

import numpy as np
import pytest
from event_map_rows import calibrated, fit_log_odds, rows_that_follow
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from calibrant import (
    BetaCalibration,
    OneVsRest,
    PiecewiseLinearCalibration,
    PlattScaling,
    Predictions,
    TemperatureScaling,
)
from calibrant.calibrators import parametric
from calibrant.calibrators.monotone.piecewise_linear import LEAST_SLOPE
from calibrant.errors import ConvergenceWarning, ParameterError
from calibrant.metrics import log_loss
from calibrant.solvers import Solution, Status
from data import load
from strategies import labels_with_all_classes, logit_matrices


def some_rows(n_rows=400, seed=0):
    """Log-odds that are too large above zero, honest below, and shifted."""
    return rows_that_follow(lambda s: np.where(s > 0, 0.4 * s, s) - 0.3, 0.5, 2.5, n_rows, seed)


def fit(log_odds, outcomes, weights=None, **options):
    return fit_log_odds(PiecewiseLinearCalibration(**options), log_odds, outcomes, weights)


# A second implementation, one row at a time


def naive_input(score, temperature, share):
    p = (1 - share) / (1 + exp(-score / temperature)) + share / 2
    return log(p / (1 - p))


def naive_map(intercept, slopes, knots, x):
    """Walk from the first knot to x and add up slope times distance."""
    if not knots:
        return intercept + slopes[0] * x
    if x <= knots[0]:
        return intercept + slopes[0] * (x - knots[0])
    height = intercept
    for slope, left, right in zip(slopes[1:], knots, [*knots[1:], inf], strict=True):
        height += slope * (min(x, right) - left)
        if x <= right:
            break
    return height


def naive_value(theta, inputs, outcomes, weights, knots, penalties):
    """Mean loss plus penalty, by the formula of the docstring."""
    intercept, *slopes = theta
    total = 0.0
    for x, outcome, weight in zip(inputs, outcomes, weights, strict=True):
        u = naive_map(intercept, slopes, knots, x)
        total += weight * log(1 + exp(-u if outcome else u))
    middle = float(np.median(knots)) if knots else 0.0
    total += penalties[0] * (naive_map(intercept, slopes, knots, middle) - middle) ** 2
    total += penalties[1] * sum((slope - 1) ** 2 for slope in slopes)
    total += penalties[2] * sum((right - left) ** 2 for left, right in pairwise(slopes))
    return total / sum(weights)


@pytest.mark.parametrize("penalties", [(1.0, 1.0, 1.0), (0.5, 2.0, 0.1), (0.0, 0.02, 0.0)])
@pytest.mark.parametrize("mixing", [1.0, 0.0])
def test_the_fit_is_the_optimum_of_plain_loops(penalties, mixing):
    log_odds, outcomes = some_rows(120)
    weights = np.random.default_rng(1).uniform(1, 3, 120)
    fitted = fit(
        log_odds,
        outcomes,
        weights,
        intercept_penalty=penalties[0],
        slope_penalty=penalties[1],
        difference_penalty=penalties[2],
        mixing=mixing,
    )
    share = mixing / (weights.sum() + mixing)
    assert fitted.mixing_ == pytest.approx(share)
    inputs = [naive_input(score, fitted.temperature_, share) for score in log_odds]
    arguments = inputs, outcomes, weights.tolist(), fitted.knots_.tolist(), penalties
    theta = [fitted.intercept_, *fitted.slopes_]
    assert fitted.solution_.value == pytest.approx(naive_value(theta, *arguments), rel=1e-12)
    best = minimize(
        naive_value,
        [fitted.knots_[0], *np.ones(6)],
        arguments,
        method="L-BFGS-B",
        bounds=[(None, None)] + [(LEAST_SLOPE, None)] * 6,
        options={"ftol": 1e-13, "gtol": 1e-8},
    )
    assert fitted.solution_.value <= best.fun + 1e-10
    assert fitted.solution_.value == pytest.approx(best.fun, rel=1e-7)
    np.testing.assert_allclose(theta, best.x, atol=2e-3)
    expected = [naive_map(theta[0], theta[1:], fitted.knots_.tolist(), x) for x in inputs]
    np.testing.assert_allclose(calibrated(fitted, log_odds), expected, rtol=1e-9, atol=1e-12)


def test_a_slope_that_would_fall_ends_at_the_least_one_to_the_last_bit():
    """In the middle, higher scores have fewer events."""
    log_odds = np.repeat([-4.0, -2.0, 0.0, 2.0, 4.0], 200)
    events = np.concatenate([np.arange(200) < n for n in (5, 120, 80, 60, 195)]).astype(int)
    fitted = fit(log_odds, events, slope_penalty=1e-3, difference_penalty=0.0)
    assert (fitted.slopes_ == LEAST_SLOPE).any()
    assert (np.diff(calibrated(fitted, np.linspace(-9, 9, 500))) > 0).all()


# Closed forms


def test_without_information_in_the_scores_only_the_intercept_moves():
    """All scores at even odds: n (sigma(b) - share) + 2 b = 0, and there are no knots."""
    outcomes = np.array([1, 1, 1, 0] * 10)
    fitted = fit(np.zeros(40), outcomes)
    expected = brentq(lambda b: 40 * (expit(b) - 0.75) + 2 * b, 0, 2, xtol=1e-14)
    assert fitted.intercept_ == pytest.approx(expected, rel=1e-6)  # of a value that is within 1e-10
    assert fitted.knots_.shape == (0,)
    np.testing.assert_array_equal(fitted.slopes_, [1.0])


def test_honest_scores_stay_as_they_are():
    """Every score occurs with outcomes in the predicted proportion, so that the identity is the optimum."""
    shares = np.arange(1, 8) / 8
    outcomes = np.concatenate([np.arange(8) < 8 * share for share in shares]).astype(int)
    fitted = fit(logit(np.repeat(shares, 8)), outcomes)
    assert fitted.temperature_ == pytest.approx(1.0, abs=1e-4)
    assert fitted.mixing_ == 0
    np.testing.assert_allclose(fitted.slopes_, 1.0, atol=1e-4)
    np.testing.assert_allclose(fitted.predict_proba(shares)[:, 1], shares, atol=1e-4)


def test_bends_are_met_where_rows_are_many():
    """Log-odds halve above zero; a knot lies near it, and slopes on either side are 1/2 and 1."""
    log_odds = np.linspace(-4, 4, 801)
    truth = expit(np.where(log_odds > 0, log_odds / 2, log_odds))
    rows, outcomes = np.tile(log_odds, 2), np.repeat([0, 1], 801)
    weights = 1000 * np.concatenate([1 - truth, truth])
    fitted = fit(rows, outcomes, weights, n_segments=12)
    far = np.abs(log_odds) > 0.6
    found = calibrated(fitted, log_odds)
    np.testing.assert_allclose(found[far], logit(truth)[far], atol=0.02)
    np.testing.assert_allclose(expit(found), truth, atol=0.02)


def test_mixing_is_one_row_of_even_chance():
    """With slopes held at one, sigma(s / T) becomes (n q + 1/2) / (n + 1)."""
    log_odds, outcomes = some_rows(99)
    stiff = {"slope_penalty": 1e12, "difference_penalty": 0.0, "intercept_penalty": 1e12}
    fitted = fit(log_odds, outcomes, **stiff)
    q = expit(log_odds / fitted.temperature_)
    np.testing.assert_allclose(expit(calibrated(fitted, log_odds)), (99 * q + 0.5) / 100, rtol=1e-8)


def test_with_overwhelming_penalties_it_is_temperature_scaling():
    log_odds, outcomes = some_rows()
    fitted = fit(log_odds, outcomes, slope_penalty=1e12, intercept_penalty=1e12, mixing=0)
    scaled = TemperatureScaling().fit(Predictions.from_logits(log_odds), outcomes)
    assert fitted.temperature_ == pytest.approx(scaled.temperature_, rel=1e-6)
    np.testing.assert_allclose(calibrated(fitted, log_odds), log_odds / scaled.temperature_, atol=1e-5)


def test_one_segment_without_penalty_is_platt_scaling():
    log_odds, outcomes = some_rows()
    fitted = fit(log_odds, outcomes, n_segments=1, slope_penalty=0, intercept_penalty=0, mixing=0)
    platt = PlattScaling().fit(Predictions.from_logits(log_odds), outcomes)
    expected = platt.slope_ * log_odds + platt.intercept_
    np.testing.assert_allclose(calibrated(fitted, log_odds), expected, atol=1e-6)


def test_every_segment_holds_the_same_share_of_information():
    log_odds, outcomes = some_rows(20_000)
    fitted = fit(log_odds, outcomes)
    share = fitted.mixing_
    p = (1 - share) * expit(log_odds / fitted.temperature_) + share / 2
    information = p * (1 - p)
    for number, knot in enumerate(fitted.knots_, start=1):
        assert information[logit(p) < knot].sum() / information.sum() == pytest.approx(number / 6, abs=2e-3)


def test_the_scale_of_scores_does_not_matter():
    log_odds, outcomes = some_rows()
    expected = calibrated(fit(log_odds, outcomes), log_odds)
    for scale in (1e-6, 1e3, 1e6):
        fitted = fit(scale * log_odds, outcomes)
        np.testing.assert_allclose(calibrated(fitted, scale * log_odds), expected, atol=1e-5)


# Two names of one problem


def test_between_two_scores_that_mirror_each_other_even_odds_stay_even():
    p, outcomes = [0.1] * 20 + [0.9] * 20, [0] * 20 + [1] * 20
    assert PiecewiseLinearCalibration().fit(p, outcomes).predict_proba([0.5])[0, 1] == pytest.approx(0.5)


@pytest.mark.parametrize("n_segments", [1, 2, 5, 6])
@pytest.mark.parametrize(("n_rows", "seed"), [(5, 0), (30, 1), (400, 2)])
def test_either_class_may_be_called_the_event(n_rows, seed, n_segments):
    log_odds, outcomes = some_rows(n_rows, seed)
    places = np.linspace(-9, 9, 101)
    one = fit(log_odds, outcomes, n_segments=n_segments)
    other = fit(-log_odds, 1 - outcomes, n_segments=n_segments)
    np.testing.assert_allclose(other.knots_, -one.knots_[::-1], atol=1e-9)
    np.testing.assert_allclose(expit(calibrated(other, -places)), expit(-calibrated(one, places)), atol=1e-6)


# Promises


@settings(max_examples=40)
@given(data=st.data())
def test_order_is_kept_and_the_loss_is_no_higher_than_of_nothing(data):
    n_rows = data.draw(st.integers(2, 12))
    logits = data.draw(logit_matrices(n_rows=n_rows, n_classes=2, dtype=st.just(np.float64)))
    outcomes = data.draw(labels_with_all_classes(n_rows, 2))
    given_rows = Predictions.from_logits(logits)
    fitted = PiecewiseLinearCalibration().fit(given_rows, outcomes)
    assert log_loss(outcomes, fitted.transform(given_rows)) <= log_loss(
        outcomes, given_rows.without_zeros()
    ) * (1 + 1e-9)
    assert fitted.solution_.loss <= fitted.solution_.identity_loss * (1 + 1e-9)
    places = np.sort(np.concatenate([np.linspace(-60, 60, 200), logits[:, 1] - logits[:, 0]]))
    found = calibrated(fitted, places)
    # Sums of segments round.
    assert (np.diff(found) >= -1e-12 * np.abs(found).max()).all()


def test_ranking_of_a_network_is_kept():
    rows = load("cifar_other/c10_vgg16_verified")
    p = np.clip(rows["probs"][:, 3].astype(float), 1e-6, 1 - 1e-6)
    cats = (rows["y"] == 3).astype(int)
    after = PiecewiseLinearCalibration().fit(p[:5000], cats[:5000]).predict_proba(p[5000:])[:, 1]
    assert roc_auc_score(cats[5000:], after) == roc_auc_score(cats[5000:], p[5000:])


def test_on_a_network_it_beats_the_maps_with_fewer_parameters():
    rows = load("cifar_other/c10_vgg16_verified")
    order = np.random.default_rng(0).permutation(10_000)
    p = rows["probs"][order].astype(float)
    cats = (rows["y"][order] == 3).astype(int)
    pair = np.column_stack([np.delete(p, 3, axis=1).sum(axis=1), p[:, 3]])

    def test_loss(method):
        return log_loss(cats[5000:], method.fit(pair[:5000], cats[:5000]).transform(pair[5000:]))

    own = test_loss(PiecewiseLinearCalibration())
    for method in (TemperatureScaling(), PlattScaling(), BetaCalibration()):
        assert own < 0.98 * test_loss(method)


def test_where_mixing_does_harm_nothing_is_mixed_in():
    """A thousand sure and right rows lose more by one part in two thousand than can be gained elsewhere."""
    log_odds = np.concatenate([np.repeat([-14.0, 14.0], 500), logit([0.25, 0.25, 0.25, 0.25])])
    outcomes = np.concatenate([np.repeat([0, 1], 500), [1, 0, 0, 0]])
    fitted = fit(log_odds, outcomes)
    assert fitted.mixing_ == 0
    assert fitted.solution_.loss <= fitted.solution_.identity_loss
    assert fit(log_odds[-4:], outcomes[-4:], mixing=1.0).solution_.loss <= log(4) - 0.75 * log(3) + 1e-12


def test_a_fit_that_does_harm_is_replaced_by_the_identity(monkeypatch):
    """Only rounding can bring it about, so a solver that fails stands in."""
    log_odds, outcomes = some_rows()

    def failing(expand, start, lower, **options):
        return Solution(start * 3, inf, inf, nan, 0.0, 1, 1, Status.CONVERGED)

    monkeypatch.setattr(parametric, "bounded_newton", failing)
    fitted = fit(log_odds, outcomes)
    assert fitted.solution_.status is Status.IDENTITY
    assert fitted.solution_.loss == fitted.solution_.identity_loss
    np.testing.assert_allclose(calibrated(fitted, log_odds), log_odds, rtol=1e-12, atol=1e-12)


# Hard rows

HARD_ROWS = {
    "two rows": ([0.3, 0.8], [0, 1]),
    "two rows the wrong way": ([0.3, 0.8], [1, 0]),
    "constant": ([0.7] * 40, [0, 1] * 20),
    "zeros and ones": ([0.0] * 20 + [1.0] * 20, [0] * 20 + [1] * 20),
    "zeros and ones, two wrong": ([0.0] * 20 + [1.0] * 20, [0] * 19 + [1] * 20 + [0]),
    "all at one, one wrong": ([1.0] * 30, [1] * 29 + [0]),
    "three values": ([0.1, 0.4, 0.9] * 20, [0, 0, 1] * 10 + [1, 0, 1] * 10),
    "separable": (np.linspace(0.01, 0.99, 30), np.arange(30) >= 15),
    "one event in thirty": (np.linspace(0.001, 0.03, 30), np.arange(30) == 12),
}


@pytest.mark.parametrize("case", HARD_ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hard_rows_give_finite_losses_and_an_increasing_map(case, dtype):
    p, outcomes = HARD_ROWS[case]
    p, outcomes = np.asarray(p, dtype=dtype), np.asarray(outcomes, dtype=int)
    fitted = PiecewiseLinearCalibration().fit(p, outcomes)
    assert fitted.solution_.converged
    places = np.array([0, 1e-30, 1e-6, 0.1, 0.3, 0.5, 0.7, 0.9, 1], dtype=dtype)
    found = fitted.predict_proba(places)
    assert found.dtype == dtype
    assert np.isfinite(np.log(found)).all()
    assert (np.diff(found[:, 1]) >= -1e-6).all()


def test_saturated_float32_rows():
    log_odds, outcomes = some_rows(1000)
    p = expit((40 * log_odds).astype(np.float32))
    assert ((p == 0) | (p == 1)).sum() > 100
    after = PiecewiseLinearCalibration().fit(p, outcomes).predict_proba(p)
    assert after.dtype == np.float32
    assert log_loss(outcomes, after) < 0.69


def test_rows_far_outside_get_the_odds_of_the_mixed_end():
    """Mixing bounds x by log(2 n + 1), from where the last slope cannot lead further."""
    log_odds, outcomes = some_rows(200)
    fitted = fit(log_odds, outcomes)
    low, high = calibrated(fitted, [-1e9, 1e9])
    knots, slopes = fitted.knots_, fitted.slopes_
    assert low == pytest.approx(fitted.intercept_ - slopes[0] * (log(401) + knots[0]), rel=1e-9)
    top = fitted.intercept_ + slopes[1:-1] @ np.diff(knots) + slopes[-1] * (log(401) - knots[-1])
    assert high == pytest.approx(top, rel=1e-9)


def test_many_rows_in_blocks_equal_few_with_weights():
    log_odds, outcomes = some_rows(300)
    repeated = fit(np.tile(log_odds, 400), np.tile(outcomes, 400))
    weighted = fit(log_odds, outcomes, np.full(300, 400.0))
    np.testing.assert_allclose(calibrated(repeated, log_odds), calibrated(weighted, log_odds), atol=1e-6)


def test_without_penalties_separable_rows_are_told_of():
    with pytest.warns(ConvergenceWarning, match=r"PiecewiseLinearCalibration: .*stronger penalty"):
        fit(
            [-2.0, -1.0, 1.0, 2.0],
            [0, 0, 1, 1],
            slope_penalty=0,
            difference_penalty=0,
            intercept_penalty=0,
            mixing=0,
        )


def test_more_classes_go_one_against_the_rest():
    generator = np.random.default_rng(3)
    X = generator.dirichlet([0.5, 0.6, 0.7], 300)
    y = (0.5 * np.log(X) + generator.gumbel(size=X.shape)).argmax(axis=1)
    alone = PiecewiseLinearCalibration(n_segments=3).fit(X, y)
    wrapped = OneVsRest(PiecewiseLinearCalibration(n_segments=3)).fit(X, y)
    np.testing.assert_array_equal(alone.predict_proba(X), wrapped.predict_proba(X))
    assert len(alone.one_vs_rest_.calibrators_[0].slopes_) == 3
    with pytest.raises(AttributeError, match=r"one_vs_rest_.calibrators_\[k\].slopes_"):
        alone.slopes_  # noqa: B018


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_segments": 0}, "n_segments must be an integer of at least 1"),
        ({"n_segments": 2.5}, "n_segments must be an integer of at least 1"),
        ({"slope_penalty": -1}, "slope_penalty must be a number of at least 0"),
        ({"difference_penalty": "1"}, "difference_penalty must be a number of at least 0"),
        ({"intercept_penalty": inf}, "intercept_penalty must be a number of at least 0"),
        ({"mixing": -0.5}, "mixing must be a number of at least 0"),
    ],
)
def test_parameters_without_meaning_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        PiecewiseLinearCalibration(**options).fit([0.2, 0.8], [0, 1])
