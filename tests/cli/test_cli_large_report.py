"""``calibrant report`` of a large file: sums of all rows beside a report of a sample."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import json

import numpy as np
import pytest
from animal_files import folder, run  # noqa: F401

from calibrant import metrics
from calibrant.cli.commands import report
from calibrant.cli.commands import report as large_report
from calibrant.hypothesis_tests import spiegelhalter_test

LINE = "report a.npz --space probabilities --methods temperature -o out.json"


@pytest.fixture
def rows(folder, monkeypatch):
    """Rows of two classes in groups of ten, more than the report keeps."""
    generator = np.random.default_rng(0)
    p = generator.beta(1, 1, 3000)
    y = (generator.random(3000) < p**1.5).astype(int)
    weights = np.where(np.arange(3000) % 7, 1.0, 0.5)
    np.savez(folder / "a.npz", probs=np.stack([1 - p, p], axis=1), y=y, w=weights, who=np.arange(3000) // 10)
    monkeypatch.setattr(report, "SCORES_IN_MEMORY", 5000)
    monkeypatch.setattr(large_report, "SAMPLE_ROWS", 400)
    return y, np.stack([1 - p, p], axis=1), weights


def written(run, folder, options):
    run(f"{LINE} {options}")
    return json.loads((folder / "out.json").read_text())


def test_metrics_and_tests_are_of_all_rows(run, folder, rows):
    y, p, weights = rows
    content = written(run, folder, "--weight w")
    scores = {row["before"]["name"]: row["before"] for row in (*content["scores"], *content["errors"])}
    for name, function in (
        ("log-loss of all rows", metrics.log_loss),
        ("accuracy of all rows", metrics.accuracy),
        ("ECE of the predicted class of all rows", metrics.confidence_ece),
    ):
        found = scores[name]
        assert found["value"] == pytest.approx(function(y, p, sample_weight=weights), rel=1e-9)
        if function is metrics.confidence_ece:  # positive by noise alone
            assert found["low"] is found["high"] is None
        else:
            assert found["low"] < found["value"] < found["high"]
    test = {row["name"]: row for row in content["tests"]}["Spiegelhalter's test of all rows"]
    assert test["statistic"] == pytest.approx(spiegelhalter_test(y, p, sample_weight=weights).statistic)
    assert content["data"]["n_rows"] == 400
    assert "A random choice of rows chose 400 of 3,000 rows" in content["data"]["split"]


def test_groups_are_drawn_together(run, folder, rows):
    """Up to one group that the sample would cut, which is left out."""
    data = written(run, folder, "--group who")["data"]
    assert data["n_rows"] % 10 == 0
    assert 390 <= data["n_rows"] <= 400
    assert data["n_groups"] == data["n_rows"] / 10
    assert "A random choice of groups of rows" in data["split"]


def test_small_files_are_read_completely(run, folder, rows, monkeypatch):
    monkeypatch.setattr(report, "SCORES_IN_MEMORY", 6000)
    content = written(run, folder, "")
    assert content["data"]["n_rows"] == 3000
    assert not [row for row in content["scores"] if "all rows" in row["before"]["name"]]
