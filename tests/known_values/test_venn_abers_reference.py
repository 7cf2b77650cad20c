"""Figures of the package venn-abers 1.5.4, whose authors published the method.

It computes p_0 and p_1 for every calibration score by a loop with O(n) work in each step, and looks them up.
"""

import numpy as np
import pytest
from reference_split import figures

from calibrant import IsotonicCalibration, VennAbersCalibration
from calibrant.metrics import brier_score, classwise_ece, confidence_ece, log_loss

SCORES = [0.05, 0.12, 0.2, 0.2, 0.33, 0.41, 0.41, 0.41, 0.55, 0.62, 0.7, 0.7, 0.83, 0.9, 0.97]
OUTCOMES = [0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 1]

# Below, at, between and above the calibration scores.
PLACES = [0.01, 0.05, 0.1, 0.2, 0.3, 0.41, 0.5, 0.62, 0.7, 0.75, 0.9, 0.97, 0.99]

ROWS = [
    [0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.25, 0.15, 0.6],
    [0.4, 0.35, 0.25], [0.05, 0.15, 0.8], [0.6, 0.1, 0.3], [0.15, 0.55, 0.3], [0.35, 0.4, 0.25], [0.2, 0.1, 0.7],
]  # fmt: skip
LABELS = [0, 1, 1, 1, 2, 2, 0, 2, 0, 0, 1, 0]
ASKED = [
    [0.65, 0.2, 0.15], [0.3, 0.5, 0.2], [0.1, 0.15, 0.75], [0.34, 0.33, 0.33], [0.9, 0.05, 0.05], [0.02, 0.08, 0.9],
]  # fmt: skip


def test_two_classes():
    """VennAbers().fit and predict_proba, without rounding (precision=None)."""
    fitted = VennAbersCalibration().fit(SCORES, OUTCOMES)
    lower, upper = fitted.predict_interval(PLACES)
    expected_lower = [
        0, 0, 0, 0.25, 0.25, 0.2857142857142857, 0.2857142857142857, 0.3333333333333333, 0.6, 0.6, 0.6,
        0.6666666666666666, 0.6666666666666666,
    ]  # fmt: skip
    expected_upper = [
        0.3333333333333333, 0.3333333333333333, 0.375, 0.42857142857142855, 0.42857142857142855, 0.5,
        0.6666666666666666, 0.6666666666666666, 0.8, 0.8, 0.8, 1, 1,
    ]  # fmt: skip
    merged = [
        0.25, 0.25, 0.2727272727272727, 0.3636363636363636, 0.3636363636363636, 0.4117647058823529,
        0.48275862068965514, 0.5, 0.6666666666666666, 0.6666666666666666, 0.6666666666666666, 0.75, 0.75,
    ]  # fmt: skip
    assert lower[:, 1] == pytest.approx(expected_lower, rel=1e-14)
    assert upper[:, 1] == pytest.approx(expected_upper, rel=1e-14)
    assert fitted.predict_proba(PLACES)[:, 1] == pytest.approx(merged, rel=1e-14)


def test_three_classes():
    """VennAbersCalibrator().predict_proba with va_type="one_vs_rest" and p0_p1_output=True."""
    fitted = VennAbersCalibration().fit(ROWS, LABELS)
    lower, upper = fitted.predict_interval(ASKED)
    expected_lower = [
        [0.5, 0.2857142857142857, 0, 0.2857142857142857, 0.6666666666666666, 0],
        [0, 0.3333333333333333, 0, 0.25, 0, 0],
        [0, 0, 0.5, 0, 0, 0.6],
    ]
    expected_upper = [
        [1, 0.42857142857142855, 0.375, 0.5, 1, 0.3333333333333333],
        [0.4, 0.6666666666666666, 0.25, 0.5, 0.16666666666666666, 0.16666666666666666],
        [0.14285714285714285, 0.14285714285714285, 1, 0.75, 0.1111111111111111, 1],
    ]
    merged = [
        [0.6187845303867403, 0.2651933701657459, 0.11602209944751382],
        [0.375, 0.5, 0.125],
        [0.23936170212765956, 0.17553191489361702, 0.5851063829787234],
        [0.3319783197831978, 0.32249322493224936, 0.34552845528455284],
        [0.7553956834532374, 0.14388489208633093, 0.10071942446043165],
        [0.22580645161290322, 0.12903225806451613, 0.6451612903225806],
    ]
    np.testing.assert_allclose(lower.T, expected_lower, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(upper.T, expected_upper, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(fitted.predict_proba(ASKED), merged, rtol=1e-14)


def test_rounded_calibration_scores():
    """With precision=1 the package rounds the calibration scores and not those asked about, 0.05 to 0.0 for one."""
    fitted = VennAbersCalibration().fit(np.round(SCORES, 1), OUTCOMES)
    lower, upper = fitted.predict_interval(PLACES)
    expected_lower = [
        0, 0, 0, 0.25, 0.25, 0.2857142857142857, 0.2857142857142857, 0.3333333333333333, 0.6, 0.6, 0.6, 0.6, 0.6,
    ]  # fmt: skip
    expected_upper = [
        0.375, 0.375, 0.375, 0.42857142857142855, 0.42857142857142855, 0.6666666666666666, 0.6666666666666666, 0.8,
        0.8, 0.8, 0.8, 1, 1,
    ]  # fmt: skip
    assert lower[:, 1] == pytest.approx(expected_lower, rel=1e-14)
    assert upper[:, 1] == pytest.approx(expected_upper, rel=1e-14)


def test_a_wide_residual_network(halves):
    """One-vs-rest of the package: log-loss 0.24653127768432068, Brier 0.11753805064377221, accuracy 0.9184."""
    calibration, labels, test, test_labels = halves
    calibrated = VennAbersCalibration().fit(calibration, labels).predict_proba(test)
    assert log_loss(test_labels, calibrated) == pytest.approx(0.24653127768432068, rel=1e-12)
    assert brier_score(test_labels, calibrated) == pytest.approx(0.11753805064377221, rel=1e-12)
    assert (calibrated.argmax(axis=1) == test_labels).mean() == 0.9184
    assert confidence_ece(test_labels, calibrated) == pytest.approx(0.014026, abs=5e-7)
    assert classwise_ece(test_labels, calibrated) == pytest.approx(0.006149, abs=5e-7)


def test_the_cross_form_on_that_network(halves):
    """Our own figures: five maps of a fifth of the rows are worse than one of all, and under-confident."""
    calibration, labels, test, test_labels = halves
    calibrated = VennAbersCalibration(cv=5).fit(calibration, labels).predict_proba(test)
    expected = ("0.26630", "0.11958", "0.04048", "0.010847", "0.9206")
    assert figures(calibrated, test_labels).printed() == expected
    assert calibrated.max(axis=1).mean() < (calibrated.argmax(axis=1) == test_labels).mean() - 0.03


def test_no_worse_than_isotonic_regression_on_that_network(halves):
    """Finite where the raw map is not, and with a lower Brier score."""
    calibration, labels, test, test_labels = halves
    ours = VennAbersCalibration().fit(calibration, labels).predict_proba(test)
    raw = IsotonicCalibration(smoothing=0).fit(calibration, labels).predict_proba(test)
    assert raw[np.arange(len(test_labels)), test_labels].min() == 0
    assert ours.min() > 0
    assert brier_score(test_labels, ours) < brier_score(test_labels, raw)
