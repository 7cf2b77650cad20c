"""Parity: the rows on which an export is compared follow from the graph, so that a wrong number anywhere is found."""

import json

import numpy as np
import pytest
from export_cases import SPACES
from methods import fitted, problem

from calibrant import HistogramBinning, IsotonicCalibration, Predictions, TemperatureScaling
from calibrant.errors import ExportError, FileFormatError
from calibrant.export import export, verify
from calibrant.export.backend import backend_for
from calibrant.export.parity import measured, parity_rows, rounding_errors
from calibrant.graph.curves import Piecewise


@pytest.fixture(scope="module")
def isotonic():
    """A calibrator with more than 100 levels."""
    generator = np.random.default_rng(0)
    p = generator.uniform(size=5_000)
    labels = (generator.uniform(size=len(p)) < p**1.5).astype(int)
    return IsotonicCalibration().fit(p, labels)


def test_every_wrong_segment_is_found(isotonic, tmp_path):
    """A value v becomes 1 - v, and no bound hides it."""
    path = tmp_path / "calibrator.json"
    export(isotonic, path)
    content = json.loads(path.read_text())
    place = next(
        number
        for number, each in enumerate(content["graph"]["operations"])
        if each["operation"] == "piecewise"
    )
    operation = content["graph"]["operations"][place]
    values, bounds = operation["coefficients"][0], operation["upper"]
    assert len(values) > 30
    backend, graph = backend_for(path), isotonic.graph()
    missed = []
    for segment, value in enumerate(values):
        values[segment], bound = 1 - value, bounds[segment]
        bounds[segment] = 1.0
        path.write_text(json.dumps(content))
        try:
            if measured(path, backend, graph).holds and abs(1 - 2 * value) > 1e-6:
                missed.append(segment)
        except FileFormatError:
            pass  # the five rows in the file
        values[segment], bounds[segment] = value, bound
    assert missed == []


@pytest.mark.parametrize("name", ["isotonic", "width-binning", "spline", "scaling-binning", "irova"])
@pytest.mark.parametrize("space", SPACES)
def test_there_is_a_row_between_almost_all_neighbouring_knots(name, space):
    graph = fitted(name, 3).graph(space)
    rows = parity_rows(graph)
    values = [rows]
    hit = total = 0
    for operation, sources in graph.nodes:
        given = [values[source] for source in sources]
        if isinstance(operation, Piecewise):
            ends = np.cumsum(operation.n_knots)
            for column in range(given[0].shape[1]):
                place = min(column, len(ends) - 1)
                knots = operation.knots[ends[place] - operation.n_knots[place] : ends[place]]
                if column == place:
                    hit += len(np.unique(np.searchsorted(knots, given[0][:, column])))
                    total += len(knots) + 1
        with np.errstate(all="ignore"):
            values.append(operation.kernel(np.dtype(np.float64))(None, *given))
    # The first and the last segment of a column may be out of reach, such as below a probability of zero.
    assert hit >= total - 2 * 3 > 0


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("n_classes", [2, 3, 100])
def test_rows_are_scores(n_classes, space):
    graph = fitted("temperature", n_classes).graph(space)
    rows = parity_rows(graph)
    assert len(rows) >= 300
    np.testing.assert_array_equal(rows, parity_rows(graph))
    predictions = (
        Predictions.from_logits(rows, allow_probabilities=True)
        if space == "logits"
        else Predictions.from_probabilities(rows)
    )
    assert predictions.n_rows == len(rows)


def test_rounding_is_large_on_the_edge_of_a_step():
    """A row on the edge may go to either side; one in the middle of a segment cannot."""
    generator = np.random.default_rng(0)
    p = generator.uniform(size=500)
    graph = (
        HistogramBinning(strategy="uniform", n_bins=10)
        .fit(p, (generator.uniform(size=500) < p**2).astype(int))
        .graph()
    )
    rows = np.array([[0.3, 0.7], [0.35, 0.65]])
    errors = rounding_errors(graph, rows, graph(rows))
    assert errors[0] > 1e-3 > 1e-14 > errors[1]


def test_rounding_is_that_of_the_float_type():
    graph = fitted("temperature", 3).graph()
    rows = parity_rows(graph)
    assert rounding_errors(graph, rows, graph(rows)).max() < 1e-14
    single = rows.astype(np.float32)
    assert 1e-8 < rounding_errors(graph, single, graph(single)).max() < 1e-5


def test_float64_differs_by_less_than_a_millionth_of_a_millionth(tmp_path):
    """A temperature that differs by 1e-10 of itself is another one."""
    path = tmp_path / "calibrator.json"
    calibrator = TemperatureScaling().fit(*problem(3))
    export(calibrator, path)
    parity = verify(path, calibrator)
    assert (parity.tolerance, parity.dtype) == (1e-12, "float64")
    content = json.loads(path.read_text())
    for operation in content["graph"]["operations"]:
        if operation["operation"] == "affine":
            operation["scale"] *= 1 + 1e-10
    path.write_text(json.dumps(content))
    with pytest.raises(ExportError, match="differs from the calibrator"):
        verify(path, calibrator)
