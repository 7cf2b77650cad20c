"""Risk-coverage curves, AURC and accuracy at a coverage against loops, hand-worked cases and bounds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import Predictions, TemperatureScaling
from calibrant.errors import ParameterError
from calibrant.metrics import accuracy, accuracy_at_coverage, aurc, excess_aurc, risk_coverage_curve
from strategies import problems


def naive_points(probabilities, labels, weights):
    """Go through all thresholds, and through all rows for each."""
    confidence = [float(min(max(row), 1.0)) for row in probabilities]
    wrong = [row.tolist().index(max(row)) != y for row, y in zip(probabilities, labels, strict=True)]
    points = []
    for threshold in sorted(set(confidence), reverse=True):
        accepted = [i for i, s in enumerate(confidence) if s >= threshold]
        weight = sum(weights[i] for i in accepted)
        points.append((weight / sum(weights), sum(weights[i] for i in accepted if wrong[i]) / weight))
    return points


@given(problem=problems(), data=st.data())
def test_the_curve_is_a_loop_over_all_thresholds(problem, data):
    n_rows = len(problem.labels)
    weights = data.draw(st.lists(st.floats(0.1, 5), min_size=n_rows, max_size=n_rows))
    curve = risk_coverage_curve(problem.labels, problem.probabilities, sample_weight=weights)
    expected = naive_points(*problem, weights)
    np.testing.assert_allclose(np.column_stack([curve.coverage, curve.risk]), expected, atol=1e-9)
    steps = np.diff([0.0, *(c for c, _ in expected)])
    area = sum(step * risk for step, (_, risk) in zip(steps, expected, strict=True))
    assert aurc(problem.labels, problem.probabilities, sample_weight=weights) == pytest.approx(area)


@given(problem=problems())
def test_the_excess_is_never_negative_and_full_coverage_is_the_accuracy(problem):
    X, y = problem
    assert 0 <= excess_aurc(y, X) <= aurc(y, X) + 1e-12
    assert accuracy_at_coverage(y, X, coverage=1) == pytest.approx(accuracy(y, X))
    assert -1e-12 <= accuracy_at_coverage(y, X, coverage=0.3) <= 1 + 1e-12


def test_worked_by_hand():
    """Sorted by confidence: right, wrong, right, wrong; risks 0, 1/2, 1/3, 1/2."""
    p = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]
    y = [0, 1, 1, 1]
    curve = risk_coverage_curve(y, p)
    assert curve.threshold == pytest.approx([0.9, 0.8, 0.7, 0.6])
    assert curve.risk == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert aurc(y, p) == pytest.approx((1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert excess_aurc(y, p) == pytest.approx((1 / 2 + 1 / 3 + 1 / 2) / 4 - (0.5 + 0.5 * math.log(0.5)))


def test_a_perfect_ranking_has_no_excess_for_many_rows():
    n_rows = 20_000
    confidence = np.linspace(0.99, 0.51, n_rows)
    y = (np.arange(n_rows) < 0.7 * n_rows).astype(int)
    assert excess_aurc(y, confidence) < 1e-4
    assert aurc(y, confidence) == pytest.approx(0.3 + 0.7 * math.log(0.7), abs=1e-4)


def test_a_ranking_without_information_has_the_error_rate():
    """All rows have the same confidence, and are accepted together."""
    assert aurc([0] * 7 + [1] * 3, [[0.8, 0.2]] * 10) == pytest.approx(0.3)
    assert accuracy_at_coverage([0] * 7 + [1] * 3, [[0.8, 0.2]] * 10, coverage=0.25) == pytest.approx(0.7)


def test_accuracy_inside_a_tie_is_the_mean_over_its_orders():
    """One certain row that is right, two tied ones of which one is right: half of the coverage has 1 + 0.25 of 1.5."""
    p, y = [[0.9, 0.1], [0.7, 0.3], [0.7, 0.3]], [0, 0, 1]
    assert accuracy_at_coverage(y, p, coverage=0.5) == pytest.approx(1.25 / 1.5)


def test_an_increasing_map_of_two_classes_leaves_the_curve_unchanged():
    generator = np.random.default_rng(0)
    p = generator.beta(0.5, 0.5, 500)
    y = (generator.random(500) < 0.5 + 0.6 * (p - 0.5)).astype(int)
    calibrated = TemperatureScaling().fit(p, y).predict_proba(p)
    before, after = risk_coverage_curve(y, p), risk_coverage_curve(y, calibrated)
    np.testing.assert_allclose(after.coverage, before.coverage)
    np.testing.assert_allclose(after.risk, before.risk, atol=1e-12)
    assert not np.allclose(after.threshold, before.threshold, atol=0.01)


def test_saturated_float32_logits_are_still_ranked():
    """Their confidences all round to one in float32; their logits differ."""
    logits = np.array([[120.0, 0.0], [110.0, 0.0], [100.0, 0.0]], dtype=np.float32)
    curve = risk_coverage_curve([0, 0, 1], Predictions.from_logits(logits))
    assert curve.risk == pytest.approx([0, 0, 1 / 3])
    assert (curve.threshold == 1).all()


@pytest.mark.parametrize("coverage", [0, -0.1, 1.1, "half", True, float("nan")])
def test_a_coverage_out_of_range_is_refused(coverage):
    with pytest.raises(ParameterError, match="coverage must be above 0 and at most 1"):
        accuracy_at_coverage([0, 1], [0.2, 0.8], coverage=coverage)


def test_the_numbers_come_as_a_table():
    frame = risk_coverage_curve([0, 1], [0.2, 0.8]).frame()
    assert list(frame.columns) == ["threshold", "coverage", "risk"]
