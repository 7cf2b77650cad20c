"""Known shares of the classes and known rates of selection: closed forms, and what users may write."""

import warnings
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import calibrant
from calibrant import (
    BiasCorrectedTemperature,
    CalibratedClassifier,
    Chain,
    Predictions,
    PriorShift,
    TemperatureScaling,
)
from calibrant.errors import LabelError, MissingClassWarning, ParameterError

TWO = ([0.5, 0.5], [0, 1])
THREE = (np.full((4, 3), 1 / 3), [0, 1, 2, 2])


def problem(n_classes, n_rows=320, seed=0):
    """Return predictions, and labels drawn from the softmax of 0.6 log p + b, with b from -0.4 to 0.4."""
    generator = np.random.default_rng([seed, n_classes])
    p = 0.98 * generator.dirichlet(np.full(n_classes, 0.7), n_rows) + 0.02 / n_classes
    logits = 0.6 * np.log(p) + np.linspace(-0.4, 0.4, n_classes)
    return p, (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)


# Closed forms


def test_a_known_share_of_two_classes_multiplies_the_odds():
    """Odds of 4 and shares of 1/2 here, 1/5 there: odds of 4 * (1/4) / 1 = 1."""
    fitted = PriorShift(target_prior=0.2).fit(*TWO)
    np.testing.assert_allclose(fitted.predict_proba([0.8]), [[0.5, 0.5]], rtol=1e-14)
    np.testing.assert_allclose(fitted.factors_, [1.6, 0.4], rtol=1e-14)


def test_negatives_kept_at_a_rate_divide_the_odds():
    """p = q / (q + (1 - q) / r), the formula for negatives that were thinned out."""
    q, rate = np.array([0.01, 0.3, 0.9]), 0.05
    fitted = PriorShift(sampling_rate=rate).fit(*TWO)
    np.testing.assert_allclose(fitted.predict_proba(q)[:, 1], q / (q + (1 - q) / rate), rtol=1e-13)


def test_undoing_a_selection_of_simulated_rows_gives_the_calibrated_classifier_back():
    """Rows kept with probability r_k: by Bayes' rule the posterior among them is p_k r_k, normalised."""
    generator = np.random.default_rng(0)
    p = generator.dirichlet([1, 1, 1], 200)
    rates = np.array([0.1, 1.0, 0.4])
    selected = p * rates / (p @ rates)[:, np.newaxis]
    fitted = PriorShift(sampling_rate=rates).fit(selected, np.arange(200) % 3)
    np.testing.assert_allclose(fitted.predict_proba(selected), p, rtol=1e-12)


def test_logits_are_shifted_by_the_logarithm_of_the_ratio():
    """Shares 1/4, 1/4, 1/2 here, 1/2, 1/4, 1/4 there: + log 2, 0, - log 2."""
    fitted = PriorShift(target_prior=[0.5, 0.25, 0.25]).fit(*THREE)
    logits = np.array([[1.0, -2.0, 0.5]])
    shifted = fitted.transform(Predictions.from_logits(logits)).scores
    np.testing.assert_allclose(shifted, logits + np.array([log(2), 0, -log(2)]), rtol=1e-14)


@settings(max_examples=30)
@given(
    shares=st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
    odds=st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
)
def test_there_and_back_is_the_identity_and_rows_agree_with_a_plain_loop(shares, odds):
    target, p = np.array(shares) / sum(shares), np.array([odds]) / sum(odds)
    there = PriorShift(target_prior=target, source_prior=[0.2, 0.3, 0.5]).fit(*THREE)
    back = PriorShift(target_prior=[0.2, 0.3, 0.5], source_prior=target).fit(*THREE)
    moved = there.predict_proba(p)
    plain = [p[0, k] * target[k] / [0.2, 0.3, 0.5][k] for k in range(3)]
    np.testing.assert_allclose(moved[0], np.array(plain) / sum(plain), rtol=1e-12)
    np.testing.assert_allclose(back.predict_proba(moved), p, rtol=1e-9)


def test_the_same_shares_change_nothing():
    X, y = problem(3)
    fitted = PriorShift(target_prior=np.bincount(y) / len(y)).fit(X, y)
    np.testing.assert_allclose(fitted.predict_proba(X), X, rtol=1e-12)


# Source shares


def test_weights_count_in_the_shares_of_the_source():
    X, y = problem(3)
    weights = np.arange(len(y)) % 4
    weighted = PriorShift(target_prior=[0.2, 0.3, 0.5]).fit(X, y, sample_weight=weights)
    repeated = PriorShift(target_prior=[0.2, 0.3, 0.5]).fit(np.repeat(X, weights, 0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.factors_, repeated.factors_, rtol=1e-13)
    np.testing.assert_allclose(weighted.source_prior_, np.bincount(y, weights) / weights.sum(), rtol=1e-13)


def test_mean_predictions_can_be_the_shares_of_the_source():
    X, y = problem(3)
    fitted = PriorShift(target_prior=[0.2, 0.3, 0.5], source_prior="predictions").fit(X, y)
    np.testing.assert_allclose(fitted.source_prior_, X.mean(axis=0), rtol=1e-12)


def test_after_a_selection_the_target_has_the_shares_before_it():
    """Half and half after keeping one negative in ten: 10 to 1 before."""
    fitted = PriorShift(sampling_rate={0: 0.1}).fit(*TWO)
    np.testing.assert_allclose(fitted.target_prior_, [10 / 11, 1 / 11], rtol=1e-13)


def test_a_class_without_rows_has_the_share_of_its_mean_prediction():
    X = np.array([[0.5, 0.3, 0.2], [0.3, 0.5, 0.2]])
    with pytest.warns(MissingClassWarning):
        fitted = PriorShift(target_prior=[0.2, 0.4, 0.4]).fit(X, [0, 1])
    np.testing.assert_allclose(fitted.source_prior_, [0.4, 0.4, 0.2], rtol=1e-13)
    np.testing.assert_allclose(fitted.factors_, [0.5, 1, 2], rtol=1e-13)
    assert np.isfinite(fitted.predict_proba(X)).all()


# Edges


def test_a_share_of_zero_makes_a_class_impossible_even_where_it_was_certain():
    fitted = PriorShift(target_prior=[0.0, 0.5, 0.5]).fit(*THREE)
    p = fitted.predict_proba([[0.2, 0.4, 0.4], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(p, [[0, 2 / 3, 1 / 3], [0, 2 / 3, 1 / 3]], rtol=1e-12)
    logits = fitted.predict_proba(Predictions.from_logits([[5.0, 0.0, 0.0]]))
    np.testing.assert_allclose(logits, [[0, 2 / 3, 1 / 3]], rtol=1e-12)


def test_zeros_count_as_the_floor_and_stay_finite():
    X, y = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), [0, 1, 1]
    p = PriorShift(target_prior=0.9).fit(X, y).predict_proba(X)
    assert np.isfinite(np.log(p)).all()


def test_short_floats_stay_short_and_agree():
    X, y = problem(3)
    short = (
        PriorShift(target_prior=[0.7, 0.2, 0.1])
        .fit(X.astype(np.float32), y)
        .predict_proba(X.astype(np.float32))
    )
    assert short.dtype == np.float32
    long = PriorShift(target_prior=[0.7, 0.2, 0.1]).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(short, long, atol=1e-6)


def test_tiny_shares_do_not_overflow():
    fitted = PriorShift(sampling_rate=[1e-300, 1.0]).fit(*TWO)
    assert np.isfinite(fitted.predict_proba([0.5, 1e-9])).all()
    # Rates of which the inverse is no float: only their ratio counts.
    fitted = PriorShift(sampling_rate=[1e-320, 3e-320]).fit(*TWO)
    np.testing.assert_allclose(
        fitted.factors_, [1, 1 / 3], rtol=1e-3
    )  # three digits are all that such floats have
    np.testing.assert_allclose(PriorShift(sampling_rate=[1e300, 3e300]).fit(*TWO).factors_, [1, 1 / 3])


# What users may write


def test_labels_may_come_in_any_order():
    p, y = [[0.6, 0.4], [0.4, 0.6]], ["no", "yes"]
    by_label = PriorShift(target_prior={"yes": 0.1, "no": 0.9}).fit(p, y)
    np.testing.assert_array_equal(by_label.factors_, PriorShift(target_prior=0.1).fit(p, y).factors_)
    by_rate = PriorShift(sampling_rate={"no": 0.1}).fit(p, y)
    np.testing.assert_array_equal(by_rate.factors_, PriorShift(sampling_rate=0.1).fit(p, y).factors_)
    numbered = PriorShift(target_prior={np.int64(1): 0.1, 0: 0.9}).fit(p, [0, 1])
    np.testing.assert_array_equal(numbered.factors_, by_label.factors_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "neither"),
        ({"target_prior": 0.1, "sampling_rate": 0.1}, "both"),
        ({"target_prior": 1.2}, "from 0 to 1"),
        ({"target_prior": "many"}, "from 0 to 1"),
        ({"target_prior": [0.5, 0.4]}, "sum to 1"),
        ({"target_prior": [0.5, 0.25, 0.25]}, "2 numbers"),
        ({"target_prior": [1.5, -0.5]}, "not negative"),
        ({"target_prior": {0: 1.0}}, "lacks the class 1"),
        ({"target_prior": {0: 0.5, "yes": 0.5}}, "'yes', which is not among"),
        ({"target_prior": 0.5, "source_prior": "guess"}, "'labels' or 'predictions'"),
        ({"target_prior": 0.5, "source_prior": [1.0, 0.0]}, "source_prior is 0 for class 1"),
        ({"sampling_rate": 0.0}, "positive"),
        ({"sampling_rate": "few"}, "positive"),
        ({"sampling_rate": [1.0, np.inf]}, "finite"),
        ({"sampling_rate": [1e-320, 1e300]}, "beyond the range of floats"),
        ({"sampling_rate": [1e-300, 1e300]}, "beyond the range of floats"),
        ({"sampling_rate": [1.0, 1e-320]}, "beyond the range of floats"),
        ({"target_prior": 0.5, "source_prior": [1e-320, 1.0]}, "beyond the range of floats"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        PriorShift(**parameters).fit(*TWO)


def test_one_rate_is_for_two_classes():
    with pytest.raises(ParameterError, match="dict from label to rate"):
        PriorShift(sampling_rate=0.1).fit(*THREE)


def test_labels_of_one_class_are_refused():
    with pytest.raises(LabelError):
        PriorShift(target_prior=0.1).fit([0.5, 0.5], [1, 1])


# In company


def test_last_in_a_chain_it_shifts_what_the_stage_before_gives():
    X, y = problem(3)
    target = [0.5, 0.3, 0.2]
    chain = Chain([TemperatureScaling(), PriorShift(target)]).fit(X, y)
    q = TemperatureScaling().fit(X, y).predict_proba(X) * target / (np.bincount(y) / len(y))
    np.testing.assert_allclose(chain.predict_proba(X), q / q.sum(axis=1, keepdims=True), rtol=1e-12)


def test_around_a_classifier_trained_on_thinned_rows_it_restores_the_prevalence():
    """Nineteen of twenty negatives were thrown away before training and calibration; the mean prediction on rows as
    they come, some thousands, must be near the prevalence of five per cent again, and the log-loss low.
    """
    generator = np.random.default_rng(0)
    y = (generator.random(20_000) < 0.05).astype(int)
    x = generator.normal(size=(20_000, 2)) + y[:, np.newaxis]
    kept = (y[:10_000] == 1) | (generator.random(10_000) < 0.05)
    rows, labels = x[:10_000][kept], y[:10_000][kept]
    method = Chain([TemperatureScaling(), PriorShift(sampling_rate=0.05)])
    classifier = CalibratedClassifier(LogisticRegression(), method=method, cv=3).fit(rows, labels)
    p = classifier.predict_proba(x[10_000:])[:, 1]
    thinned = CalibratedClassifier(LogisticRegression(), method="temperature", cv=3).fit(rows, labels)
    assert thinned.predict_proba(x[10_000:])[:, 1].mean() > 0.25
    assert p.mean() == pytest.approx(0.05, abs=0.012)


def test_it_can_be_saved(tmp_path):
    X, y = problem(3)
    for fitted in (
        PriorShift(target_prior=[0.5, 0.3, 0.2]).fit(X, y),
        Chain([TemperatureScaling(), PriorShift(sampling_rate=[1.0, 0.1, 1.0])]).fit(X, y),
    ):
        fitted.save(tmp_path / "shift.npz")
        loaded = calibrant.load(tmp_path / "shift.npz")
        np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize(
    "parameters",
    [
        {"sampling_rate": {1: 20}},
        {"target_prior": {0: 0.9, 1: 0.1}},
        {"target_prior": {np.int64(0): 0.9, np.int64(1): 0.1}},
        {"target_prior": 0.1, "source_prior": {True: 0.3, False: 0.7}},
    ],
)
def test_numbers_by_label_are_saved_with_it(parameters, tmp_path):
    """Warnings, such as that of a parameter that a file cannot hold, are errors in these tests."""
    fitted = PriorShift(**parameters).fit(*TWO)
    fitted.save(tmp_path / "shift.npz")
    loaded = calibrant.load(tmp_path / "shift.npz")
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(loaded.fit(*TWO).factors_, fitted.factors_)


# Bias-corrected temperature scaling


def test_mean_predictions_of_the_bias_corrected_temperature_are_the_shares_of_the_labels():
    """The derivative of the log-loss in the intercept of a class is the difference of the two."""
    X, y = problem(3)
    weights = 1.0 + np.arange(len(y)) % 3
    fitted = BiasCorrectedTemperature().fit(X, y, sample_weight=weights)
    mean = np.average(fitted.predict_proba(X), axis=0, weights=weights)
    np.testing.assert_allclose(mean, np.bincount(y, weights) / weights.sum(), atol=1e-7)
    assert fitted.intercept_.sum() == pytest.approx(0, abs=1e-12)


def test_for_two_classes_it_is_the_logistic_regression_of_the_log_odds():
    """softmax(beta z + b) of two classes is sigmoid(beta (z_1 - z_0) + b_1 - b_0)."""
    X, y = problem(2)
    fitted = BiasCorrectedTemperature().fit(X, y)
    log_odds = np.log(X[:, 1] / X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how to say that there is no penalty differs between versions
        logistic = LogisticRegression(C=1e12, tol=1e-10).fit(log_odds[:, np.newaxis], y)
    assert fitted.inverse_temperature_ == pytest.approx(logistic.coef_[0, 0], rel=1e-4)
    assert np.diff(fitted.intercept_)[0] == pytest.approx(logistic.intercept_[0], rel=1e-4)


def test_it_finds_the_parameters_that_labels_were_drawn_with():
    """Labels from softmax(0.6 log p + b), 200,000 rows: estimates within five standard errors, about 0.01."""
    X, y = problem(3, n_rows=200_000, seed=3)
    fitted = BiasCorrectedTemperature().fit(X, y)
    assert fitted.inverse_temperature_ == pytest.approx(0.6, abs=0.02)
    np.testing.assert_allclose(fitted.intercept_, [-0.4, 0, 0.4], atol=0.04)
