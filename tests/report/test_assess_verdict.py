"""The verdict: what is said of predictions whose calibration is known by construction."""

import numpy as np
import pytest
from report_rows import drawn, powered

from calibrant.report import assess
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.evidence import evidence_of
from calibrant.report.method_selection import select_method


def verdict_of(y, p, **options):
    return assess(y, p, methods=[], **options).verdict


def test_calibrated_predictions_are_called_calibrated():
    verdict = verdict_of(*drawn(3000, 4))
    assert (verdict.status, verdict.direction, verdict.worst_classes) == ("calibrated", "none", ())
    assert verdict.smallest_detectable < 0.05
    assert verdict.headline.startswith("No evidence of miscalibration")


@pytest.mark.parametrize(("power", "direction"), [(2.0, "over-confident"), (0.5, "under-confident")])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_direction_is_found(power, direction, n_classes):
    y, p = drawn(1500, n_classes)
    verdict = verdict_of(y, powered(p, power))
    assert (verdict.status, verdict.direction) == ("miscalibrated", direction)
    assert verdict.p_value < 1e-4
    assert direction in verdict.headline


def test_few_rows_are_called_unclear_with_the_number_that_is_wanted():
    verdict = verdict_of(*drawn(60, 3))
    assert verdict.status == "unclear"
    assert verdict.smallest_detectable > 0.05
    assert "rows are needed" in verdict.sentences[-1]


def test_one_bad_class_is_named():
    """The class c takes half of the probability that belongs to b; the other two stay right."""
    y, p = drawn(3000, 4)
    wrong = p.copy()
    wrong[:, 2] += 0.6 * p[:, 1]
    wrong[:, 1] -= 0.6 * p[:, 1]
    found = assess(np.array(list("abcd"))[y], wrong, methods=[])
    assert found.verdict.status == "miscalibrated"
    assert set(found.verdict.worst_classes) == {"b", "c"}
    directions = {row.label: row.direction for row in found.classes}
    assert directions == {"a": "none", "b": "too low", "c": "too high", "d": "none"}


def test_a_shift_of_the_prior_of_two_classes_is_said_in_points():
    """Odds of the second class are three times what they should be."""
    y, p = drawn(2000, 2)
    odds = 3 * p[:, 1] / p[:, 0]
    verdict = verdict_of(y, odds / (1 + odds))
    assert verdict.status == "miscalibrated"
    assert "class 1 are" in verdict.headline
    assert "too high by" in verdict.headline


def test_a_trifle_that_many_rows_show_is_called_one():
    """Half a point too much in 100,000 rows: five standard errors, of 0.1 points."""
    y, p = drawn(100_000, 2)
    verdict = verdict_of(y, np.minimum(p[:, 1] + 0.005, 1.0))
    assert verdict.status == "miscalibrated"
    assert verdict.headline.startswith("Not calibrated, but the error is small")


def test_sure_predictions_that_fail_are_found_though_few_surprises_are_promised():
    """Twenty of 400 are wrong at a confidence of 99.99 %: 0.04 were promised, and no limit of many rows holds."""
    p = np.full((400, 2), 1e-4)
    p[np.arange(400), np.arange(400) % 2] = 0.9999
    y = np.arange(400) % 2
    y[:20] = 1 - y[:20]
    verdict = verdict_of(y, p)
    assert verdict.status == "miscalibrated"
    assert verdict_of(np.arange(400) % 2, p).status == "calibrated"


def test_a_rare_event_that_happens_once_is_no_evidence_among_many_classes():
    """Of 200 classes with 0.01 rows expected each, about two happen; the normal limit would call each impossible."""
    p = np.full((100, 202), 1e-4)
    p[:, 0] = p[:, 1] = (1 - 0.02) / 2
    y = np.arange(100) % 2
    y[:2] = [50, 90]
    assert verdict_of(y, p).status != "miscalibrated"


def test_copies_of_rows_are_no_further_evidence_where_groups_say_so():
    y, p = drawn(100, 2, seed=3)
    p = powered(p, 1.5)
    times, groups = np.repeat(np.arange(100), 30), np.repeat(np.arange(100), 30)
    alone = evidence_of(EvaluationSet.parse(y, p, None, None), EvaluationSet.parse(y, p, None, None), 0.95, 0)
    copied = EvaluationSet.parse(y[times], p[times], None, None)
    grouped = EvaluationSet.parse(y[times], p[times], None, groups)
    assert evidence_of(copied, copied, 0.95, 0).p_value < 1e-6
    by_group = evidence_of(grouped, grouped, 0.95, 0)
    assert by_group.main.p_value > 0.2 * alone.main.p_value
    assert by_group.main.design_effect > 20  # thirty copies, and residuals larger than promised


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_rows", "n_classes", "spread"),
    [(30, 2, 1.0), (200, 2, 6.0), (300, 10, 1.5), (300, 4, 8.0), (300, 50, 3.0)],
)
def test_calibrated_predictions_are_seldom_called_miscalibrated(n_rows, n_classes, spread):
    """At most 5 % of 300 data sets, plus three standard errors of such a share: 0.05 + 3 sqrt(0.05 0.95 / 300)."""
    called = 0
    for seed in range(300):
        y, p = drawn(n_rows, n_classes, seed, spread)
        rows = EvaluationSet.parse(y, p, None, None)
        called += evidence_of(rows, rows, 0.95, seed).p_value <= 0.05
    assert called / 300 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_level_holds_for_rows_in_groups(n_classes):
    """Groups of five rows with one random number for all: five rows that say the same thing."""
    called = 0
    for seed in range(300):
        y, p = drawn(100, n_classes, seed)
        times = np.repeat(np.arange(100), 5)
        rows = EvaluationSet.parse(y[times], p[times], None, times)
        called += evidence_of(rows, rows, 0.95, seed).p_value <= 0.05
    assert called / 300 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_classes", "methods"), [(2, ["temperature", "beta"]), (3, ["temperature", "shared-vector"])]
)
def test_calibrated_predictions_are_seldom_to_be_calibrated(n_classes, methods):
    """By chance in 2.5 % at most, that the adjusted interval is above zero; three standard errors for 150 data sets."""
    advised = 0
    for seed in range(150):
        rows = EvaluationSet.parse(*drawn(300, n_classes, seed), None, None)
        advised += select_method(rows, methods, 5, 0.95, seed, None).is_recommended
    assert advised / 150 < 0.025 + 3 * np.sqrt(0.025 * 0.975 / 150)
