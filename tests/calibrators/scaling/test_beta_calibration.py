"""Beta calibration: closed forms, bounds, its special cases as other methods, midpoints and zeros."""

from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from calibrant import (
    BetaCalibration,
    DirichletCalibration,
    PlattScaling,
    Predictions,
    TemperatureScaling,
)
from calibrant.calibrators.scaling.beta import _midpoint
from calibrant.errors import ParameterError
from calibrant.metrics import log_loss
from strategies import labels_with_all_classes, logit_matrices

VARIANTS = ["abm", "am", "ab", "a"]
every_variant = pytest.mark.parametrize("parameters", VARIANTS)


def some_rows(a=0.6, b=0.9, c=-0.3, n_rows=400, seed=0):
    """Scores between 0 and 1 and outcomes drawn from a beta map of them."""
    generator = np.random.default_rng(seed)
    p = generator.beta(0.7, 0.9, n_rows)
    outcomes = generator.random(n_rows) < expit(a * np.log(p) - b * np.log1p(-p) + c)
    return p, outcomes.astype(int)


def naive_loss(a, b, c, p, outcomes):
    """Mean log-loss row by row, by the formula of the paper."""
    total = 0.0
    for score, outcome in zip(p, outcomes, strict=True):
        q = 1 / (1 + 1 / (exp(c) * score**a / (1 - score) ** b))
        total -= log(q if outcome else 1 - q)
    return total / len(p)


def naive_fit(parameters, p, outcomes):
    """The same family by a general minimiser with bounds."""
    expand = {
        "abm": lambda t: (t[0], t[1], t[2]),
        "am": lambda t: (t[0], t[0], t[1]),
        "ab": lambda t: (t[0], t[1], (t[0] - t[1]) * log(2)),
        "a": lambda t: (t[0], t[0], 0.0),
    }[parameters]
    bounds = {"abm": "++.", "am": "+.", "ab": "++", "a": "+"}[parameters]
    found = minimize(
        lambda t: naive_loss(*expand(t), p, outcomes),
        np.ones(len(bounds)),
        method="L-BFGS-B",
        bounds=[(0, None) if mark == "+" else (None, None) for mark in bounds],
        options={"ftol": 1e-14, "gtol": 1e-9},
    )
    return expand(found.x), found.fun


def test_three_points_are_met_exactly():
    """Odds 9, 1 and 1/9 become 3, 1/3 and 1/15: three equations for a, b and c.

    With l = log 0.9 and s = log 0.1: a l - b s + c = log 3, (b - a) log 2 + c = -log 3, a s - b l + c = -log 15.
    """
    p = [0.9] * 4 + [0.5] * 4 + [0.1] * 16
    fitted = BetaCalibration().fit(p, [1, 1, 1, 0] + [1, 0, 0, 0] + [1] + [0] * 15)
    equations = np.array(
        [[log(0.9), -log(0.1), 1], [log(0.5), -log(0.5), 1], [log(0.1), -log(0.9), 1]],
    )
    a, b, c = np.linalg.solve(equations, [log(3), -log(3), -log(15)])
    assert min(a, b) > 0
    np.testing.assert_allclose([fitted.a_, fitted.b_, fitted.c_], [a, b, c], rtol=1e-8)
    np.testing.assert_allclose(fitted.predict_proba([0.9, 0.5, 0.1])[:, 1], [3 / 4, 1 / 4, 1 / 16], rtol=1e-8)


@every_variant
@pytest.mark.parametrize("truth", [(0.6, 0.9, -0.3), (0.0, 2.0, 0.5), (1.5, 0.0, 0.2)])
def test_a_plain_search_finds_nothing_better(parameters, truth):
    """The last two sources have a power of zero, so that a bound may be met."""
    p, outcomes = some_rows(*truth, n_rows=80, seed=3)
    fitted = BetaCalibration(parameters).fit(p, outcomes)
    (a, b, c), loss = naive_fit(parameters, p, outcomes)
    assert fitted.solution_.loss <= loss + 1e-12
    assert fitted.solution_.loss == pytest.approx(loss, abs=1e-8)
    np.testing.assert_allclose([fitted.a_, fitted.b_, fitted.c_], [a, b, c], atol=2e-3)
    assert fitted.solution_.loss == pytest.approx(
        naive_loss(fitted.a_, fitted.b_, fitted.c_, p, outcomes), rel=1e-10
    )


def test_a_power_that_would_be_negative_is_zero_and_the_others_are_the_best_for_that():
    """Where a = 0 the slope of the loss in a is positive and those in b and c vanish."""
    p, outcomes = some_rows(-0.4, 1.5, 0.3, seed=1)
    fitted = BetaCalibration().fit(p, outcomes)
    assert fitted.a_ == 0.0
    assert fitted.b_ > 0
    residuals = fitted.predict_proba(p)[:, 1] - outcomes
    assert residuals.sum() == pytest.approx(0.0, abs=1e-7)
    assert residuals @ np.log1p(-p) == pytest.approx(0.0, abs=1e-7)
    assert residuals @ np.log(p) > 0
    assert fitted.solution_.converged


def test_scores_that_point_the_wrong_way_give_the_share_of_events():
    """Both powers want to be negative, and no rising map beats a constant.

    The program betacal 1.1.0 sets a = 0 and fits b alone to these rows, without another look at its sign: it
    gives a = 0 and b = -0.5828, a map that falls from 0.742 at a score of 0.1 to 0.444 at 0.9.
    """
    p = np.array([0.9] * 6 + [0.7] * 6 + [0.3] * 6 + [0.1] * 6)
    outcomes = np.array([1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0])
    fitted = BetaCalibration().fit(p, outcomes)
    assert (fitted.a_, fitted.b_) == (0.0, 0.0)
    np.testing.assert_allclose(fitted.predict_proba(p)[:, 1], outcomes.mean(), rtol=1e-9)
    assert fitted.midpoint_ == 0.0  # every score is mapped to more than 1/2


# Special cases that are other methods


def test_two_classes_of_dirichlet_calibration_without_a_penalty():
    p, outcomes = some_rows()
    fitted = BetaCalibration().fit(p, outcomes)
    assert min(fitted.a_, fitted.b_) > 0.1
    dirichlet = DirichletCalibration(penalty=None).fit(p, outcomes)
    assert fitted.solution_.loss == pytest.approx(dirichlet.solution_.loss, abs=1e-10)
    np.testing.assert_allclose(fitted.predict_proba(p), dirichlet.predict_proba(p), atol=1e-6)


def test_dirichlet_calibration_may_have_negative_powers_where_these_are_bounded():
    p, outcomes = some_rows(-0.4, 1.5, 0.3, seed=1)
    assert BetaCalibration().fit(p, outcomes).solution_.loss > (
        DirichletCalibration(penalty=None).fit(p, outcomes).solution_.loss + 1e-4
    )


@pytest.mark.parametrize("seed", range(3))
def test_am_is_platt_scaling_of_the_log_odds(seed):
    p, outcomes = some_rows(seed=seed)
    fitted = BetaCalibration("am").fit(p, outcomes)
    platt = PlattScaling().fit(p, outcomes)
    assert fitted.a_ == fitted.b_ == pytest.approx(platt.slope_, rel=1e-9)
    assert fitted.c_ == pytest.approx(platt.intercept_, rel=1e-9)
    np.testing.assert_allclose(fitted.predict_proba(p), platt.predict_proba(p), atol=1e-12)


def test_am_has_no_negative_slope():
    p, outcomes = some_rows(-0.6, -0.6, 0.2)
    assert PlattScaling().fit(p, outcomes).slope_ < 0
    assert BetaCalibration("am").fit(p, outcomes).a_ == 0.0


def test_a_is_temperature_scaling_of_two_classes():
    p, outcomes = some_rows()
    fitted = BetaCalibration("a").fit(p, outcomes)
    temperature = TemperatureScaling().fit(p, outcomes)
    assert fitted.a_ == fitted.b_ == pytest.approx(temperature.inverse_temperature_, rel=1e-8)
    assert fitted.c_ == 0.0
    np.testing.assert_allclose(fitted.predict_proba(p), temperature.predict_proba(p), atol=1e-8)


def test_ab_leaves_one_half_where_it_is():
    p, outcomes = some_rows()
    fitted = BetaCalibration("ab").fit(p, outcomes)
    assert fitted.a_ != fitted.b_
    assert fitted.c_ == pytest.approx((fitted.a_ - fitted.b_) * log(2), rel=1e-12)
    assert fitted.predict_proba([0.5])[0, 1] == pytest.approx(0.5, rel=1e-12)
    assert fitted.midpoint_ == pytest.approx(0.5, abs=1e-9)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_a_larger_family_has_a_lower_loss(seed):
    p, outcomes = some_rows(n_rows=60, seed=seed)
    losses = {name: BetaCalibration(name).fit(p, outcomes).solution_.loss for name in VARIANTS}
    assert losses["abm"] <= min(losses["am"], losses["ab"]) + 1e-12
    assert max(losses["am"], losses["ab"]) <= losses["a"] + 1e-12
    assert losses["a"] <= log_loss(outcomes, p) + 1e-12


# What every fit obeys


@every_variant
def test_exchanging_the_classes_exchanges_the_powers(parameters):
    p, outcomes = some_rows()
    fitted = BetaCalibration(parameters).fit(p, outcomes)
    exchanged = BetaCalibration(parameters).fit(1 - p, 1 - outcomes)
    expected = (fitted.b_, fitted.a_, -fitted.c_)
    np.testing.assert_allclose((exchanged.a_, exchanged.b_, exchanged.c_), expected, rtol=1e-7, atol=1e-9)
    assert exchanged.midpoint_ == pytest.approx(1 - fitted.midpoint_, abs=1e-8)


@every_variant
@settings(max_examples=25)
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
@given(data=st.data())
def test_every_fit_rises(parameters, data):
    """Log-odds up to 1e4, ties and separated outcomes among them."""
    n_rows = data.draw(st.integers(3, 12))
    logits = Predictions.from_logits(data.draw(logit_matrices(n_rows, 2)))
    labels = data.draw(labels_with_all_classes(n_rows, 2))
    fitted = BetaCalibration(parameters).fit(logits, labels)
    assert min(fitted.a_, fitted.b_) >= 0
    calibrated = fitted.transform(logits)
    order = np.argsort(logits.scores[:, 1].astype(np.float64) - logits.scores[:, 0])
    steps = np.diff(calibrated.scores[order, 1].astype(np.float64))
    assert (steps >= -1e-5 * np.abs(calibrated.scores).max()).all()


@settings(max_examples=50)
@given(a=st.floats(0.01, 50), b=st.floats(0.01, 50), c=st.floats(-30, 30))
def test_the_midpoint_is_mapped_to_one_half(a, b, c):
    m = _midpoint(a, b, c)
    if 1e-6 < m < 1 - 1e-6:
        assert b * log(1 - m) - a * log(m) == pytest.approx(c, abs=1e-6)
    else:
        assert (m <= 1e-6) == (c > 0)


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        (0.0, 2.0, -2 * log(4), 0.75),  # 2 log(1 - m) = c
        (2.0, 0.0, 2 * log(4), 0.25),  # -2 log m = c
        (0.0, 1.0, 0.5, 0.0),
        (1.0, 0.0, -0.5, 1.0),
        (0.0, 0.0, 0.3, 0.0),
        (0.0, 0.0, -0.3, 1.0),
        (0.0, 0.0, 0.0, 0.5),
    ],
)
def test_midpoints_where_a_power_is_zero(a, b, c, expected):
    """Scores above m are mapped to more than 1/2; where all of them are, or none, m is at an end."""
    assert _midpoint(a, b, c) == pytest.approx(expected, abs=1e-9)


# Zeros, constant scores and parameters


def test_zeros_and_ones_count_as_the_floor():
    p, outcomes = some_rows()
    p[:40], p[40:80] = 0.0, 1.0
    zeros = BetaCalibration().fit(Predictions.from_probabilities(p, floor=1e-4), outcomes)
    pair = np.column_stack([1 - p, p])
    floored = BetaCalibration().fit(Predictions.from_logits(np.log(np.maximum(pair, 1e-4))), outcomes)
    # Logits are normalised: beside the floor the other probability is 1 - 1e-4 instead of 1.
    np.testing.assert_allclose(
        [zeros.a_, zeros.b_, zeros.c_], [floored.a_, floored.b_, floored.c_], atol=1e-3
    )


def test_scores_that_say_nothing_get_the_share_of_events():
    fitted = BetaCalibration().fit([0.7] * 8, [1, 0, 0, 0] * 2)
    assert (fitted.a_, fitted.b_) == (1.0, 1.0)
    assert fitted.predict_proba([0.7])[0, 1] == pytest.approx(0.25, rel=1e-9)


@pytest.mark.parametrize("parameters", ["abc", None, 3, ["abm"]])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_parameters_without_meaning_are_refused(parameters, n_classes):
    p = np.full((6, n_classes), 1 / n_classes)
    with pytest.raises(ParameterError, match="parameters must be 'abm', 'am', 'ab' or 'a'"):
        BetaCalibration(parameters).fit(p, np.arange(6) % n_classes)
