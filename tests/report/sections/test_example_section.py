"""The calibrator on the page of a report: the recommended one, fitted to all rows that were tried."""

import numpy as np
import pytest

from calibrant import Predictions, TemperatureScaling, assess
from calibrant.export.json_file import load_json
from calibrant.report.sections import example


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 3, (600, 3))
    return logits, (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)


def graph_of(found, folder):
    path = folder / "example.json"
    path.write_text(found.graph, encoding="utf-8")
    return load_json(path).graph


@pytest.mark.parametrize("space", ["probabilities", "logits"])
def test_the_example_is_the_recommended_calibrator(rows, space, tmp_path):
    logits, y = rows
    given = Predictions.from_logits(logits)
    given = given if space == "logits" else Predictions.from_probabilities(given.probabilities)
    found = assess(y, given, methods=["temperature"]).example
    assert (found.method, found.space) == ("temperature", space)
    graph = graph_of(found, tmp_path)
    fitted = TemperatureScaling().fit(given, y)
    np.testing.assert_array_equal(graph(given.scores), fitted.predict_proba(given))
    np.testing.assert_array_equal(graph(np.array([found.scores]))[0], found.calibrated)
    if space == "probabilities":
        assert sum(found.scores) == pytest.approx(1, abs=1e-12)


def test_there_is_none_where_nothing_is_recommended(rows):
    """Calibrated predictions are kept as they are."""
    logits, y = rows
    assert assess(y, Predictions.from_logits(0.5 * logits), methods=["temperature"]).example is None


@pytest.mark.parametrize("limit", ["MOST_CLASSES", "MOST_CHARACTERS"])
def test_there_is_none_for_large_maps(rows, limit, monkeypatch):
    monkeypatch.setattr(example, limit, 2)
    logits, y = rows
    assert assess(y, Predictions.from_logits(logits), methods=["temperature"]).example is None


def test_there_is_none_for_maps_without_a_graph(rows):
    logits, y = rows
    found = assess(y, Predictions.from_logits(logits), methods=["knn-euclidean"])
    assert found.recommendation.method == "knn-euclidean"
    assert found.example is None
