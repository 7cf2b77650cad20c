"""Isotonic calibration and its Mix-n-Match variants against what the authors' programs give.

The figures were computed elsewhere with the programs of Kull et al., Wenger et al., netcal and Zhang et al.
(Mix-n-Match) on the softmax outputs of three networks of netcal's examples; half of the rows of a seeded
permutation calibrate, the others test. Mix-n-Match takes logits, here ln p, so that its rows sum to one
again, unlike the float32 numbers; with the other programs the probabilities are as they are.
"""

import numpy as np
import pytest

from calibrant import AccuracyPreservingIsotonic, Chain, IsotonicCalibration, TemperatureScaling
from calibrant.binning import EqualWidth
from data import load

RAW = {"smoothing": 0.0}
MIX_N_MATCH = {"ties": "strict", "smoothing": 0.0}
# The program's map is g(p) + 1e-9 p, which can exceed one; ours is divided by this.
TOTAL = 1 + 1e-9


def halves_of(name):
    arrays = load(f"cifar_netcal/{name}")
    order = np.random.default_rng(0).permutation(10_000)
    probabilities, labels = arrays["probs"].astype(np.float64), arrays["y"]
    return (
        probabilities[order[:5000]],
        labels[order[:5000]],
        probabilities[order[5000:]],
        labels[order[5000:]],
    )


@pytest.fixture(scope="module")
def as_given():
    return halves_of("c10_wideresnet_16_4")


@pytest.fixture(scope="module")
def from_logits(as_given):
    calibration, labels, test, test_labels = as_given
    return divided(calibration), labels, divided(test), test_labels


def divided(rows):
    return rows / rows.sum(axis=1, keepdims=True)


def figures(rows, labels):
    """Log-loss, the same clipped at 1e-15, Brier score, confidence-ECE, classwise ECE, accuracy.

    By hand, since rows of some programs do not sum to one, which the library's metrics refuse.
    """
    own = rows[np.arange(len(labels)), labels]
    outcomes = np.zeros(rows.shape)
    outcomes[np.arange(len(labels)), labels] = 1
    with np.errstate(divide="ignore"):
        log_loss = -np.log(own).mean()
    return (
        log_loss,
        -np.log(np.maximum(own, 1e-15)).mean(),
        ((rows - outcomes) ** 2).sum(axis=1).mean(),
        binned_error(rows.max(axis=1), rows.argmax(axis=1) == labels),
        np.mean([binned_error(rows[:, column], labels == column) for column in range(rows.shape[1])]),
        (rows.argmax(axis=1) == labels).mean(),
    )


def binned_error(scores, outcomes):
    index = EqualWidth(15, closed="right").index(scores)
    return np.abs(np.bincount(index, scores - outcomes)).sum() / len(scores)


def assert_figures(rows, labels, log_loss, clipped, brier, confidence, classwise, accuracy):
    expected = (log_loss, clipped, brier, confidence, classwise, accuracy)
    for value, figure, digits in zip(figures(rows, labels), expected, (5, 5, 5, 5, 6, 4), strict=True):
        assert value == pytest.approx(figure, abs=0.51 * 10.0**-digits) or value == figure


def assert_sums(rows, lowest, highest):
    sums = rows.sum(axis=1)
    assert (round(sums.min(), 2), round(sums.max(), 2)) == (lowest, highest)


# One against the rest


def test_kull_wenger_and_netcal(as_given):
    """The three agree: six test rows have a true class of probability zero."""
    calibration, labels, test, test_labels = as_given
    calibrated = IsotonicCalibration(**RAW).fit(calibration, labels).predict_proba(test)
    assert (calibrated[np.arange(5000), test_labels] == 0).sum() == 6
    assert_figures(calibrated, test_labels, np.inf, 0.27553, 0.11791, 0.01319, 0.005717, 0.9184)


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
    assert_figures(
        fitted.predict_proba(test), test_labels, 0.27489, 0.27463, 0.11791, 0.01359, 0.005717, 0.9184
    )
    separate = TOTAL * fitted.one_vs_rest_.class_probabilities(test)
    assert_figures(separate, test_labels, 0.28024, 0.27997, 0.12139, 0.01580, 0.004616, 0.9184)
    assert_sums(separate, 0.39, 1.81)


# loss of the temperature, then the figures of rows made to sum to one and of rows as they come
AFTER_TEMPERATURE = {
    "log": (
        (0.25865, 0.25865, 0.11659, 0.01204, 0.005677, 0.9202),
        (0.26299, 0.26299, 0.11936, 0.01741, 0.004801, 0.9202),
        (0.43, 1.71),
        2.067436618,
    ),
    "brier": (
        (0.25857, 0.25857, 0.11668, 0.01118, 0.005735, 0.9206),
        (0.26311, 0.26311, 0.11948, 0.01812, 0.004840, 0.9206),
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
    assert_figures(chain.predict_proba(test), test_labels, *normalised)
    separate = TOTAL * isotonic.one_vs_rest_.class_probabilities(scaling.transform(test))
    assert_figures(separate, test_labels, *raw)
    assert_sums(separate, *sums)


# All pairs pooled


def test_irm(from_logits):
    calibration, labels, test, test_labels = from_logits
    fitted = AccuracyPreservingIsotonic(smoothing=0).fit(calibration, labels)
    assert_figures(
        fitted.predict_proba(test), test_labels, 0.26269, 0.26269, 0.12599, 0.01360, 0.008952, 0.9152
    )
    pooled = TOTAL * fitted.pooled_probabilities(test)
    assert_figures(pooled, test_labels, 0.26504, 0.26504, 0.12669, 0.00832, 0.008896, 0.9152)
    assert_sums(pooled, 0.75, 1.68)


def test_irm_of_a_hundred_classes():
    """What division by the sums changes: log-loss 0.911 to 0.899, confidence-ECE 0.0102 to 0.0312."""
    calibration, labels, test, test_labels = halves_of("c100_densenet_bc_100")
    fitted = AccuracyPreservingIsotonic(smoothing=0).fit(divided(calibration), labels)
    pooled = TOTAL * fitted.pooled_probabilities(divided(test))
    assert_sums(pooled, 0.65, 2.58)
    log_loss, _, _, confidence, _, _ = figures(pooled, test_labels)
    assert (round(log_loss, 3), round(confidence, 4)) == (0.911, 0.0102)
    log_loss, _, _, confidence, _, _ = figures(fitted.predict_proba(divided(test)), test_labels)
    assert (round(log_loss, 3), round(confidence, 4)) == (0.899, 0.0312)


# The defaults, whose ends are shrunk


def test_shrunk_ends_lower_the_log_loss_and_hardly_touch_the_rest(as_given):
    """Where the raw maps have 0.2755 (clipped at 1e-15) and 0.2627."""
    calibration, labels, test, test_labels = as_given
    for calibrator, log_loss, brier in (
        (IsotonicCalibration(), 0.24598, 0.11789),
        (IsotonicCalibration(ties="centered"), 0.24107, 0.11692),
        (AccuracyPreservingIsotonic(), 0.26290, 0.12599),
        (AccuracyPreservingIsotonic("centered"), 0.26280, 0.12598),
    ):
        found = figures(calibrator.fit(calibration, labels).predict_proba(test), test_labels)
        assert found[0] == pytest.approx(log_loss, abs=1e-5)
        assert found[2] == pytest.approx(brier, abs=1e-5)
