"""A graph applied to arrays: what goes in, what comes out, and which results may be overwritten."""

import gc
import threading
import tracemalloc
import weakref

import numpy as np
import pytest
from sklearn.base import clone

from calibrant import (
    NearestNeighbourCalibration,
    Predictions,
    TemperatureScaling,
    VectorScaling,
    WithIntervals,
)
from calibrant.calibrator import _State
from calibrant.errors import ParameterError, PredictionError
from calibrant.graph import MapGraph, Node
from calibrant.graph.apply import evaluated_columns
from calibrant.graph.columns import Columns, Floor
from calibrant.graph.elementwise import Affine, Arithmetic, Narrow, Widen
from calibrant.graph.map_graph import _WORKSPACE
from calibrant.graph.order import Restore
from calibrant.graph.rows import Softmax
from calibrant.graph.switch import Switch
from calibrant.graph.trace import Opaque


def times(factor):
    return Affine(np.array(factor), np.array(0.0))


def rows_and_labels(n_rows=300, n_classes=3):
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(n_classes), n_rows)
    return probabilities, (probabilities.cumsum(axis=1) < generator.random((n_rows, 1))).sum(axis=1)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ((Node(times(2.0), (0,)), Node(times(3.0), (1,)), Node(Narrow(), (1,))), [[2, 4]]),
        ((Node(times(2.0), (0,)), Node(times(3.0), (1,)), Node(Columns(np.arange(2)), (1,))), [[2, 4]]),
        (
            (Node(times(2.0), (0,)), Node(Widen(), (1,)), Node(times(3.0), (2,)), Node(Widen(), (2,))),
            [[2, 4]],
        ),
        (
            (Node(times(2.0), (0,)), Node(Floor(1e-9), (1,)), Node(times(3.0), (1,)), Node(Narrow(), (2,))),
            [[2, 4]],
        ),
        ((Node(Softmax(), (0,)), Node(Restore("argmax"), (1, 0)), Node(times(3.0), (0,))), [[3, 6]]),
    ],
)
def test_results_that_nobody_needs_do_not_overwrite_the_output(nodes, expected):
    for kind in (np.float32, np.float64):
        np.testing.assert_array_equal(MapGraph(2, nodes)(np.array([[1, 2]], kind)), expected)
        many = np.tile(np.array([[1, 2]], kind), (64, 1))
        np.testing.assert_array_equal(MapGraph(2, nodes)(many), np.tile(expected, (64, 1)))


@pytest.mark.parametrize("n_columns", [3, 60])
def test_many_rows_share_a_workspace_with_no_other_call(n_columns):
    """Stored by columns and by rows; a branch of a switch and a function run a graph inside of a graph."""
    shift = Arithmetic("add")
    inner = MapGraph(n_columns, (Node(times(2.0), (0,)), Node(times(5.0), (0,)), Node(shift, (1, 2))))
    inside = Opaque(inner, "of the test")
    nodes = (
        Node(times(3.0), (0,)),
        Node(Switch((inner,), np.zeros(n_columns, dtype=np.intp)), (0, 0)),
        Node(inside, (0,)),
        Node(shift, (1, 2)),
        Node(shift, (4, 3)),
    )
    graph = MapGraph(n_columns, nodes)
    scores = np.random.default_rng(0).integers(-9, 9, (500, n_columns)).astype(float)
    first = graph(scores)
    second = graph(-scores)
    np.testing.assert_array_equal(first, 17 * scores)
    np.testing.assert_array_equal(second, -17 * scores)


def test_an_error_inside_of_a_graph_leaves_the_workspace_to_the_next_call():
    def refuse(scores):
        raise ValueError("not these")

    graph = MapGraph(2, (Node(times(2.0), (0,)), Node(Opaque(refuse, "of the test"), (1,))))
    with pytest.raises(ValueError, match="not these"):
        graph(np.ones((100, 2)))
    assert not _WORKSPACE.is_taken


def test_types_of_input():
    graph = MapGraph(2, (Node(times(2.0), (0,)),))
    for given, kind in [
        ([[1, 2]], np.float64),
        (np.array([[1, 2]], np.int8), np.float64),
        (np.array([[1, 2]], np.float16), np.float32),
        (np.array([[1, 2]], np.float32), np.float32),
        (np.array([[1, 2]], ">f8"), np.float64),
        (np.array([[1, 2]], np.longdouble), np.float64),
    ]:
        result = graph(given)
        assert result.dtype == kind
        assert result.tolist() == [[2, 4]]
    assert graph(np.empty((0, 2), np.float32)).shape == (0, 2)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([1.0, 2.0], r"rows of 2 columns, but have shape \(2,\); pass X\[None, :\] for a single row\.$"),
        ([[1.0, 2.0, 3.0]], r"rows of 2 columns, but have shape \(1, 3\); pass one row per line\.$"),
        ([[1.0], [2.0, 3.0]], "must form a rectangular table"),
        ([["a", "b"]], "must be real numbers, not <U1"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.zeros((2, 2), complex), "must be real numbers, not complex128"),
    ],
)
def test_input_that_does_not_fit(given, reason):
    with pytest.raises(PredictionError, match=reason):
        MapGraph(2, (Node(times(2.0), (0,)),))(given)


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ([[0.0, 0.0]], r"not list; pass np\.empty\(\(1, 2\), np\.float64\)\.$"),
        (np.empty((2, 2)), r"not of shape \(2, 2\)"),
        (np.broadcast_to(0.0, (1, 2)), "but is read-only"),
    ],
)
def test_an_output_that_does_not_fit(out, reason):
    with pytest.raises(ParameterError, match=reason):
        MapGraph(2, (Node(times(2.0), (0,)),))(np.array([[1.0, 2.0]]), out)


@pytest.mark.parametrize(
    "calibrator",
    [
        NearestNeighbourCalibration(n_neighbours=32, guard=False),
        WithIntervals(TemperatureScaling(), predictive=True),
        VectorScaling(),
    ],
)
def test_a_calibrator_that_nobody_needs_is_freed(calibrator):
    fitted = clone(calibrator).fit(*rows_and_labels())
    fitted.predict_proba([[0.2, 0.3, 0.5]])
    still_there = weakref.ref(fitted)
    del fitted
    gc.collect()
    assert still_there() is None


def test_fitted_arrays_are_read_only():
    """A graph would not follow a change inside of an array; a new array it does follow."""
    weights = np.ones(3)
    fitted = VectorScaling().fit(*rows_and_labels())
    before = fitted.predict_proba([[0.2, 0.3, 0.5]])
    with pytest.raises(ValueError, match="read-only"):
        fitted.weights_ *= 2
    fitted.weights_ = weights
    assert weights.flags.writeable
    assert np.abs(fitted.predict_proba([[0.2, 0.3, 0.5]]) - before).max() > 0


def test_states_have_different_numbers_in_all_threads():
    numbers = []

    def make():
        numbers.extend([_State().version for _ in range(3000)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(numbers)) == len(numbers)


def peak_megabytes(call):
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("space", ["probabilities", "logits"])
def test_predictions_of_a_million_rows_need_little_memory(space):
    """Less than 20 MB beyond input and output, of which there are 16 MB each."""
    probabilities = rows_and_labels(1_000_000, 2)[0]
    fitted = TemperatureScaling().fit(*rows_and_labels(500, 2))
    out = np.empty_like(probabilities)
    if space == "logits":
        logits = 3 * np.log(probabilities)
        assert peak_megabytes(lambda: fitted.predict_proba(Predictions.from_logits(logits), out=out)) < 20
        assert peak_megabytes(lambda: fitted.predict(Predictions.from_logits(logits))) < 16 + 20
        return
    assert peak_megabytes(lambda: fitted.predict_proba(probabilities, out=out)) < 20
    # The array of labels has 8 MB, and so have the columns that they are taken from.
    assert peak_megabytes(lambda: fitted.predict(probabilities)) < 16 + 20


def test_predicted_labels_are_those_of_the_calibrated_scores(monkeypatch):
    """Block by block, with ties, zeros and logits that differ in their last digit."""
    monkeypatch.setattr("calibrant.graph.map_graph.BLOCK_BYTES", 2**10)
    monkeypatch.setattr("calibrant.numerics.row_blocks.BLOCK_BYTES", 2**10)
    probabilities, labels = rows_and_labels()
    probabilities[:3], probabilities[3] = np.eye(3), 1 / 3
    for calibrator in (TemperatureScaling(), VectorScaling(), NearestNeighbourCalibration(n_neighbours=32)):
        fitted = calibrator.fit(probabilities, labels)
        for rows in (probabilities, probabilities.astype(np.float32)):
            np.testing.assert_array_equal(fitted.predict(rows), fitted.transform(rows).predicted)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_columns_are_the_same_numbers_whether_computed_at_once_or_by_a_graph(kind):
    def formula(event):
        x = (event.log_odds * 0.7).clip(-2.0, 1.0)
        return [x.constant(1.0), x * x, event.probability]

    predictions = Predictions.from_logits(np.random.default_rng(0).normal(size=(500, 2)).astype(kind))
    first, second = (evaluated_columns(formula, predictions) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.flags.f_contiguous
    assert first.dtype == np.float64
