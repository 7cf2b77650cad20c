"""Exact optima of the convex problems on the softmax outputs of a wide residual network, CIFAR-10.

The figures were computed elsewhere in float64 to a gradient below 5e-8, and agree with the authors' programs
where these follow the paper's formula; the test part is the second half of a seeded permutation.
"""

import numpy as np
import pytest

from calibrant import DirichletCalibration, TemperatureScaling, VectorScaling
from calibrant.metrics import brier_score, confidence_ece, log_loss

K = 10


def plain_sums(reg_lambda, reg_mu):
    """The authors' network program penalises sums; the paper divides by K(K-1) and K."""
    return {"reg_lambda": reg_lambda * K * (K - 1), "reg_mu": reg_mu * K}


# calibrator, log-loss on the calibration rows, objective, test log-loss, test Brier, test confidence-ECE
OPTIMA = {
    "temperature": (TemperatureScaling(), 0.2886650173, 0.2886650173, 0.26033, 0.12569, 0.00945),
    "vector": (VectorScaling(), 0.2478318858, 0.2478318858, 0.23021, 0.11409, 0.00905),
    "none": (DirichletCalibration(None), 0.2316029898, 0.2316029898, 0.23092, 0.11544, 0.01357),
    "l2 0.0001": (DirichletCalibration("l2", 1e-4, None, center="zero"), 0.2319806097, 0.2329919003, 0.22987, 0.11490, 0.01100),
    "l2 0.01": (DirichletCalibration("l2", 1e-2, None, center="zero"), 0.2398775077, 0.2637853014, 0.22980, 0.11385, 0.00942),
    "l2 0.1": (DirichletCalibration("l2", 0.1, None, center="zero"), 0.2884166921, 0.3959496371, 0.26983, 0.12259, 0.06045),
    "odir 0.001": (DirichletCalibration("odir", 1e-3, 1e-3), 0.2319755078, 0.2326172740, 0.22996, 0.11494, 0.01139),
    "odir 0.1": (DirichletCalibration("odir", 0.1, 0.1), 0.2349969969, 0.2355804188, 0.22935, 0.11451, 0.01038),
    "odir 10": (DirichletCalibration("odir", 10.0, 10.0), 0.2417733805, 0.2450993903, 0.22725, 0.11278, 0.00765),
    "odir 100": (DirichletCalibration("odir", 100.0, 100.0), 0.2491343539, 0.2540793464, 0.22839, 0.11302, 0.01004),
    "sums 0.5": (DirichletCalibration("odir", **plain_sums(0.5, 1e-5)), 0.2433170655, 0.2452113432, 0.22858, 0.11358, 0.00907),
    "sums 10": (DirichletCalibration("odir", **plain_sums(10.0, 10.0)), 0.2612028167, 0.2658559398, 0.23604, 0.11666, 0.00715),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMA)
def test_the_optimum_is_reached(halves, name):
    calibration, labels, test, test_labels = halves
    calibrator, loss, objective, test_loss, brier, error = OPTIMA[name]
    fitted = calibrator.fit(calibration, labels)
    assert fitted.solution_.value == pytest.approx(objective, abs=2e-9)
    assert fitted.solution_.loss == pytest.approx(loss, abs=2e-6)
    calibrated = fitted.predict_proba(test)
    assert log_loss(test_labels, calibrated) == pytest.approx(test_loss, abs=1.5e-5)
    assert brier_score(test_labels, calibrated) == pytest.approx(brier, abs=1.5e-5)
    assert confidence_ece(test_labels, calibrated) == pytest.approx(error, abs=5e-4)


def test_the_temperature_to_nine_digits(halves):
    assert TemperatureScaling().fit(*halves[:2]).temperature_ == pytest.approx(2.06743668, abs=5e-9)


def test_the_temperature_of_the_brier_score(halves):
    """The Mix-n-Match program's default loss gives 2.078566863."""
    assert TemperatureScaling(loss="brier").fit(*halves[:2]).temperature_ == pytest.approx(
        2.078566863, rel=1e-6
    )


@pytest.mark.parametrize(("strengths", "expected"), [((0.5, 1e-5), 0.23399), ((10.0, 10.0), 0.24772)])
def test_zeroed_off_diagonals_without_refitting(halves, strengths, expected):
    calibration, labels, test, test_labels = halves
    fitted = DirichletCalibration("odir", **plain_sums(*strengths)).fit(calibration, labels)
    assert log_loss(test_labels, fitted.zeroed().predict_proba(test)) == pytest.approx(expected, abs=1.5e-5)


def test_the_canonical_diagonal(halves):
    """Mean diagonal of A at lambda = mu = 10; it does not depend on how W is normalised."""
    fitted = DirichletCalibration("odir", 10.0, 10.0).fit(*halves[:2])
    assert np.diag(fitted.canonical().matrix).mean() == pytest.approx(0.588553, abs=2e-5)
