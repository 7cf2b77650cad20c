"""JSON files: what they hold, that they come back, and that damaged ones are refused in one sentence."""

import json
from dataclasses import replace

import numpy as np
import pytest
from export_cases import WITH_GRAPH, cases
from methods import fitted

from calibrant.errors import ExportError, FileFormatError
from calibrant.export import export, exportable, verify
from calibrant.export.json_file import BACKEND, json_of, load_json
from calibrant.graph import GraphError, MapGraph, Node
from calibrant.graph.elementwise import Clip
from calibrant.graph.rows import Softmax


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "calibrator.json"
    parity = export(fitted("isotonic", 3), target)
    assert parity.largest_difference == 0
    return target


@pytest.mark.parametrize("name", WITH_GRAPH)
def test_a_file_gives_the_graph_back(name, tmp_path):
    """To the last bit, in both float types."""
    for case in cases(2, [name]):
        target = tmp_path / "calibrator.json"
        export(fitted(name, 2), target, dtype=case.exportable.dtype)
        if case.exportable.graph.space.value != fitted(name, 2).space_:
            continue
        loaded = load_json(target)
        assert loaded.dtype == case.exportable.dtype
        assert str(loaded.graph) == str(case.exportable.graph)
        np.testing.assert_array_equal(loaded.graph(case.rows), case.expected)


def test_classes_and_columns_are_text(tmp_path):
    target = tmp_path / "calibrator.json"
    export(fitted("temperature", 3), target, columns=["a", 'b"', "ü\n"])
    loaded = load_json(target)
    assert loaded.classes == ("0", "1", "2")
    assert loaded.columns == ("a", 'b"', "ü\n")


def test_infinite_bounds_are_text(tmp_path):
    """A clip without an upper bound."""
    clip = Clip(np.array([-np.inf, 0.0]), np.asarray(np.inf))
    graph = MapGraph(2, (Node(clip, (0,)), Node(Softmax(), (1,))))
    content = replace(exportable(fitted("temperature", 2)), graph=graph)
    stored = json_of(content)["graph"]["operations"][0]
    assert (stored["low"], stored["high"]) == (["-Infinity", 0.0], "Infinity")
    BACKEND.write(content, tmp_path / "x.json", {})
    assert load_json(tmp_path / "x.json").graph.nodes[0].operation.high == np.inf


def test_verify_compares_with_the_calibrator(path):
    assert verify(path, fitted("isotonic", 3)).holds
    with pytest.raises(ExportError, match="differs from the calibrator"):
        verify(path, fitted("temperature", 3))


def changed(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def set_at(*keys, value):
    def change(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


first = ("graph", "operations", 0)
piecewise = ("graph", "operations", 1)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (set_at("format", value="other"), "is not a calibrant graph"),
        (set_at("version", value=2), "was written by a newer calibrant"),
        (set_at("version", value="1"), "is invalid"),
        (set_at("extra", value=1), "must have the keys"),
        (set_at("float_type", value="float16"), "its float type is 'float16'"),
        (set_at("classes", value=["a", "a", "b"]), "classes must be 3 different texts"),
        (set_at("columns", value=["a", "b"]), "columns must be 3 different texts"),
        (set_at("probe", value=[]), "the probe must have inputs and outputs"),
        (set_at("probe", "outputs", 0, value=[0.0, 0.0, 1.0]), "does not reproduce the predictions"),
        (set_at("probe", "outputs", value=[[1, 0, 0]]), "numbers with a decimal point"),
        (set_at(*first, "operation", value="eval"), "there is no operation"),
        (set_at(*first, "of", value=[9]), "operation 1 of the graph"),
        (set_at(*piecewise, "knots", value="Infinity"), "piecewise"),
        (set_at(*piecewise, "knots", 0, value="Infinity"), "piecewise has numbers in knots"),
        (set_at(*piecewise, "knots", 0, value="1"), "'1' is no number"),
        (set_at(*piecewise, "knots", 0, value=[1.0]), "an array must hold"),
        (set_at(*piecewise, "knots", value=[]), "is no array"),
        (set_at(*piecewise, "coefficients", 0, value=[1.0]), "rows of several lengths"),
        (set_at(*piecewise, "n_knots", 0, value=10**30), "many digits"),
        (set_at(*piecewise, "knots", value={"empty": "floats", "shape": [5]}), "must say its kind"),
    ],
)
def test_damaged_files_are_refused_in_one_sentence(path, change, complaint):
    changed(path, change)
    with pytest.raises(FileFormatError, match=complaint) as caught:
        load_json(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.endswith(".")
    assert "\n" not in message


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"\xff", b"NaN", b'{"format": "calibrant graph", "format": 1}', b"[" * 100_000],
    ids=["empty", "cut", "list", "binary", "NaN", "twice", "deep"],
)
def test_other_files_are_refused(tmp_path, text):
    target = tmp_path / "x.json"
    target.write_bytes(text)
    with pytest.raises(FileFormatError):
        load_json(target)


def test_errors_of_graphs_are_errors_of_files():
    assert issubclass(GraphError, FileFormatError)
