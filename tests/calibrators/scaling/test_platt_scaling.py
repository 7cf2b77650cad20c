"""Platt scaling: closed forms, both scores, smoothed targets, separated outcomes, and more than two classes."""

from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from calibrant import OneVsRest, PlattScaling, Predictions
from calibrant.errors import ConvergenceWarning, ParameterError
from calibrant.metrics import log_loss


def some_log_odds(n_rows=300, seed=0, scale=3.0):
    """Over-confident, biased log-odds with outcomes: the honest ones are half of them plus 0.4."""
    generator = np.random.default_rng(seed)
    log_odds = scale * generator.normal(size=n_rows)
    outcomes = generator.random(n_rows) < expit(0.5 * log_odds + 0.4)
    return log_odds, outcomes.astype(int)


def naive_fit(scores, targets):
    """Slope and intercept by a general minimiser, with the loss added up row by row."""

    def loss(line):
        total = 0.0
        for score, target in zip(scores, targets, strict=True):
            value = line[0] * score + line[1]
            total += max(value, 0.0) - target * value + log(1 + exp(-abs(value)))
        return total / len(scores)

    found = minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-9})
    return found.x, found.fun


def test_a_quarter_wrong_at_ninety_percent_on_either_side():
    """sigmoid(a log 9) = 3/4, hence a = log 3 / log 9 = 1/2, and b = 0 for symmetry."""
    fitted = PlattScaling().fit([0.9] * 4 + [0.1] * 4, [1, 1, 1, 0, 1, 0, 0, 0])
    assert fitted.slope_ == pytest.approx(0.5, rel=1e-9)
    assert fitted.intercept_ == pytest.approx(0.0, abs=1e-9)


def test_a_line_through_two_points():
    """Odds 4 become 3 and odds 1/4 become 1/2: the line through (log 4, log 3) and (-log 4, -log 2)."""
    fitted = PlattScaling().fit([0.8] * 4 + [0.2] * 3, [1, 1, 1, 0, 1, 0, 0])
    assert fitted.slope_ == pytest.approx(log(6) / (2 * log(4)), rel=1e-9)
    assert fitted.intercept_ == pytest.approx(log(1.5) / 2, rel=1e-9)
    np.testing.assert_allclose(fitted.predict_proba([0.8, 0.2])[:, 1], [3 / 4, 1 / 3], rtol=1e-9)


def test_a_plain_search_finds_the_same():
    log_odds, outcomes = some_log_odds(100)
    fitted = PlattScaling().fit(Predictions.from_logits(log_odds), outcomes)
    line, loss = naive_fit(log_odds, outcomes)
    np.testing.assert_allclose([fitted.slope_, fitted.intercept_], line, atol=1e-5)
    assert fitted.solution_.loss == pytest.approx(loss, abs=1e-11)
    assert fitted.solution_.converged


def test_on_probabilities_a_plain_search_finds_the_same():
    log_odds, outcomes = some_log_odds(100)
    fitted = PlattScaling(feature="probability").fit(Predictions.from_logits(log_odds), outcomes)
    line, loss = naive_fit(expit(log_odds), outcomes)
    np.testing.assert_allclose([fitted.slope_, fitted.intercept_], line, atol=1e-4)
    assert fitted.solution_.loss == pytest.approx(loss, abs=1e-11)
    assert np.isnan(fitted.solution_.identity_loss)  # it is no member of this family


@pytest.mark.parametrize("weighted", [False, True])
def test_smoothed_targets_solve_platts_equations(weighted):
    """At the optimum the residuals of Platt's targets sum to zero, as do their products with the score."""
    log_odds, outcomes = some_log_odds(200)
    weights = 1.0 + np.arange(200) % 3 if weighted else np.ones(200)
    given_weights = weights if weighted else None
    fitted = PlattScaling(smoothed_targets=True).fit(
        Predictions.from_logits(log_odds), outcomes, given_weights
    )
    events, others = weights[outcomes == 1].sum(), weights[outcomes == 0].sum()
    targets = np.where(outcomes == 1, (events + 1) / (events + 2), 1 / (others + 2))
    residuals = weights * (expit(fitted.slope_ * log_odds + fitted.intercept_) - targets)
    assert residuals.sum() == pytest.approx(0.0, abs=1e-8)
    assert residuals @ log_odds == pytest.approx(0.0, abs=1e-8)
    calibrated = fitted.predict_proba(Predictions.from_logits(log_odds))
    assert fitted.solution_.loss == pytest.approx(log_loss(outcomes, calibrated, sample_weight=given_weights))


def test_smoothed_targets_make_the_map_less_steep():
    log_odds, outcomes = some_log_odds(60)
    raw = Predictions.from_logits(log_odds)
    assert (
        0
        < PlattScaling(smoothed_targets=True).fit(raw, outcomes).slope_
        < PlattScaling().fit(raw, outcomes).slope_
    )


def test_log_odds_of_probabilities_are_those_of_the_logits():
    log_odds, outcomes = some_log_odds()
    raw = Predictions.from_logits(log_odds)
    on_logits = PlattScaling().fit(raw, outcomes)
    on_probabilities = PlattScaling().fit(raw.probabilities, outcomes)
    assert on_probabilities.slope_ == pytest.approx(on_logits.slope_, rel=1e-9)
    assert on_probabilities.intercept_ == pytest.approx(on_logits.intercept_, rel=1e-9)


@settings(max_examples=20)
@given(factor=st.floats(-4, 4).map(lambda power: 10.0**power), shift=st.floats(-50, 50))
def test_scale_and_origin_of_the_log_odds_do_not_matter(factor, shift):
    log_odds, outcomes = some_log_odds()
    plain = PlattScaling().fit(Predictions.from_logits(log_odds), outcomes)
    moved = PlattScaling().fit(Predictions.from_logits(factor * log_odds + shift), outcomes)
    assert moved.slope_ * factor == pytest.approx(plain.slope_, rel=1e-6)
    assert moved.intercept_ + moved.slope_ * shift == pytest.approx(plain.intercept_, abs=1e-6)


@pytest.mark.parametrize("parameters", [{}, {"smoothed_targets": True}, {"feature": "probability"}])
def test_exchanging_the_classes_exchanges_the_probabilities(parameters):
    log_odds, outcomes = some_log_odds()
    fitted = PlattScaling(**parameters).fit(Predictions.from_logits(log_odds), outcomes)
    exchanged = PlattScaling(**parameters).fit(Predictions.from_logits(-log_odds), 1 - outcomes)
    assert exchanged.slope_ == pytest.approx(fitted.slope_, rel=1e-8)
    np.testing.assert_allclose(
        exchanged.predict_proba(Predictions.from_logits(-log_odds))[:, ::-1],
        fitted.predict_proba(Predictions.from_logits(log_odds)),
        atol=1e-9,
    )


def test_scores_that_point_the_wrong_way_are_turned_round():
    fitted = PlattScaling().fit([0.9] * 4 + [0.1] * 4, [0, 0, 0, 1, 0, 1, 1, 1])
    assert fitted.slope_ == pytest.approx(-0.5, rel=1e-9)


def test_scores_that_say_nothing_get_the_share_of_events():
    fitted = PlattScaling().fit([0.7] * 8, [1, 0, 0, 0] * 2)
    assert fitted.slope_ == 1.0  # nothing speaks for another
    assert fitted.intercept_ == pytest.approx(log(1 / 3) - log(7 / 3), rel=1e-9)
    assert fitted.predict_proba([0.7])[0, 1] == pytest.approx(0.25, rel=1e-9)


# Separated outcomes


def test_separated_outcomes_take_smoothed_targets_and_warn_once():
    """One row each at 0.6 and 0.4: targets 2/3 and 1/3, hence a slope of log 2 / log 1.5."""
    with pytest.warns(ConvergenceWarning, match="separate the outcomes") as record:
        fitted = PlattScaling().fit([0.6, 0.4], [1, 0])
    assert len(record) == 1
    assert fitted.slope_ == pytest.approx(log(2) / log(1.5), rel=1e-6)
    assert not fitted.solution_.converged
    np.testing.assert_allclose(fitted.predict_proba([0.6])[0, 1], 2 / 3, rtol=1e-6)


def test_smoothed_targets_need_no_warning_where_outcomes_are_separated():
    fitted = PlattScaling(smoothed_targets=True).fit([0.6, 0.4], [1, 0])
    assert fitted.slope_ == pytest.approx(log(2) / log(1.5), rel=1e-6)
    assert fitted.solution_.converged


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_odds_beyond_the_float_range_give_no_zero(dtype):
    log_odds, outcomes = some_log_odds()
    fitted = PlattScaling().fit(Predictions.from_logits(log_odds.astype(dtype)), outcomes)
    fresh = Predictions.from_logits(np.array([-1e5, -1e3, 1e3, 1e5], dtype))
    calibrated = fitted.predict_proba(fresh)
    assert calibrated.dtype == dtype
    assert calibrated.min() > 0
    assert np.isfinite(log_loss([1, 1, 0, 0], calibrated))


def test_separated_classes_among_many_are_counted_in_one_warning():
    """Three classes and clean but modest rows: all three one-vs-rest problems are separated."""
    p = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]] * 2)
    with pytest.warns(
        ConvergenceWarning, match=r"separate the outcomes.*\(3 of 3 one-vs-rest fits\)"
    ) as record:
        fitted = PlattScaling().fit(p, [0, 1, 2] * 2)
    assert len(record) == 1
    assert log_loss([0, 1, 2] * 2, fitted.predict_proba(p)) < log_loss([0, 1, 2] * 2, p)


# More than two classes and parameters


def test_three_classes_are_three_fits_against_the_rest():
    generator = np.random.default_rng(2)
    p = generator.dirichlet([1, 1, 1], 200)
    labels = (p.cumsum(axis=1) < generator.random((200, 1))).sum(axis=1)
    fitted = PlattScaling().fit(p, labels)
    separate = np.column_stack(
        [
            PlattScaling().fit(p[:, column], labels == column).predict_proba(p[:, column])[:, 1]
            for column in range(3)
        ]
    )
    np.testing.assert_allclose(fitted.one_vs_rest_.class_probabilities(p), separate, atol=1e-9)
    np.testing.assert_allclose(
        fitted.predict_proba(p), separate / separate.sum(axis=1, keepdims=True), atol=1e-9
    )


def test_the_identity_is_a_member_only_on_log_odds_and_without_smoothing():
    """One-vs-rest falls back to the identity where it is a member; elsewhere that would hide what was asked for."""
    assert PlattScaling().traits.contains_identity
    assert not PlattScaling(feature="probability").traits.contains_identity
    assert not PlattScaling(smoothed_targets=True).traits.contains_identity
    assert not OneVsRest(PlattScaling(feature="probability")).traits.contains_identity


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"feature": "logit"}, "feature must be 'log-odds' or 'probability'"),
        ({"smoothed_targets": "no"}, "smoothed_targets must be True or False"),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_parameters_without_meaning_are_refused(parameters, message, n_classes):
    p = np.full((6, n_classes), 1 / n_classes)
    with pytest.raises(ParameterError, match=message):
        PlattScaling(**parameters).fit(p, np.arange(6) % n_classes)
