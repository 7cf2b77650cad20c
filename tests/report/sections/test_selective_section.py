"""The section on selective prediction: its numbers by a loop, and where it shows nothing."""

import numpy as np
import pytest

from calibrant import Predictions, assess
from calibrant.intervals import clopper_pearson
from calibrant.presentation import from_plain
from calibrant.report import Assessment
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.sections.selective import COVERAGES, selective_rows, selective_section

GENERATOR = np.random.default_rng(0)
P = GENERATOR.dirichlet(np.full(4, 0.4), 1000)
Y = np.array([GENERATOR.choice(4, p=row) for row in P**0.5 / (P**0.5).sum(axis=1, keepdims=True)])


def test_every_row_is_the_accuracy_of_the_most_confident():
    rows = selective_rows(EvaluationSet.parse(Y, P, None, None), None, 0.95)
    order = np.argsort(-P.max(axis=1))
    assert [row.coverage for row in rows] == list(COVERAGES)
    for row in rows:
        accepted = order[: round(row.coverage * 1000)]
        n_right = int((P.argmax(axis=1) == Y)[accepted].sum())
        assert row.before.value == pytest.approx(n_right / len(accepted))
        assert (row.before.low, row.before.high) == pytest.approx(clopper_pearson(n_right, len(accepted)))
        assert row.threshold == pytest.approx(P.max(axis=1)[accepted].min())
        assert row.after is None


def test_saturated_float32_logits_are_counted_exactly():
    logits = np.zeros((100, 2), dtype=np.float32)
    logits[:, 1] = np.linspace(20, 90, 100)
    given = EvaluationSet.parse([1] * 100, Predictions.from_logits(logits), None, None)
    half = selective_rows(given, None, 0.95)[0]
    assert (half.before.low, half.before.high) == pytest.approx(clopper_pearson(50, 50))


def test_ties_beyond_a_coverage_leave_it_out():
    rows = selective_rows(EvaluationSet.parse([0] * 10, np.full((10, 2), 0.5), None, None), None, 0.95)
    assert [row.coverage for row in rows] == [1.0]


def test_the_report_shows_both_stages_and_keeps_them_in_json():
    found = assess(Y, P, methods=["temperature"])
    text = found.to_markdown()
    assert "## Selective prediction" in text
    assert "Accuracy after" in text
    again = Assessment.from_json(found.to_json())
    assert again.selective == found.selective
    assert again.to_markdown() == text


def test_an_earlier_report_has_no_such_section():
    plain = assess(Y, P, methods=[]).to_dict()
    plain.pop("selective")
    plain.pop("schema")
    assert selective_section(from_plain(Assessment, plain)) is None
