"""Sums over rows that tell whether a jackknife interval keeps its level, and gaps of means without an interval."""

from dataclasses import astuple

import numpy as np
import pytest

from calibrant import LabelledPredictions
from calibrant.intervals.few_units import OutcomeSums, few_outcomes, few_rows_of_a_class
from calibrant.metrics.row_losses import prepared_losses
from calibrant.report.evaluation_set import EvaluationSet, gap_estimate
from calibrant.streaming import JackknifeSums


def certain_rows(n_rows, seed=0, n_wrong=0, weights=None):
    generator = np.random.default_rng(seed)
    p = generator.uniform(0.99, 0.999, n_rows)
    vectors = np.column_stack([p, 0.7 * (1 - p), 0.3 * (1 - p)])
    y = np.where(np.arange(n_rows) < n_wrong, 1, 0)
    return LabelledPredictions.parse(vectors, y, weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_batches_give_the_reason_of_all_rows(weighted):
    weights = np.random.default_rng(1).uniform(0.5, 2, 300) if weighted else None
    rows = certain_rows(300, weights=weights)
    whole = OutcomeSums.of(rows)
    parts = [OutcomeSums.of(rows.take(place)) for place in (np.arange(120), np.arange(120, 300))]
    for one, other in zip(astuple(whole), astuple(parts[0] + parts[1]), strict=True):
        assert one == pytest.approx(other)
    expected = few_outcomes(rows, [rows.predictions], prepared_losses(rows.predictions, "brier"))
    assert whole.why_none == expected
    assert "of the less probable outcomes are expected" in whole.why_none


def test_enough_outcomes_and_many_mistakes_have_no_reason():
    assert OutcomeSums.of(certain_rows(20_000)).why_none is None
    assert OutcomeSums.of(certain_rows(300, n_wrong=30)).why_none is None


def test_few_rows_of_a_rare_class_are_a_reason():
    p = np.full(500, 0.3)
    rows = LabelledPredictions.parse(p, (np.arange(500) < 4).astype(int))
    assert OutcomeSums.of(rows).why_none == few_rows_of_a_class(rows)
    assert OutcomeSums.of(rows).n_rare == 4


def test_a_jackknife_interval_is_withheld_with_its_reason():
    rows = certain_rows(300)
    parts = np.arange(300) % 100
    (found,) = JackknifeSums(["brier_score"]).update(rows, parts).results()
    assert np.isnan(found.interval()).all()
    assert found.standard_error > 0
    described = found.described("brier_score()", 0.95, 300)
    assert "no interval, since effectively only" in described.note
    first, second = (
        JackknifeSums(["brier_score"]).update(rows.take(place), parts[place])
        for place in (np.arange(100), np.arange(100, 300))
    )
    assert (first + second).results()[0].why_none == found.why_none


def test_rare_events_limit_the_degrees_of_freedom():
    """Nine events in 1,000 rows: 8 degrees instead of 99."""
    p = np.full(1000, 0.01)
    rows = LabelledPredictions.parse(p, (np.arange(1000) % 111 == 1).astype(int))
    (found,) = JackknifeSums(["brier_score"]).update(rows, np.arange(1000) % 100).results()
    assert found.n_rare == 9
    low, high = found.interval()
    assert (high - low) / 2 / found.standard_error == pytest.approx(2.306004)


def test_a_gap_of_means_has_no_interval_if_few_unlikely_outcomes_are_expected():
    p = np.tile([0.001, 0.999], 100)
    y = (p > 0.5).astype(int)
    rows = EvaluationSet.parse(y, p, None, None)
    found = gap_estimate("gap", p, y == 1, rows, 0.95, "mean probability minus frequency")
    assert found.low is None
    assert "no interval, since fewer than 5" in found.definition
    wrong = y.copy()
    wrong[:30] = 1 - wrong[:30]
    rows = EvaluationSet.parse(wrong, p, None, None)
    assert gap_estimate("gap", p, wrong == 1, rows, 0.95, "").low is not None
