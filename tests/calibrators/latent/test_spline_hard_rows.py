"""Spline calibration of rows that are few, constant, all right, saturated or many, and of parameters without meaning."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from spline_rows import FORMS, drawn, event, events, log_loss

from calibrant import Predictions, SplineCalibration
from calibrant.errors import CalibrationWarning, LabelError, ParameterError

every_form = pytest.mark.parametrize("form", FORMS)


def test_one_row_and_rows_of_one_class_are_refused():
    for form in FORMS:
        with pytest.raises(LabelError, match="at least two classes"):
            SplineCalibration(form).fit([[0.7, 0.2, 0.1]], [0])
        with pytest.raises(LabelError, match="at least two classes"):
            SplineCalibration(form).fit([[0.7, 0.3], [0.4, 0.6]], [0, 0])


@every_form
@pytest.mark.parametrize("labels", [[0, 1], [1, 0]])
def test_two_rows(form, labels):
    fitted = SplineCalibration(form).fit([[0.6, 0.4], [0.4, 0.6]], labels)
    calibrated = fitted.predict_proba([[0.6, 0.4], [1.0, 0.0]])
    assert np.isfinite(np.log(calibrated)).all()


@every_form
def test_constant_logits_become_frequencies_or_stay(form):
    """Frequencies 1/2, 1/4, 1/4: each class is repaired; the first, which counts as predicted, in both forms.

    Chi-squared of class 0 is 300 (1/6)^2 / (2/9) = 37.5, of each other 300 (1/12)^2 / (2/9) = 9.375, all three 56.25.
    Of the correction of the predicted class alone 1 - 1/37.5 remains, of those of three classes 1 - 3/56.25.
    """
    labels = np.array([0, 1, 0, 2] * 75)
    fitted = SplineCalibration(form).fit(Predictions.from_logits(np.full((300, 3), 7.0)), labels)
    calibrated = fitted.predict_proba(Predictions.from_logits(np.full((1, 3), -2.0)))[0]
    if form == "top-label":
        first = 1 / 3 + (1 - 1 / 37.5) / 6
        np.testing.assert_allclose(calibrated, [first, (1 - first) / 2, (1 - first) / 2], rtol=1e-9)
    else:
        assert fitted.shrinkage_ == pytest.approx(1 - 3 / 56.25, rel=1e-9)
        np.testing.assert_allclose(
            calibrated, 1 / 3 + fitted.shrinkage_ * np.array([1 / 6, -1 / 12, -1 / 12]), rtol=1e-9
        )


@every_form
def test_rows_that_are_all_right_make_nobody_certain(form):
    """30 rows: Laplace's rule allows 31/32 at most."""
    rows = np.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]] * 10)
    fitted = SplineCalibration(form).fit(rows, np.arange(30) % 3)
    assert fitted.inverse_temperature_ == 1
    calibrated = fitted.predict_proba(rows)
    assert calibrated.max() <= 31 / 32 + 1e-9
    assert log_loss(calibrated, np.arange(30) % 3) < log_loss(rows, np.arange(30) % 3)


def test_rows_all_right_that_are_surer_than_laplace_stay_as_they_are():
    rows = np.array([[0.98, 0.02], [0.02, 0.98]] * 5)
    with pytest.warns(CalibrationWarning, match="top label: after the temperature, the identity"):
        fitted = SplineCalibration("top-label").fit(rows, np.arange(10) % 2)
    assert fitted.identity_kept_
    np.testing.assert_allclose(fitted.predict_proba(rows), rows, rtol=1e-12)


@every_form
def test_scores_without_information_are_forgotten(form):
    generator = np.random.default_rng(5)
    given = Predictions.from_logits(2 * generator.normal(size=(3000, 3)))
    labels = generator.integers(0, 3, 3000)
    calibrated = SplineCalibration(form).fit(given, labels).predict_proba(given)
    assert log_loss(calibrated, labels) <= np.log(3) + 1e-9


@every_form
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_size_of_logits_does_not_matter(form, scale, dtype):
    logits, labels = drawn(500, 3)
    logits = logits.astype(dtype)
    usual, other = Predictions.from_logits(logits), Predictions.from_logits(dtype(scale) * logits)
    expected = SplineCalibration(form).fit(usual, labels).predict_proba(usual)
    calibrated = SplineCalibration(form).fit(other, labels).predict_proba(other)
    np.testing.assert_allclose(calibrated, expected, rtol=0, atol=1e-5 if dtype is np.float32 else 1e-8)


@every_form
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saturated_rows_and_rows_far_outside_have_finite_losses(form, dtype):
    logits, labels = drawn(400, 3, scale=20.0, honest=0.2)
    exponentials = np.exp((logits - logits.max(axis=1, keepdims=True)).astype(dtype))
    rows = exponentials / exponentials.sum(axis=1, keepdims=True)
    rows[:20] = np.eye(3, dtype=dtype)[rows[:20].argmax(axis=1)]
    fitted = SplineCalibration(form).fit(rows, labels)
    far = np.vstack([np.eye(3), np.full((1, 3), 1 / 3), [[1 - 1e-6, 1e-6, 0]]]).astype(dtype)
    calibrated = fitted.predict_proba(far)
    assert np.isfinite(np.log(calibrated)).all()
    assert np.isfinite(np.log(fitted.predict_proba(rows))).all()


@settings(max_examples=10)
@given(rows=events(), x=st.floats(-800, 800))
def test_no_correction_makes_an_event_less_likely_than_laplace_allows(rows, x):
    fitted = event().fit(*rows)
    probability = expit(x)
    calibrated = fitted.predict_proba(Predictions.from_logits([[0.0, x]]))[0, 1]
    smallest = 1 / (rows[2].sum() + 2)
    assert calibrated >= min(probability, smallest) * (1 - 1e-12)
    assert calibrated <= max(probability, 1 - smallest)


def test_many_classes():
    logits, labels = drawn(2000, 1000, scale=3.0)
    labels[:1000] = np.arange(1000)
    given = Predictions.from_logits(logits.astype(np.float32))
    before = log_loss(given.probabilities, labels)
    calibrated = SplineCalibration("top-label").fit(given, labels).predict_proba(given)
    assert log_loss(calibrated, labels) < before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "all"}, "form must be 'one-vs-rest' or 'top-label', not 'all'"),
        ({"n_knots": 1}, "n_knots must be an integer of at least 2, not 1"),
        ({"temperature": "yes"}, "temperature must be True or False, not 'yes'"),
        ({"estimate": "exact"}, "estimate must be 'weighted' or 'plain', not 'exact'"),
        ({"shrinkage": 1.5}, "shrinkage must be a number from 0 to 1, or None to estimate it, not 1.5"),
        ({"monotone": None}, "monotone must be True or False, not None"),
    ],
)
def test_parameters_without_meaning_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        SplineCalibration(**options).fit([0.2, 0.7], [0, 1])
