"""Thresholded adaptive calibration error against a loop and against the other binned errors."""

import numpy as np
import pytest

from calibrant.errors import ParameterError
from calibrant.metrics import classwise_ece, thresholded_adaptive_ece


def problem(n_rows=400, n_classes=5):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.full(n_classes, 0.3), n_rows)
    return generator.integers(0, n_classes, n_rows), p


def naive(y, p, n_bins, threshold):
    """Sort each class, cut it into runs of equal length and average the gaps."""
    errors = []
    for k in range(p.shape[1]):
        rows = [i for i in np.argsort(p[:, k]) if p[i, k] > threshold]
        runs = [run for run in np.array_split(rows, n_bins) if len(run)]
        gaps = [abs(np.mean(y[run] == k) - p[run, k].mean()) * len(run) for run in runs]
        errors.append(sum(gaps) / len(rows))
    return np.mean(errors)


@pytest.mark.parametrize("threshold", [0.0, 0.01, 0.2])
def test_it_is_a_loop_over_runs_of_equal_length(threshold):
    """Runs divide the rows evenly, so that both cut at the same places: bins of one row each."""
    y, p = problem(60)
    assert thresholded_adaptive_ece(y, p, n_bins=60, threshold=threshold) == pytest.approx(
        naive(y, p, 60, threshold)
    )


def test_without_zeros_and_threshold_it_is_the_classwise_error_of_equal_mass():
    y, p = problem()
    expected = classwise_ece(y, p, strategy="quantile")
    assert thresholded_adaptive_ece(y, p, threshold=0) == pytest.approx(expected)


def test_a_class_below_the_threshold_contributes_zero():
    p = np.tile([0.6, 0.395, 0.005], (10, 1))
    assert thresholded_adaptive_ece([0] * 6 + [1] * 4, p) == pytest.approx(0.005 / 3)


@pytest.mark.parametrize("threshold", [-0.1, 1, "small"])
def test_a_threshold_out_of_range_is_refused(threshold):
    with pytest.raises(ParameterError, match="threshold must be at least 0 and below 1"):
        thresholded_adaptive_ece([0, 1], [0.2, 0.8], threshold=threshold)
