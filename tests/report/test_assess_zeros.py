"""Zeros, ones and mistakes that are not there: one baseline for all numbers, and nothing said that rows cannot show."""

from math import inf, log

import numpy as np
import pytest
from report_rows import drawn, powered
from scipy.special import expit

from calibrant import Predictions
from calibrant.metrics import log_loss
from calibrant.report import Assessment, assess
from calibrant.report.contents import Estimate
from calibrant.report.evidence import FOR_INFORMATION

METHODS = ["temperature", "shared-vector"]


def with_zeros(n_rows=500, least=0.05):
    """Over-confident rows of three classes; probabilities below ``least`` are said to be zero."""
    y, p = drawn(n_rows, 3)
    p = powered(p, 1.5)
    p = np.where(p < least, 0.0, p)
    return y, p / p.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def found():
    return assess(*with_zeros(), methods=METHODS)


def test_gain_table_and_comparison_of_refuted_zeros_have_one_baseline(found):
    """That of Predictions.without_zeros(), whose rows sum to one."""
    y, p = with_zeros()
    raised = Predictions.from_probabilities(p).without_zeros()
    first, floored = found.scores[:2]
    chosen = next(row for row in found.recommendation.methods if row.name == found.recommendation.method)
    assert first.before.value == inf
    assert floored.before.value == pytest.approx(log_loss(y, raised))
    assert floored.difference.value == pytest.approx(floored.after.value - floored.before.value)
    assert chosen.log_loss_difference.value == pytest.approx(floored.difference.value)
    assert (chosen.log_loss_difference.low, chosen.log_loss_difference.high) == pytest.approx(
        (floored.difference.low, floored.difference.high)
    )
    assert found.recommendation.gain.value == pytest.approx(-floored.difference.value)
    assert "raised to the floor" in found.recommendation.baseline
    assert found.recommendation.baseline in found.recommendation.sentences[0]


def test_the_brier_score_of_methods_is_compared_with_zeros_as_they_are(found):
    brier = next(row for row in found.scores if row.before.name == "Brier score")
    chosen = next(row for row in found.recommendation.methods if row.name == found.recommendation.method)
    assert chosen.brier_difference.value == pytest.approx(brier.difference.value)


def test_from_an_infinite_loss_to_a_finite_one_is_better(found):
    difference = found.scores[0].difference
    assert (difference.value, difference.low, difference.high) == (-inf, None, None)
    assert difference.direction == "better"
    assert Estimate("loss", inf).direction == "worse"
    assert Estimate("score", inf, higher_is_better=True).direction == "better"


def test_the_page_names_the_baseline_where_methods_are_compared(found):
    page = found.to_html()
    assert f"Log-loss: difference to {found.recommendation.baseline}" in page
    assert "Brier score: difference to the uncalibrated predictions" in page


def test_the_slope_says_what_zeros_and_ones_count_as(found):
    """In LogOdds: half and twice the most extreme odds that were said otherwise."""
    _, p = with_zeros()
    confidence = p.max(axis=1)
    certain = confidence == 1
    odds = confidence[~certain] / (1 - confidence[~certain])
    reach = np.abs(np.log(odds)).max() + log(2)
    said = f"exact zeros and ones in {certain.sum()} rows are replaced by {expit(-reach):.3g}"
    assert all(said in estimate.definition for estimate in found.slopes[1:])
    plain = assess(*drawn(300, 3), methods=[])
    assert not any("exactly 0" in estimate.definition for estimate in plain.slopes)
    assert not any("in silence" in pitfall.text for pitfall in found.pitfalls)


def test_what_was_called_impossible_and_happened_is_proof():
    """Calibrated but for one row: no other test can see it."""
    y, p = drawn(4000, 3)
    p[0] = np.eye(3)[(y[0] + 1) % 3] * 0.6 + np.eye(3)[(y[0] + 2) % 3] * 0.4
    verdict = assess(y, p, methods=[]).verdict
    assert (verdict.status, verdict.p_value) == ("miscalibrated", 0.0)
    assert verdict.headline.startswith(
        "Not calibrated: the true class of 1 row had a predicted probability of exactly zero"
    )
    declared = Predictions.from_probabilities(p, floor=1e-3)
    assert assess(y, declared, methods=[]).verdict.status == "calibrated"


def test_zeros_and_ones_alone_have_a_report_whether_right_or_wrong(tmp_path):
    y = np.arange(20) % 2
    for labels in (y, np.where(np.arange(20) < 3, 1 - y, y), 1 - y):
        found = assess(labels, np.eye(2)[y])
        assert Assessment.from_json(found.to_json()) == found
        assert found.to_markdown()
        assert found.to_html(tmp_path / "report.html")
    many = assess(np.arange(400) % 2, np.eye(2)[np.arange(400) % 2], methods=[])
    assert any("All probabilities are exactly 0 or 1" in pitfall.text for pitfall in many.pitfalls)
    assert not any("Only 0" in pitfall.text or "only 0" in pitfall.text for pitfall in many.pitfalls)


def test_rows_without_a_mistake_do_not_show_how_sure_to_be():
    """Of 300 rows none is wrong: the share of mistakes is at most 1 - 0.05^(1/300) = 0.99 % with 95 % confidence."""
    _, p = drawn(300, 3)
    found = assess(p.argmax(axis=1), p, methods=["temperature"])
    warning = next(one.text for one in found.pitfalls if one.text.startswith("No mistakes among 300 rows"))
    assert "is 0.99 %" in warning
    assert "with caution" in found.recommendation.headline
    assert not any("No mistake" in one.text for one in assess(*drawn(300, 3), methods=[]).pitfalls)


def test_scores_that_repeat_have_a_learning_curve():
    """Ties make folds uneven; the sizes follow the smallest training set."""
    _, p = drawn(500, 3)
    y = drawn(500, 3, seed=1)[0]
    found = assess(y, np.eye(3)[p.argmax(axis=1)], methods=["temperature"])
    assert len(found.learning.sizes) >= 3
    assert found.recommendation.more_rows == found.learning.sentence


def test_the_area_after_pools_maps_and_has_no_judgement(found):
    area = next(row for row in found.scores if row.before.name == "AUROC")
    assert "several folds" in area.after.note
    assert (area.difference.low, area.difference.high) == (None, None)
    assert area.difference.direction == ""


def test_the_adjusted_interval_is_wider_than_that_of_the_table(found):
    floored, gain = found.scores[1], found.recommendation.gain
    assert gain.low < -floored.difference.high
    assert gain.note.startswith("adjusted for the choice among 2 methods")
    assert (floored.difference.level, gain.level) == (0.95, pytest.approx(0.975))


def test_a_slope_that_depends_on_what_stands_for_zeros_has_no_part_in_the_verdict():
    generator = np.random.default_rng(5)
    p = generator.uniform(0.05, 0.95, 1000)
    y = (generator.random(1000) < p).astype(int)
    p, y = np.r_[p, 0.0, 1.0], np.r_[y, 0, 1]
    (row,) = [test for test in assess(y, p, methods=[]).tests if test.name == "Slope and intercept"]
    assert "2 probabilities of exactly 0 or 1 count as odds of" in row.sentence
    assert FOR_INFORMATION in row.sentence
    (row,) = [test for test in assess(y[:-2], p[:-2], methods=[]).tests if test.name == "Slope and intercept"]
    assert FOR_INFORMATION not in row.sentence
