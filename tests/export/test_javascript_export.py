"""The interpreter in JavaScript: every method in Node, and rows and files that it must refuse."""

import copy
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from export_cases import WITH_GRAPH, assert_same, cases, in_node, needs_node, node_pairs

from calibrant import TemperatureScaling
from calibrant.export import exportable
from calibrant.export.json_file import interpreter_source, json_of
from calibrant.graph import OPERATIONS


def compare(some, folder):
    for case, found in zip(some, in_node(node_pairs(some), folder), strict=True):
        assert isinstance(found, list), f"{case}: {found}"
        assert_same(case, np.array(found))


def test_every_method_in_node(tmp_path):
    compare(cases(3), tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")  # of matrices for 320 rows
@pytest.mark.parametrize(("n_classes", "absent"), [(2, False), (4, True), (10, False), (100, False)])
def test_every_method_in_node_for_all_numbers_of_classes(n_classes, absent, tmp_path):
    compare(cases(n_classes, absent=absent), tmp_path)


def test_the_interpreter_knows_all_operations():
    source = interpreter_source()
    for name in set(OPERATIONS) - {"opaque"}:
        assert f'    "{name}": (' in source or f"    {name}: (" in source


def test_the_interpreter_has_no_dependency_and_evaluates_no_text():
    source = interpreter_source()
    for forbidden in ("eval(", "Function(", "import(", "fetch(", "innerHTML", "document"):
        assert forbidden not in source
    assert "require(" not in source.split("*/", 1)[1]


@pytest.fixture(scope="module")
def content():
    return json_of(exportable(TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])))


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ([0.5], "row 0 must have 2 numbers"),
        ([0.5, "0.5"], "row 0 must have finite numbers"),
        ([0.5, None], "row 0 must have finite numbers"),
        ([1.5, -0.5], "not negative and sum to 1"),
        ([0.5, 0.6], "not negative and sum to 1"),
        ("ab", "row 0 must have 2 numbers"),
    ],
)
def test_rows_that_are_no_scores_are_refused(content, row, complaint, tmp_path):
    (found,) = in_node([(content, [row])], tmp_path)
    assert found.startswith("RangeError: ")
    assert complaint in found


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("format", "other", "this is not a calibrant graph"),
        ("version", 2, "this interpreter.js reads 1"),
    ],
)
def test_other_files_are_refused(content, key, value, complaint, tmp_path):
    (found,) = in_node([({**content, key: value}, [[0.5, 0.5]])], tmp_path)
    assert complaint in found


@pytest.mark.parametrize("name", ["unknown", "constructor", "__proto__"])
def test_unknown_operations_are_refused(content, name, tmp_path):
    other = copy.deepcopy(content)
    other["graph"]["operations"][0]["operation"] = name
    (found,) = in_node([(other, [[0.5, 0.5]])], tmp_path)
    assert "there is no operation" in found


def test_all_methods_are_among_the_cases():
    assert len(WITH_GRAPH) > 40


def test_the_example_of_the_documentation(tmp_path):
    """sigmoid(log(9) / 2) = 3/4."""
    page = (Path(__file__).parents[2] / "docs" / "javascript.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```javascript\n(.*?)```", page, re.DOTALL)
    (tmp_path / "example.js").write_text(script)
    (tmp_path / "interpreter.js").write_text(interpreter_source())
    TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1]).export(tmp_path / "calibrator.json")
    ended = subprocess.run(
        [needs_node(), "example.js"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    np.testing.assert_allclose(json.loads(ended.stdout), [[0.75, 0.25]], atol=1e-9)
