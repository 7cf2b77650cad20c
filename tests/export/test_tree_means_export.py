"""Means over trees in SQL and JavaScript, against a walk by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from export_cases import in_node

from calibrant.export.sql import run_query
from calibrant.export.sql.operations import EMITTERS
from calibrant.export.sql.terms import Arithmetic, Query

# A tree of two splits, a single leaf, and a tree of one split.
TREES = {
    "n_splits": [2, 0, 1],
    "columns": [0, 1, 1],
    "thresholds": [0.5, 0.25, 0.75],
    "children": [[1, -3], [-1, -2], [-1, -2]],
    "values": [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.5, 0.5], [0.6, 0.4], [1.0, 0.0]],
}

# Both sides of every threshold, and on it, where a row goes right.
ROWS = np.array([[0.4, 0.6], [0.5, 0.5], [0.9, 0.1], [0.8, 0.2], [0.25, 0.75], [0.3, 0.7]])


def by_hand(row):
    first = TREES["values"][0 if row[1] < 0.25 else 1] if row[0] < 0.5 else TREES["values"][2]
    last = TREES["values"][4 if row[1] < 0.75 else 5]
    return np.mean([first, TREES["values"][3], last], axis=0)


EXPECTED = np.array([by_hand(row) for row in ROWS])


def test_in_duckdb():
    pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'calibrant[sql]'")
    query = Query(10_000)
    inputs = [query.given(f"x{column}") for column in range(2)]
    operation = SimpleNamespace(**{name: np.array(value) for name, value in TREES.items()})
    terms = EMITTERS["tree-means"](operation, Arithmetic(query), inputs)
    stages, last = query.stages("predictions", ["x0", "x1"], terms, "")
    text = f"WITH {stages} SELECT {', '.join(f'{term.text} AS y{k}' for k, term in enumerate(terms))} FROM {last}"
    found = run_query(text, ROWS, ["predictions"], ["x0", "x1"], [])
    np.testing.assert_allclose(found, EXPECTED, rtol=0, atol=1e-15)


def test_in_node(tmp_path):
    operation = {"operation": "tree-means", "of": [0], **TREES}
    graph = {
        "columns": 2,
        "space": "probabilities",
        "output_space": "probabilities",
        "operations": [operation],
    }
    content = {"format": "calibrant graph", "version": 1, "float_type": "float64", "graph": graph}
    (found,) = in_node([(content, ROWS.tolist())], tmp_path)
    np.testing.assert_allclose(found, EXPECTED, rtol=0, atol=1e-15)
