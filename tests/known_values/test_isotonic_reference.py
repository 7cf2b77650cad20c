"""Isotonic calibration and its Mix-n-Match variants against what the authors' programs give.

The figures were computed elsewhere with the programs of Kull et al., Wenger et al., netcal and Zhang et al.
(Mix-n-Match) on the softmax outputs of three networks. Mix-n-Match takes logits, here ln p, so that its rows sum
to one again, unlike the float32 numbers; with the other programs the probabilities are as they are.
"""

import numpy as np
import pytest
from reference_split import figures, halves_of

from calibrant import AccuracyPreservingIsotonic, Chain, IsotonicCalibration, TemperatureScaling

RAW = {"smoothing": 0.0}
MIX_N_MATCH = {"ties": "strict", "smoothing": 0.0}
# The program's map is g(p) + 1e-9 p, which can exceed one; ours is divided by this.
TOTAL = 1 + 1e-9


@pytest.fixture(scope="module")
def from_logits(halves):
    calibration, labels, test, test_labels = halves
    return divided(calibration), labels, divided(test), test_labels


def divided(rows):
    return rows / rows.sum(axis=1, keepdims=True)


def assert_sums(rows, lowest, highest):
    sums = rows.sum(axis=1)
    assert (round(sums.min(), 2), round(sums.max(), 2)) == (lowest, highest)


# One against the rest


def test_kull_wenger_and_netcal(halves):
    """The three agree: six test rows have a true class of probability zero."""
    calibration, labels, test, test_labels = halves
    calibrated = IsotonicCalibration(**RAW).fit(calibration, labels).predict_proba(test)
    assert (calibrated[np.arange(5000), test_labels] == 0).sum() == 6
    expected = ("inf (0.27553)", "0.11791", "0.01319", "0.005717", "0.9184")
    assert figures(calibrated, test_labels).printed() == expected


@pytest.mark.parametrize(("name", "zeros"), [("c10_lenet_5", 13), ("c100_densenet_bc_100", 91)])
def test_true_classes_of_probability_zero_on_the_other_networks(name, zeros):
    calibration, labels, test, test_labels = halves_of(name)
    raw = IsotonicCalibration(**RAW).fit(calibration, labels).predict_proba(test)
    assert (raw[np.arange(5000), test_labels] == 0).sum() == zeros
    default = IsotonicCalibration().fit(calibration, labels).predict_proba(test)
    assert default.min() > 1e-6


def test_irova(from_logits):
    calibration, labels, test, test_labels = from_logits
    fitted = IsotonicCalibration(**MIX_N_MATCH).fit(calibration, labels)
    expected = ("0.27489 (0.27463)", "0.11791", "0.01359", "0.005717", "0.9184")
    assert figures(fitted.predict_proba(test), test_labels).printed() == expected
    separate = TOTAL * fitted.one_vs_rest_.class_probabilities(test)
    expected = ("0.28024 (0.27997)", "0.12139", "0.01580", "0.004616", "0.9184")
    assert figures(separate, test_labels).printed() == expected
    assert_sums(separate, 0.39, 1.81)


# loss of the temperature, then the figures of rows made to sum to one and of rows as they come
AFTER_TEMPERATURE = {
    "log": (
        ("0.25865", "0.11659", "0.01204", "0.005677", "0.9202"),
        ("0.26299", "0.11936", "0.01741", "0.004801", "0.9202"),
        (0.43, 1.71),
        2.067436618,
    ),
    "brier": (
        ("0.25857", "0.11668", "0.01118", "0.005735", "0.9206"),
        ("0.26311", "0.11948", "0.01812", "0.004840", "0.9206"),
        (0.42, 1.71),
        2.078566863,
    ),
}


@pytest.mark.parametrize("loss", AFTER_TEMPERATURE)
def test_irova_after_temperature_scaling(from_logits, loss):
    """The paper's text fits the temperature by log-loss; the program's default is the Brier score."""
    calibration, labels, test, test_labels = from_logits
    normalised, raw, sums, temperature = AFTER_TEMPERATURE[loss]
    chain = Chain([TemperatureScaling(loss=loss), IsotonicCalibration(**MIX_N_MATCH)]).fit(
        calibration, labels
    )
    scaling, isotonic = chain.calibrators_
    assert scaling.temperature_ == pytest.approx(temperature, rel=1e-6)
    assert figures(chain.predict_proba(test), test_labels).printed() == normalised
    separate = TOTAL * isotonic.one_vs_rest_.class_probabilities(scaling.transform(test))
    assert figures(separate, test_labels).printed() == raw
    assert_sums(separate, *sums)


# All pairs pooled


def test_irm(from_logits):
    calibration, labels, test, test_labels = from_logits
    fitted = AccuracyPreservingIsotonic(smoothing=0).fit(calibration, labels)
    expected = ("0.26269", "0.12599", "0.01360", "0.008952", "0.9152")
    assert figures(fitted.predict_proba(test), test_labels).printed() == expected
    pooled = TOTAL * fitted.pooled_probabilities(test)
    expected = ("0.26504", "0.12669", "0.00832", "0.008896", "0.9152")
    assert figures(pooled, test_labels).printed() == expected
    assert_sums(pooled, 0.75, 1.68)


def test_irm_of_a_hundred_classes():
    """What division by the sums changes: log-loss 0.911 to 0.899, confidence-ECE 0.0102 to 0.0312."""
    calibration, labels, test, test_labels = halves_of("c100_densenet_bc_100")
    fitted = AccuracyPreservingIsotonic(smoothing=0).fit(divided(calibration), labels)
    pooled = TOTAL * fitted.pooled_probabilities(divided(test))
    assert_sums(pooled, 0.65, 2.58)
    for rows, log_loss, confidence in (
        (pooled, 0.911, 0.0102),
        (fitted.predict_proba(divided(test)), 0.899, 0.0312),
    ):
        found = figures(rows, test_labels)
        assert (round(found.log_loss, 3), round(found.confidence_ece, 4)) == (log_loss, confidence)


# The defaults, whose ends are shrunk


def test_shrunk_ends_lower_the_log_loss_and_hardly_touch_the_rest(halves):
    """Where the raw maps have 0.2755 (clipped at 1e-15) and 0.2627."""
    calibration, labels, test, test_labels = halves
    for calibrator, log_loss, brier in (
        (IsotonicCalibration(), 0.24598, 0.11789),
        (IsotonicCalibration(ties="centered"), 0.24107, 0.11692),
        (AccuracyPreservingIsotonic(), 0.26290, 0.12599),
        (AccuracyPreservingIsotonic("centered"), 0.26280, 0.12598),
    ):
        found = figures(calibrator.fit(calibration, labels).predict_proba(test), test_labels)
        assert found.log_loss == pytest.approx(log_loss, abs=1e-5)
        assert found.brier_score == pytest.approx(brier, abs=1e-5)
