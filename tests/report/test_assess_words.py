"""Words of the report: no stronger than the evidence, one way to write numbers and classes, and good grammar."""

import numpy as np
import pytest
from report_rows import drawn, powered

from calibrant.report import assess
from calibrant.report.contents import Estimate
from calibrant.report.sections.pitfalls import is_on_a_grid
from calibrant.report.sections.scores import _not_negative

Y, P = drawn(300, 3)


def texts(found):
    return [pitfall.text for pitfall in found.pitfalls]


def test_one_test_that_objects_is_named_and_no_place_is_made_up():
    """40 rows: the simulated Brier score alone objects."""
    y, p = drawn(40, 3, seed=16)
    found = assess(y, powered(p, 1.6), methods=[])
    assert found.verdict.status == "miscalibrated"
    assert "tests rejects calibration, " in found.verdict.headline
    assert "in others" not in found.verdict.headline


def test_extreme_log_odds_with_means_within_noise_are_called_too_extreme():
    """Log-odds 15 % too far from zero: the slope of 2000 rows shows it, and by the luck of this seed the means do not."""
    y, p = drawn(2000, 3, seed=8)
    verdict = assess(y, powered(p, 1.15), methods=[]).verdict
    assert verdict.direction == "over-confident"
    assert "too extreme (over-confident); mean confidence and accuracy agree" in verdict.headline


def test_the_gap_of_means_stays_within_what_is_possible():
    """All at one, one of 100 wrong: the share cannot exceed one, so that the gap is at least zero."""
    p = np.tile([1.0, 0.0], (100, 1))
    y = np.r_[np.zeros(99, int), 1]
    gap = assess(y, p, methods=[]).slopes[0]
    assert -1 < gap.low < gap.value < gap.high <= 0


@pytest.mark.parametrize("n_groups", [1, 2])
def test_very_few_groups_are_never_called_calibrated(n_groups):
    """All at 0.9 and right in 40 %: one group cannot say whether another would be right."""
    generator = np.random.default_rng(0)
    y = (generator.random(2000) < 0.4).astype(int)
    verdict = assess(y, np.full(2000, 0.9), groups=np.arange(2000) % n_groups, methods=[]).verdict
    assert verdict.status != "calibrated"
    if n_groups == 1:
        assert verdict.smallest_detectable is None
        assert "one group" in verdict.sentences[-1]


def test_few_groups_are_asked_for_in_groups():
    groups = np.repeat(np.arange(12), 25)
    verdict = assess(Y, P, groups=groups, methods=[]).verdict
    assert verdict.status == "unclear"
    assert "groups to tell" in verdict.headline
    assert verdict.sentences[-1].endswith("groups are needed.")


@pytest.mark.slow
def test_groups_that_differ_in_their_slopes_keep_the_level():
    """Each of 40 groups is too timid or too extreme by a normal number of its own, of mean zero: calibrated on the whole.

    At most 5 % of 100 data sets may be called miscalibrated, plus three standard errors of such a share.
    """
    called = 0
    for seed in range(100):
        generator = np.random.default_rng(seed)
        groups = np.repeat(np.arange(40), 100)
        p = generator.uniform(0.05, 0.95, 4000)
        bent = generator.normal(0, 0.15, 40)[groups] * np.sign(p - 0.5) * np.minimum(p, 1 - p)
        y = (generator.random(4000) < p + bent).astype(int)
        called += assess(y, p, groups=groups, methods=[]).verdict.status == "miscalibrated"
    assert called / 100 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)


def test_an_error_below_zero_is_shown_as_none_with_its_estimate_in_the_note():
    shown = _not_negative(Estimate("L1 error, cross-fitted", -0.1212))
    assert (shown.value, shown.note) == (0.0, "the estimate is negative (-0.1212) and shown as 0")
    found = assess(*drawn(60, 3), methods=[])
    assert all(row.before.value >= 0 for row in found.errors)
    assert all(row.lower_bound is None or row.lower_bound >= 0 for row in found.classes)


def test_one_row_and_one_class_have_their_singular():
    alone = assess(Y[:1], P[:1])
    assert any("small (1 row)." in text for text in texts(alone))
    assert "1 row is too few" in alone.recommendation.headline
    once = np.where(Y == 2, 0, Y)
    once[0] = 2
    assert any(
        "1 class has fewer than 20 rows: 2. Its estimates" in text
        for text in texts(assess(once, P, methods=[]))
    )


def test_numbers_are_named_without_quotation_marks_and_words_with_them():
    wrong = powered(P, 3.0)
    assert "'" not in assess(Y, wrong, methods=[]).verdict.sentences[3].replace("'s", "")
    words = np.array(["cat", "dog", "eel"])
    assert "'cat'" in " ".join(assess(words[Y], wrong, methods=[]).verdict.sentences)


def test_asking_for_no_method_is_not_called_a_failure():
    for methods in ([], ["uncalibrated"]):
        advice = assess(Y, P, methods=methods).recommendation
        assert advice.headline == "Keep the uncalibrated predictions: no methods were given."
        assert "collect" not in advice.more_rows


def test_a_method_that_loses_is_said_to_lose():
    advice = assess(*drawn(60, 3, seed=5), methods=["temperature"]).recommendation
    assert advice.gain.value < 0
    assert "would raise the log-loss by 0." in advice.sentences[0]


@pytest.mark.parametrize("times", [2, 3, 5])
def test_copies_are_noticed_however_many_there_are(times):
    rows = np.repeat(np.arange(300), times)
    assert any("pass groups=" in text for text in texts(assess(Y[rows], P[rows], methods=[])))


def test_rounded_scores_are_no_copies():
    rounded = np.round(P[:, 0], 2)
    found = assess((Y != 0).astype(int), np.column_stack([rounded, 1 - rounded]), methods=[])
    assert not any("pass groups=" in text for text in texts(found))
    assert is_on_a_grid(np.array([[1 / 7, 6 / 7], [3 / 7, 4 / 7]], dtype=np.float32))
    assert not is_on_a_grid(P)


def test_a_page_without_a_method_has_scores_and_not_a_before_and_after():
    page = assess(Y, P, methods=[]).to_html()
    assert "Before and after" not in page
    assert "before and after</h2>" not in page
    assert "<span>Scores</span></caption>" in page


def test_small_numbers_are_written_without_powers_of_ten():
    _, p = drawn(300, 3)
    found = assess(p.argmax(axis=1), p, methods=["temperature"])
    said = " ".join(
        (*found.recommendation.sentences, found.recommendation.more_rows, found.recommendation.headline)
    )
    assert "e-" not in said.replace("one-", "").replace("re-", "")
