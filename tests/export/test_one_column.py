"""Maps of one column: two classes, of which a table or a network has the score of the second one alone."""

import sqlite3

import numpy as np
import pytest
from export_cases import FLOATS, SPACES, TOLERANCES, in_node
from methods import fitted

from calibrant import Predictions
from calibrant.errors import ExportError, ParameterError
from calibrant.export import exportable, verify
from calibrant.export.backend import backend_for
from calibrant.export.json_file import json_of
from calibrant.export.parity import parity_rows
from calibrant.export.sql import sql_of

RUNTIMES = {"onnx": "onnxruntime", "pt2": "torch", "sql": "duckdb", "json": "json"}

# One curve, steps, logarithms, and a softmax with restored arg-max.
METHODS = ["beta", "isotonic", "width-binning", "temperature"]


def scores(space):
    log_odds = np.append(np.random.default_rng(0).normal(0, 3, 40), [0.0, 30.0, -800.0])
    if space == "logits":
        return log_odds
    return np.concatenate([1 / (1 + np.exp(-log_odds[:-1])), [0.0, 1.0]])


def predictions(column, space):
    return Predictions.from_logits(column) if space == "logits" else Predictions.from_probabilities(column)


# torch.export takes seconds.
KINDS = [
    (ending, space, kind) for ending in RUNTIMES for space in SPACES for kind in FLOATS if ending != "pt2"
]


@pytest.mark.parametrize(
    ("ending", "space", "kind"),
    [*KINDS, pytest.param("pt2", "probabilities", "float32", marks=pytest.mark.slow)],
)
def test_a_file_takes_the_column_of_the_second_class(ending, space, kind, tmp_path):
    pytest.importorskip(RUNTIMES[ending], reason=f"{RUNTIMES[ending]} is not installed")
    for name in METHODS:
        calibrator, path = fitted(name, 2), tmp_path / f"{name}.{ending}"
        parity = calibrator.export(path, columns=["score"], space=space, dtype=kind)
        assert verify(path, calibrator) == parity
        column = scores(space).astype(kind)
        found = backend_for(path).run(path, column[:, np.newaxis])
        expected = calibrator.predict_proba(predictions(column, space))
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCES[kind], err_msg=name)


def test_one_column_in_node(tmp_path):
    pairs = [
        (
            json_of(exportable(fitted(name, 2), columns=["p"], space=space)),
            scores(space)[:, np.newaxis].tolist(),
        )
        for name in METHODS
        for space in SPACES
    ]
    for (name, space), found in zip(
        [(name, space) for name in METHODS for space in SPACES], in_node(pairs, tmp_path), strict=True
    ):
        expected = fitted(name, 2).predict_proba(predictions(scores(space), space))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, err_msg=name)
    (complaint,) = in_node([(pairs[0][0], [[1.5]])], tmp_path)
    assert complaint == "RangeError: row 0 must hold a probability from 0 to 1"


def test_numbers_that_are_no_probabilities_give_null():
    query = sql_of(exportable(fitted("beta", 2), columns=["p"]), "sqlite")
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE predictions (p REAL)")
    connection.executemany("INSERT INTO predictions VALUES (?)", [(0.5,), (1.1,), (-0.1,), (None,)])
    try:
        first, *others = connection.execute(query).fetchall()
    except sqlite3.OperationalError:
        pytest.skip("this SQLite was built without mathematical functions")
    finally:
        connection.close()
    assert sum(first) == pytest.approx(1)
    assert others == [(None, None)] * 3


def test_rows_for_the_comparison_lie_between_all_knots():
    """As those of two columns do: a curve of one column is the same curve."""
    calibrator = fitted("isotonic", 2)
    one, two = exportable(calibrator, columns=["p"]).graph, calibrator.graph()
    levels = [np.unique(graph(parity_rows(graph)).round(12)) for graph in (one, two)]
    assert len(levels[0]) >= len(levels[1]) > 20


def test_a_file_of_one_column_is_not_one_of_two(tmp_path):
    path = tmp_path / "calibrator.json"
    fitted("beta", 2).export(path, columns=["score"])
    with pytest.raises(ExportError, match="differs from the calibrator"):
        verify(path, fitted("platt", 2))


def test_one_column_is_for_two_classes():
    with pytest.raises(ParameterError, match=r"3 different names, one per class, not \['p'\]"):
        exportable(fitted("beta", 3), columns=["p"])
    with pytest.raises(
        ParameterError, match="2 different names, one per class, or one name for the second class"
    ):
        exportable(fitted("beta", 2), columns=["p", "p"])
