"""ONNX: calibrators behind classifiers, and primitives that ONNX has no operator for."""

import re
from pathlib import Path

import numpy as np
import pytest
from export_cases import ordinary_floats

from calibrant import (
    CalibratedClassifier,
    IsotonicCalibration,
    NearestNeighbourCalibration,
    Predictions,
    TemperatureScaling,
)
from calibrant.errors import ExportError, FileFormatError, NoGraphError, ParameterError
from calibrant.export import attach, verify
from calibrant.export.onnx import attaching, to_nodes
from calibrant.export.onnx.arrays import SymbolicArrays

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'calibrant[onnx]'")
onnxruntime = pytest.importorskip(
    "onnxruntime", reason="onnxruntime is not installed: pip install 'calibrant[onnx]'"
)

helper, FLOAT, DOUBLE = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
WEIGHTS = np.random.default_rng(0).normal(size=(4, 3))


def classifier(opset=18, kind="float32", names=("x", "W", "logits"), width=3, rank=2):
    """A linear classifier."""
    element = {"float32": FLOAT, "float64": DOUBLE, "float16": onnx.TensorProto.FLOAT16}[kind]
    x, weights, logits = names
    shape = ["rows", *[1] * (rank - 2), width]
    return helper.make_model(
        helper.make_graph(
            [helper.make_node("MatMul", [x, weights], [logits])],
            "classifier",
            [helper.make_tensor_value_info(x, element, ["rows", *[1] * (rank - 2), 4])],
            [helper.make_tensor_value_info(logits, element, shape)],
            [onnx.numpy_helper.from_array(WEIGHTS.astype(kind), weights)],
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=7,
    )


@pytest.fixture(scope="module", params=[TemperatureScaling, IsotonicCalibration])
def fitted(request):
    generator = np.random.default_rng(1)
    logits = generator.normal(0, 3, (400, 3))
    y = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return request.param().fit(Predictions.from_logits(logits), y)


def ran(model, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {"x": x})


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("opset", [11, 18, 21])
def test_a_calibrator_behind_a_classifier(opset, kind, fitted):
    x = np.random.default_rng(2).normal(size=(50, 4)).astype(kind)
    model = classifier(opset, kind)
    before = model.SerializeToString()
    combined = attach(model, fitted)
    assert combined.opset_import[0].version == max(opset, 18)
    assert [output.name for output in combined.graph.output] == ["calibrated"]
    assert model.SerializeToString() == before
    expected = fitted.predict_proba(Predictions.from_logits(x @ WEIGHTS.astype(kind)))
    np.testing.assert_allclose(ran(combined, x)[0], expected, atol={"float32": 1e-5, "float64": 1e-12}[kind])


def test_names_never_collide(fitted):
    """A classifier that has a calibrator already can have a second one."""
    model = classifier(names=("x", "calibrator_number_c0", "calibrator_v1"))
    once = attach(model, fitted)
    twice = attach(once, TemperatureScaling().fit([[0.6, 0.3, 0.1]] * 6, [0, 0, 0, 1, 1, 2]), name="again")
    assert ran(twice, np.zeros((2, 4), np.float32))[0].shape == (2, 3)
    with pytest.raises(ParameterError, match="has a value called 'calibrated' already"):
        attach(once, fitted)


def test_a_model_in_a_file_with_several_outputs(fitted, tmp_path):
    model = classifier()
    label = helper.make_tensor_value_info("label", onnx.TensorProto.INT64, ["rows"])
    model.graph.node.append(helper.make_node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0))
    model.graph.output.insert(0, label)
    onnx.save(model, tmp_path / "classifier.onnx")
    combined = attach(tmp_path / "classifier.onnx", fitted)
    assert [output.name for output in combined.graph.output] == ["label", "calibrated"]
    with pytest.raises(ExportError, match="'label' is no tensor of float16, float32 or float64"):
        attach(tmp_path / "classifier.onnx", fitted, output="label")
    model.graph.node.append(helper.make_node("Neg", ["logits"], ["others"]))
    model.graph.output.append(helper.make_tensor_value_info("others", FLOAT, ["rows", 3]))
    with pytest.raises(
        ParameterError, match="several outputs; pass output= as one of 'label', 'logits', 'oth"
    ):
        attach(model, fitted)
    combined = attach(model, fitted, output="logits")
    assert [output.name for output in combined.graph.output] == ["label", "calibrated", "others"]


def test_half_precision_is_computed_in_single_precision(fitted):
    x = np.random.default_rng(2).normal(size=(50, 4)).astype(np.float16)
    (found,) = ran(attach(classifier(kind="float16"), fitted), x)
    assert found.dtype == np.float16
    (logits,) = ran(classifier(kind="float16"), x)
    expected = fitted.predict_proba(Predictions.from_logits(logits))
    np.testing.assert_allclose(found, expected, atol=2e-3)


@pytest.mark.parametrize("space", ["probabilities", "logits"])
def test_a_classifier_with_one_output_for_two_classes(space):
    """The probability of the second class, or its log-odds."""
    x = np.random.default_rng(2).normal(size=(50, 4)).astype(np.float32)
    model = classifier(width=1)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(WEIGHTS[:, :1].astype(np.float32), "W"))
    given = x @ WEIGHTS[:, 0].astype(np.float32)
    parse = Predictions.from_logits
    if space == "probabilities":
        model.graph.node.append(helper.make_node("Sigmoid", ["logits"], ["p"]))
        model.graph.output[0].name = "p"
        given, parse = 1 / (1 + np.exp(-given)), Predictions.from_probabilities
    fitted = TemperatureScaling().fit(parse(given), x[:, 0] + np.random.default_rng(3).normal(size=50) > 0)
    (found,) = ran(attach(model, fitted), x)
    np.testing.assert_allclose(found, fitted.predict_proba(parse(given)), atol=1e-6)


def with_maps():
    """A classifier that returns one map per row, as skl2onnx makes by default; its operator sets are listed twice."""
    model = classifier(opset=15)
    model.graph.node.append(
        helper.make_node("ZipMap", ["logits"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2])
    )
    value = helper.make_tensor_type_proto(FLOAT, [])
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(onnx.TensorProto.INT64, value))
    model.graph.output[0].CopyFrom(helper.make_value_info("maps", maps))
    model.opset_import.extend([helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 15)])
    return model


@pytest.mark.parametrize("output", [None, "maps"])
def test_maps_of_a_classifier_become_a_tensor(output, fitted):
    x = np.random.default_rng(2).normal(size=(50, 4)).astype(np.float32)
    combined = attach(with_maps(), fitted, output=output)
    assert sorted(each.domain for each in combined.opset_import) == ["", "ai.onnx.ml"]
    expected = fitted.predict_proba(Predictions.from_logits(x @ WEIGHTS.astype(np.float32)))
    np.testing.assert_allclose(ran(combined, x)[0], expected, atol=1e-5)


def test_a_model_without_the_default_domain(fitted):
    """Converters of boosted trees import ai.onnx.ml alone."""
    model = classifier()
    linear = helper.make_node(
        "LinearRegressor", ["x"], ["logits"], domain="ai.onnx.ml", coefficients=WEIGHTS.T.ravel(), targets=3
    )
    model.graph.node[0].CopyFrom(linear)
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    x = np.random.default_rng(2).normal(size=(50, 4)).astype(np.float32)
    expected = fitted.predict_proba(Predictions.from_logits(x @ WEIGHTS.astype(np.float32)))
    np.testing.assert_allclose(ran(attach(model, fitted), x)[0], expected, atol=1e-5)


def test_a_classifier_with_a_calibrator_is_no_export_of_a_calibrator(fitted, tmp_path):
    onnx.save(attach(classifier(), fitted), tmp_path / "classifier.onnx")
    with pytest.raises(FileFormatError, match="is a classifier with a calibrator behind it"):
        verify(tmp_path / "classifier.onnx", fitted)


def test_new_nodes_are_compared_with_the_calibrator(fitted, monkeypatch):
    def wrong(arrays, graph, x):
        return arrays.softmax(x) * 0.5 + 1 / 6

    monkeypatch.setattr(attaching, "applied", wrong)
    with pytest.raises(ExportError, match=r"was not attached, because .*largest difference"):
        attach(classifier(), fitted)


def test_models_that_do_not_fit_are_refused(fitted, tmp_path):
    with pytest.raises(ParameterError, match="no output 'scores'"):
        attach(classifier(), fitted, output="scores")
    with pytest.raises(ExportError, match=r"has shape \(any, 4\), but the calibrator takes \(rows, 3\)"):
        attach(classifier(width=4), fitted)
    with pytest.raises(ExportError, match=r"has shape \(any, 1, 3\)"):
        attach(classifier(rank=3), fitted)
    (tmp_path / "notes.onnx").write_text("no model")
    with pytest.raises(FileFormatError, match="is damaged or is no ONNX model"):
        attach(tmp_path / "notes.onnx", fitted)
    neighbours = NearestNeighbourCalibration(n_neighbours=3).fit([[0.6, 0.3, 0.1]] * 6, [0, 0, 0, 1, 1, 2])
    with pytest.raises(NoGraphError, match="has no graph"):
        attach(classifier(), neighbours, space="probabilities")


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_next_larger_number(kind):
    """Of numbers of all sizes, denormal ones included, and of neighbours of powers of two."""
    dtype = np.dtype(kind)
    arrays = SymbolicArrays(dtype)
    result = arrays.next_up(arrays.symbol("x", dtype))
    element = helper.np_dtype_to_tensor_dtype(dtype)
    graph = helper.make_graph(
        to_nodes(arrays.main, onnx),
        "next",
        [helper.make_tensor_value_info("x", element, ["n"])],
        [helper.make_tensor_value_info(result.name, element, ["n"])],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.initializers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    x = ordinary_floats(dtype)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(ran(model, x)[0], np.nextafter(x, dtype.type(np.inf)))


def test_the_recipe_for_skl2onnx():
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install skl2onnx")
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier

    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
    made = {}
    exec(re.search(r":caption: `sklearn_to_onnx.py`\n\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1], made)
    X, y = load_iris(return_X_y=True)
    X = X.astype(np.float32)
    forest = RandomForestClassifier(20, random_state=0)
    classifier = CalibratedClassifier(forest, method="temperature", ensemble=False).fit(X, y)
    model = made["calibrated_onnx"](classifier, X)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    assert session.get_outputs()[1].name == "calibrated"
    np.testing.assert_allclose(session.run(None, {"X": X})[1], classifier.predict_proba(X), atol=1e-5)
