"""What the paper on top-label binning promises: a bound that holds in repetitions, lower errors of real networks."""

import numpy as np

from calibrant import HistogramBinning, Predictions, TopLabel, registry
from calibrant.metrics import confidence_ece, top_label_ece
from data import load


def assert_top_label_error_is_halved(calibration, labels, fresh, fresh_labels):
    """One map for all classes leaves more."""
    fitted = registry.make("top-label-binning").fit(calibration, labels)
    calibrated = fitted.predict_proba(fresh)
    before, after = top_label_ece(fresh_labels, fresh), top_label_ece(fresh_labels, calibrated)
    assert after < 0.5 * before
    assert confidence_ece(fresh_labels, calibrated) < 0.5 * confidence_ece(fresh_labels, fresh)
    one_map = TopLabel(fitted.base, by_class=False).fit(calibration, labels)
    assert after < top_label_ece(fresh_labels, one_map.predict_proba(fresh))


def test_the_top_label_error_of_a_wide_network_is_halved(halves):
    assert_top_label_error_is_halved(*halves)


def test_the_top_label_error_of_a_deep_network_is_halved():
    rows = load("kull_nn/c10_resnet110")
    calibration = Predictions.from_logits(rows["val_logits"])
    fresh = Predictions.from_logits(rows["test_logits"])
    assert_top_label_error_is_halved(calibration, rows["val_y"], fresh, rows["test_y"])


def test_the_guarantee_of_the_paper_holds_in_repetitions():
    """All bins of all classes stay within the bound but for a share delta of the repetitions.

    The score is uniform on (1/2, 1) and the prediction right with probability s^3 for the first class and s/2 for
    the second, so that the mean over a bin (a, b) is known. The bound promises no more than 200 delta = 40
    violations on average, and must not be idle either: a tenth of it is exceeded almost always.
    """
    n_rows, per_bin, delta = 2000, 50, 0.2
    base = HistogramBinning(strategy="quantile", rows_per_bin=per_bin, smoothing=0.0)
    chances = [lambda s: s**4 / 4, lambda s: s**2 / 4]  # integrals of s^3 and s/2
    violations, tenths = 0, 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        top, predicted = generator.uniform(0.5, 1, n_rows), generator.integers(2, size=n_rows)
        chance = np.where(predicted == 0, top**3, top / 2)
        right = generator.uniform(size=n_rows) < chance
        X = np.where(np.eye(2, dtype=bool)[predicted], top[:, np.newaxis], 1 - top[:, np.newaxis])
        fitted = TopLabel(base).fit(X, np.where(right, predicted, 1 - predicted))
        gaps = []
        for calibrator, integral in zip(fitted.calibrators_, chances, strict=True):
            edges = np.concatenate([[0.5], calibrator.edges_[1:-1], [1.0]])
            truth = np.diff(integral(edges)) / np.diff(edges)
            gaps.extend(np.abs(truth - calibrator.values_))
        bound = np.sqrt(np.log(2 * len(gaps) / delta) / (2 * (per_bin - 1)))
        violations += max(gaps) > bound
        tenths += max(gaps) > bound / 10
    assert violations <= 40
    assert tenths >= 190
