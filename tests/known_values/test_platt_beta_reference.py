"""Platt scaling and beta calibration one against the rest, on the softmax outputs of a wide residual network, CIFAR-10.

The published programs call a general optimiser of scikit-learn with its default tolerance, which stops where the
slope is still noticeable: figures that hang on a few rows at the edge of a bin, the calibration errors, differ from
those of the optimum in their third digit. Run with the same features and a tolerance of 1e-12 (scikit-learn 1.9.1)
the same optimiser gives the figures that are expected here to all digits; beside each stands what the program printed.
"""

import numpy as np
import pytest
from reference_split import figures
from sklearn.linear_model import LogisticRegression

from calibrant import BetaCalibration, PlattScaling, Predictions
from calibrant.metrics import accuracy, log_loss

K = 10

# What the authors' programs clip to: the machine epsilon of float64.
EPSILON = float(np.finfo(np.float64).eps)


def event(p):
    """Return the features of the programs: the probability of a class alone, its complement one minus it."""
    return Predictions.from_probabilities(p, floor=EPSILON)


# calibrator; log-loss, Brier score, confidence-ECE, class-wise ECE and accuracy at the optimum; as printed
ROWS = {
    "Kull OvR_Beta abm": (
        BetaCalibration("abm"),
        ("0.23717", "0.11623", "0.00923", "0.005462", "0.9212"),
        (0.23717, 0.11623, 0.00908, 0.005495, 0.9212),
    ),
    "Kull OvR_Beta am": (
        BetaCalibration("am"),
        ("0.23697", "0.11604", "0.00724", "0.005152", "0.9216"),
        (0.23699, 0.11604, 0.00720, 0.005227, 0.9216),
    ),
    "Kull OvR_Beta ab": (
        BetaCalibration("ab"),
        ("0.24828", "0.12298", "0.01425", "0.007150", "0.9152"),
        (0.24828, 0.12298, 0.01426, 0.007113, 0.9152),
    ),
    "Wenger Beta OvR": (
        BetaCalibration(),
        ("0.23717", "0.11623", "0.00923", "0.005462", "0.9212"),
        (0.23717, 0.11623, 0.00908, 0.005495, 0.9212),
    ),
    "Wenger Platt OvR": (
        PlattScaling(feature="probability"),
        ("0.37418", "0.14180", "0.02608", "0.008121", "0.9188"),
        (0.37425, 0.14183, 0.02610, 0.008076, 0.9188),
    ),
    "Kull sigmoid": (
        PlattScaling(feature="probability", smoothed_targets=True),
        ("0.37468", "0.14184", "0.02800", "0.007527", "0.9188"),
        (0.37468, 0.14184, 0.02800, 0.007527, 0.9188),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_row_of_the_reference_table(halves, name):
    p, labels, test, test_labels = halves
    calibrator, optimum, printed = ROWS[name]
    separate = np.column_stack(
        [
            calibrator.fit(event(p[:, column]), labels == column).predict_proba(event(test[:, column]))[:, 1]
            for column in range(K)
        ]
    )
    together = separate / separate.sum(axis=1, keepdims=True)
    found = figures(together, test_labels).printed()
    assert found == optimum
    np.testing.assert_allclose(np.array(found, dtype=float), printed, rtol=0, atol=2e-4)


@pytest.mark.parametrize(
    "name", ["Kull OvR_Beta abm", "Kull OvR_Beta am", "Kull OvR_Beta ab", "Kull sigmoid", "Wenger Platt OvR"]
)
def test_the_complement_added_up_from_the_other_classes_gives_almost_the_same(halves, name):
    """The library's own one-vs-rest needs no clip; a quarter of the rows here round to a one in float32."""
    p, labels, test, test_labels = halves
    calibrator, optimum, _ = ROWS[name]
    calibrated = calibrator.fit(p, labels).predict_proba(test)
    assert log_loss(test_labels, calibrated) == pytest.approx(float(optimum[0]), abs=1e-4)
    assert accuracy(test_labels, calibrated) == pytest.approx(float(optimum[4]), abs=4e-4)


# The powers of the first three classes and the midpoint, at the optimum and as printed.
MAPS = [
    ((0.630569, 0.365687, 0.085499), (0.6305, 0.3676, 0.0858)),
    ((0.544159, 0.580497, 0.845154), (0.5445, 0.5798, 0.8451)),
    ((0.491582, 0.485030, 0.435041), (0.4917, 0.4847, 0.4357)),
]


@pytest.mark.parametrize("column", range(3))
def test_the_maps_of_the_first_classes(halves, column):
    """The program's map has the higher log-loss on its own rows: it stopped early."""
    p, labels, _, _ = halves
    optimum, printed = MAPS[column]
    fitted = BetaCalibration().fit(event(p[:, column]), labels == column)
    found = (fitted.a_, fitted.b_, fitted.midpoint_)
    np.testing.assert_allclose(found, optimum, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found, printed, rtol=0, atol=2.1e-3)
    a, b, m = printed
    score = np.clip(p[:, column], EPSILON, 1 - EPSILON)
    log_odds = a * np.log(score / m) - b * np.log((1 - score) / (1 - m))
    assert fitted.solution_.loss < np.logaddexp(0, np.where(labels == column, -log_odds, log_odds)).mean()


@pytest.mark.parametrize("variant", ["abm", "am", "ab"])
def test_no_class_has_a_higher_loss_than_the_programs_optimiser_reaches(halves, variant):
    """The features of betacal, its regression, and no bound: on these data no power would be negative."""
    p, labels, _, _ = halves
    for column in range(K):
        score = np.clip(p[:, column], EPSILON, 1 - EPSILON)[:, np.newaxis]
        features = {
            "abm": np.hstack([np.log(score), -np.log(1 - score)]),
            "am": np.log(score) - np.log(1 - score),
            "ab": np.hstack([np.log(2 * score), -np.log(2 * (1 - score))]),
        }[variant]
        regression = LogisticRegression(C=99999999999, fit_intercept=variant != "ab").fit(
            features, labels == column
        )
        log_odds = regression.decision_function(features)
        theirs = np.logaddexp(0, np.where(labels == column, -log_odds, log_odds)).mean()
        fitted = BetaCalibration(variant).fit(event(p[:, column]), labels == column)
        assert theirs - 1e-5 < fitted.solution_.loss <= theirs + 1e-12
        np.testing.assert_allclose(
            [fitted.a_, fitted.b_], [regression.coef_[0, 0], regression.coef_[0, -1]], rtol=0, atol=5e-3
        )
