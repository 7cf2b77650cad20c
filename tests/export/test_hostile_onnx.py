"""ONNX models that would read other files, or fill memory or time: refused before ONNX Runtime sees them."""

import copy

import numpy as np
import pytest

from calibrant import TemperatureScaling
from calibrant.errors import FileFormatError
from calibrant.export import verify

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'calibrant[onnx]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'calibrant[onnx]'")

helper, FLOAT, INT64, BOOL = (
    onnx.helper,
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.INT64,
    onnx.TensorProto.BOOL,
)


@pytest.fixture(scope="module")
def fitted():
    return TemperatureScaling().fit([[0.7, 0.2, 0.1]] * 6, [0, 0, 0, 1, 1, 2])


@pytest.fixture
def refused(fitted, tmp_path, monkeypatch):
    """Return a function that changes the exported model and returns why it is refused."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "calibrator.onnx"

    def refused(change):
        fitted.export(path)
        model = onnx.load(path)
        change(model.graph)
        path.write_bytes(model.SerializeToString())
        with pytest.raises(FileFormatError) as caught:
            verify(path, fitted)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refused


def tensor(name, array):
    return onnx.numpy_helper.from_array(np.asarray(array), name)


def value(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def external(name):
    found = tensor(name, np.zeros((1, 3), np.float32))
    found.data_location = onnx.TensorProto.EXTERNAL
    found.ClearField("raw_data")
    found.external_data.add(key="location", value="secret")
    return found


def branch(name, initializers=(), nodes=None):
    nodes = nodes or [helper.make_node("Identity", [initializers[0].name], [name])]
    return helper.make_graph(nodes, name, [], [value(name)], initializers)


def add_condition(graph, then_branch, else_branch):
    graph.initializer.append(tensor("yes", np.array(True)))
    graph.node.append(
        helper.make_node("If", ["yes"], ["chosen"], then_branch=then_branch, else_branch=else_branch)
    )


@pytest.mark.parametrize("place", ["branch", "attribute", "main"])
def test_no_other_file_is_read(place, refused, tmp_path):
    """The data of a tensor in another file: 12 bytes of the working directory."""
    (tmp_path / "secret").write_bytes(b"\0" * 12)

    def change(graph):
        if place == "main":
            graph.initializer.append(external("x"))
        elif place == "branch":
            plain = tensor("plain", np.zeros((1, 3), np.float32))
            add_condition(graph, branch("first", [external("x")]), branch("second", [plain]))
        else:
            graph.node.append(helper.make_node("Identity", ["scores"], ["x"], value=external("y")))

    assert "refers to other files" in refused(change)


def test_sparse_tensors_are_refused(refused):
    def change(graph):
        graph.sparse_initializer.add().values.CopyFrom(tensor("x", np.zeros(1, np.float32)))

    assert "has a sparse tensor" in refused(change)


def add_loop(graph, most=3, nodes=None, computed=False):
    """A loop over one vector of one number."""
    inner = nodes or [helper.make_node("Identity", ["inner"], ["after"])]
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["still_on"]), *inner],
        "body",
        [value("number", INT64, []), value("on", BOOL, []), value("inner")],
        [value("still_on", BOOL, []), value("after")],
    )
    graph.initializer.extend(
        [
            tensor("most", np.array(most)),
            tensor("go", np.array(True)),
            tensor("start", np.ones(1, np.float32)),
        ]
    )
    if computed:
        graph.node.append(helper.make_node("Add", ["most", "most"], ["twice"]))
    graph.node.append(
        helper.make_node("Loop", ["twice" if computed else "most", "go", "start"], ["end"], body=body)
    )


def test_loops_are_short(refused):
    assert f"has a loop of {2**60} steps" in refused(lambda graph: add_loop(graph, 2**60))
    assert "has a loop of 41 steps" in refused(lambda graph: add_loop(graph, 41))
    assert "has a loop of -1 steps" in refused(lambda graph: add_loop(graph, computed=True))


def test_values_of_a_loop_keep_their_shape(refused):
    double = [helper.make_node("Concat", ["inner", "inner"], ["after"], axis=0)]
    assert "has a loop whose values change their shape" in refused(lambda graph: add_loop(graph, 40, double))


def test_loops_have_no_loops_inside(refused):
    def change(graph):
        add_loop(graph)
        inner = copy.deepcopy(graph.node[-1])
        graph.node[-1].attribute[0].g.node.append(inner)

    assert "has a loop inside of a loop" in refused(change)


def test_values_inside_of_loops_and_branches_are_small(refused):
    """40,000 times 40,000 ones."""
    ones = [
        tensor("column", np.ones((40_000, 1), np.float32)),
        tensor("row", np.ones((1, 40_000), np.float32)),
    ]
    product = [
        helper.make_node("MatMul", ["column", "row"], ["square"]),
        helper.make_node("ReduceMax", ["square"], ["largest"], keepdims=0),
        helper.make_node("Mul", ["inner", "largest"], ["after"]),
    ]

    def in_loop(graph):
        graph.initializer.extend(ones)
        add_loop(graph, nodes=product)

    def in_branch(graph):
        graph.initializer.extend(ones)
        one = [tensor("one", np.float32(1))]
        add_condition(graph, branch("largest", nodes=product[:2]), branch("second", one))

    assert f"intermediate values of {40_000**2} entries" in refused(in_loop)
    assert f"intermediate values of {40_000**2} entries" in refused(in_branch)


def test_values_of_unknown_size_are_refused(refused):
    def change(graph):
        graph.initializer.append(tensor("one", np.array([1])))
        graph.node.append(helper.make_node("ArgMax", ["scores"], ["places"], axis=1, keepdims=0))
        graph.node.append(helper.make_node("ReduceMax", ["places"], ["most"], keepdims=1))
        graph.initializer.append(tensor("long", np.zeros(9, np.float32)))
        graph.node.append(helper.make_node("TopK", ["long", "most"], ["x", "y"]))

    assert "of a size that depends on others" in refused(change)


def test_many_products_are_refused(refused):
    """5000 times 5000 times 5000."""

    def change(graph):
        graph.initializer.append(tensor("x", np.ones((5000, 5000), np.float32)))
        graph.node.append(helper.make_node("MatMul", ["x", "x"], ["y"]))

    assert "has work of" in refused(change)


def add_scan(graph, width):
    body = helper.make_graph(
        [helper.make_node("Identity", ["each"], ["made"])], "body", [value("each")], [value("made")]
    )
    graph.initializer.append(tensor("wide", np.zeros((2, width), np.float32)))
    graph.node.append(
        helper.make_node(
            "Scan",
            ["wide"],
            ["scanned"],
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[1],
            scan_output_axes=[1],
        )
    )


def test_scans_are_as_long_as_a_row(refused):
    assert "has a scan of more columns" in refused(lambda graph: add_scan(graph, 4))


def test_names_are_given_once(refused):
    """A second value of the name of a fitted array could make a loop longer than it looks."""

    def change(graph):
        add_loop(graph)
        graph.node.insert(0, helper.make_node("Identity", ["go"], ["most"]))

    assert "several values of one name" in refused(change)
