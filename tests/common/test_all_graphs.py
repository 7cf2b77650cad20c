"""The graph of every method: against a second interpreter, in files, by blocks, and into an array of the caller."""

import copy
import threading

import numpy as np
import pytest
from methods import NAMES, fitted, problem, settled, traits
from plain_interpreter import OPERATIONS as KNOWN
from plain_interpreter import run

from calibrant import Predictions, load_graph
from calibrant.errors import MissingClassWarning, NoGraphError
from calibrant.graph import OPERATIONS
from calibrant.graph.plain import graph_from_plain, graph_to_plain

WITHOUT_GRAPH = {"kernel-dirichlet", "kernel-rbf", "knn-euclidean", "knn-kl"}
WITH_GRAPH = [name for name in NAMES if name not in WITHOUT_GRAPH]

# Between two interpreters, relative to probability one; no method needs more.
TOLERANCE = 1e-12

# All others give a row alone the same bits as among others. BLAS adds up products of matrices in an order that depends on
# their size, and NumPy the sum of a single row of eight or more classes.
DEPEND_ON_THE_BLOCK = {"dense", "switch", "rest-of-classes", "rest-of-largest", "normalise"}

# Fits that take more than a second.
SLOW_FITS = ("gp", "gp-monotone")

every_graph = pytest.mark.parametrize("name", WITH_GRAPH)


def hard_rows(n_classes):
    """Exact zeros and ones, ties, and rows that differ in their last digit."""
    certain = np.eye(n_classes)[:2]
    uniform = np.full((1, n_classes), 1 / n_classes)
    tied = np.zeros((1, n_classes))
    tied[0, :2] = 0.5
    close = uniform.copy()
    close[0, 1] = np.nextafter(close[0, 1], 1)
    tiny = np.full((1, n_classes), 1e-30)
    tiny[0, -1] = 1.0
    return np.vstack([certain, uniform, tied, close, tiny])


def rows_for(calibrator, n_classes, space):
    """Return rows of a space that the calibrator takes."""
    some = problem(n_classes, seed=1).probabilities[:20]
    if space == "probabilities":
        return np.vstack([some, hard_rows(n_classes)])
    hard = np.zeros((6, n_classes))
    hard[0, 0], hard[1, -1], hard[2, 0] = 800.0, -1e5, 1e9  # saturated
    hard[3, 1], hard[4, 0], hard[5, :2] = 3e-8, -1e-9, [1e-7, np.nextafter(1e-7, 1)]  # nearly tied
    # In general position: a step function may put a probability that rounding has moved on another side of its edge.
    return np.vstack([1.0173 * np.log(some), hard])


def as_predictions(scores, space):
    return Predictions.from_logits(scores) if space == "logits" else scores


def by_hand(graph, scores):
    plain = graph_to_plain(graph, lambda array: array.tolist())
    return np.array([run(plain, row) for row in scores.tolist()])


def check_against_second_interpreter(name, space, n_classes):
    """Plain Python, one row at a time, from what a file would hold; float32 to its own accuracy."""
    if traits(name).binary_only and n_classes > 2:
        pytest.skip("for two classes")
    if space == "logits" and traits(name).uses_raw_logits:
        rows = problem(n_classes)
        calibrator = settled(name).fit(Predictions.from_logits(np.log(rows.probabilities)), rows.labels)
    else:
        calibrator = fitted(name, n_classes)
    scores = rows_for(calibrator, n_classes, space)
    graph = calibrator.graph(space)
    together = graph(scores)
    names = {node.operation.name for node in graph.nodes}
    # A hundred classes are more than 320 rows tell: weights of a matrix become large, and so does their rounding.
    is_large = n_classes >= 100 and "dense" in names
    atol = 10 * TOLERANCE if is_large else TOLERANCE
    np.testing.assert_allclose(by_hand(graph, scores), together, rtol=0, atol=atol)
    np.testing.assert_array_equal(together, calibrator.predict_proba(as_predictions(scores, space)))
    # With zeros, ties and saturated rows, and with ties that were none in float64.
    single = scores.astype(np.float32)
    narrow = graph(single)
    assert narrow.dtype == np.float32
    compared = slice(20 if is_large else None)
    wide = graph(single.astype(np.float64))
    # Without a penalty the weights of a hundred classes are so large that float32 holds three digits.
    is_steep = is_large and name in ("matrix", "dirichlet")
    np.testing.assert_allclose(narrow[compared], wide[compared], rtol=0, atol=1e-3 if is_steep else 1e-5)
    atol = 0 if names.isdisjoint(DEPEND_ON_THE_BLOCK) else TOLERANCE if is_large else 1e-14
    for row in range(len(scores)):
        np.testing.assert_allclose(graph(scores[row : row + 1]), together[row : row + 1], rtol=0, atol=atol)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("space", ["probabilities", "logits"])
@every_graph
def test_the_graph_equals_a_second_interpreter(name, space, n_classes):
    check_against_second_interpreter(name, space, n_classes)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")  # of matrices for 320 rows
@pytest.mark.parametrize("space", ["probabilities", "logits"])
@every_graph
def test_the_graph_of_a_hundred_classes_equals_a_second_interpreter(name, space):
    check_against_second_interpreter(name, space, 100)


def check_absent_class(name, space):
    rows = problem(4)
    labels = np.where(rows.labels == 1, 2, rows.labels)
    given = np.log(rows.probabilities) if space == "logits" else rows.probabilities
    with pytest.warns(MissingClassWarning):
        calibrator = settled(name).fit(as_predictions(given, space), labels)
    scores = rows_for(calibrator, 4, space)
    graph = calibrator.graph()
    np.testing.assert_allclose(by_hand(graph, scores), graph(scores), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("space", ["probabilities", "logits"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW_FITS else [])
        for name in WITH_GRAPH
        if not traits(name).binary_only
    ],
)
def test_every_graph_with_an_absent_class(name, space):
    check_absent_class(name, space)


@every_graph
def test_the_first_predictions_may_be_in_threads(name):
    """Graphs are made when first asked for; all threads get the predictions of one."""
    n_classes = 2 if traits(name).binary_only else 3
    alone = fitted(name, n_classes)
    scores = problem(n_classes, seed=1).probabilities
    expected = alone.predict_proba(scores)
    calibrator, results, start = copy.copy(alone), [], threading.Barrier(4)

    def predict():
        start.wait()
        results.append(calibrator.predict_proba(scores))

    threads = [threading.Thread(target=predict) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        np.testing.assert_array_equal(result, expected)


@every_graph
def test_a_file_holds_the_graph(name, tmp_path):
    calibrator = fitted(name, 2)
    calibrator.save(tmp_path / "calibrator.npz")
    graph = load_graph(tmp_path / "calibrator.npz")
    assert str(graph) == str(calibrator.graph())
    for kind in (np.float32, np.float64):
        scores = problem(2, seed=1).probabilities.astype(kind)
        np.testing.assert_array_equal(graph(scores), calibrator.predict_proba(scores))


@every_graph
def test_blocks_threads_and_an_array_of_the_caller_change_nothing(name, monkeypatch):
    calibrator = fitted(name, 3 if not traits(name).binary_only else 2)
    scores = problem(calibrator.graph().n_columns, seed=1).probabilities
    expected = calibrator.predict_proba(scores)
    out = np.empty_like(expected)
    with monkeypatch.context() as patch:
        patch.setattr("calibrant.graph.map_graph.BLOCK_BYTES", 64)
        patch.setattr("calibrant.numerics.row_blocks.BLOCK_BYTES", 4096)
        assert calibrator.predict_proba(scores, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", sorted(WITHOUT_GRAPH))
def test_a_method_without_a_graph_says_why_and_what_to_use(name):
    calibrator = settled(name).fit(*problem(3))
    calibrator.identity_kept_ = False
    with pytest.raises(NoGraphError, match=r"has no graph, because .* temperature scaling"):
        calibrator.graph()


def test_the_second_interpreter_knows_all_operations():
    assert set(KNOWN) == set(OPERATIONS) - {"opaque"}


@every_graph
def test_plain_data_give_the_graph_back(name):
    graph = fitted(name, 2).graph()
    again = graph_from_plain(graph_to_plain(graph, lambda array: array), lambda array: array)
    scores = problem(2, seed=1).probabilities
    np.testing.assert_array_equal(again(scores), graph(scores))


def test_out_must_fit():
    calibrator = fitted("temperature", 2)
    scores = problem(2).probabilities
    with pytest.raises(
        ValueError, match=r"out must be a writeable array of shape \(320, 2\) and type float64"
    ):
        calibrator.predict_proba(scores, out=np.empty((320, 2), np.float32))
    own = scores.copy()
    with pytest.raises(ValueError, match="must not overlap"):
        calibrator.predict_proba(own, out=own)


def test_a_graph_follows_the_fitted_state():
    """Also that of a part inside of a chain."""
    calibrator = settled("temperature+vector").fit(*problem(3))
    scores = problem(3, seed=1).probabilities
    before = calibrator.predict_proba(scores)
    first = calibrator.calibrators_[0]
    first.inverse_temperature_ = 2 * first.inverse_temperature_
    assert not np.allclose(calibrator.predict_proba(scores), before)
