"""Exported files: checked before they are left, compared later, and refused in one sentence if something is wrong."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from calibrant import Predictions, TemperatureScaling, VectorScaling
from calibrant.errors import ExportError, FileFormatError, MissingExtraError, ParameterError
from calibrant.export import Backend, backends, export, exportable, verify
from calibrant.export import backend as backend_module

TABLES = {"onnx": "onnxruntime", "pt2": "torch"}
every_ending = pytest.mark.parametrize("ending", TABLES)


def needs(ending):
    pytest.importorskip(TABLES[ending], reason=f"{TABLES[ending]} is not installed")


@pytest.fixture(scope="module")
def fitted():
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 3, (500, 3))
    y = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return VectorScaling().fit(Predictions.from_logits(logits), np.array(["cat", "dog", "owl"])[y])


@every_ending
@pytest.mark.parametrize("dtype", ["float32", np.float64])
def test_an_export_is_checked_and_can_be_compared_later(ending, dtype, fitted, tmp_path):
    needs(ending)
    path = tmp_path / f"calibrator.{ending}"
    parity = fitted.export(path, dtype=dtype)
    assert parity.holds
    assert parity.dtype == np.dtype(dtype).name
    assert verify(path, fitted) == parity
    assert os.listdir(tmp_path) == [path.name]


@every_ending
def test_another_calibrator_is_told_from_the_exported_one(ending, fitted, tmp_path):
    needs(ending)
    path = tmp_path / f"calibrator.{ending}"
    fitted.export(path)
    logits = np.random.default_rng(0).normal(0, 3, (500, 3))
    other = VectorScaling().fit(Predictions.from_logits(logits), np.arange(500) % 3)
    with pytest.raises(ExportError, match=r"is for the classes \['cat', 'dog', 'owl'\]"):
        verify(path, other)
    other.classes_ = fitted.classes_
    with pytest.raises(ExportError, match="differs from the calibrator: largest difference"):
        verify(path, other)


def write_little(content, path, options):
    path.write_text("x")


def test_a_wrong_export_is_not_left_behind(fitted, tmp_path, monkeypatch):
    def run(path, scores):
        return np.full(scores.shape, 1 / 3)

    wrong = Backend("wrong", (".wrong",), "", write_little, run)
    monkeypatch.setattr(backend_module, "backends", lambda: (wrong,))
    path = tmp_path / "calibrator.wrong"
    path.write_text("an older export")
    with pytest.raises(ExportError, match="was not written, because its probabilities in wrong would differ"):
        export(fitted, path)
    assert path.read_text() == "an older export"
    assert os.listdir(tmp_path) == [path.name]


def test_a_back_end_without_its_runtime_writes_all_the_same(fitted, tmp_path, monkeypatch):
    def run(path, scores):
        raise MissingExtraError("runtime", "x")

    blind = Backend("blind", (".blind",), "x", write_little, run)
    monkeypatch.setattr(backend_module, "backends", lambda: (blind,))
    assert export(fitted, tmp_path / "calibrator.blind") is None
    with pytest.raises(MissingExtraError, match="runtime is required but not installed"):
        verify(tmp_path / "calibrator.blind", fitted)


def test_wrong_options_are_refused(fitted, tmp_path):
    with pytest.raises(ParameterError, match=r"'calibrator.txt' is no export format; use one of \.onnx"):
        fitted.export(tmp_path / "calibrator.txt")
    with pytest.raises(ParameterError, match="dtype must be 'float32' or 'float64', not 'float16'"):
        fitted.export(tmp_path / "calibrator.onnx", dtype="float16")
    with pytest.raises(ParameterError, match="ONNX has no option 'dialect'"):
        fitted.export(tmp_path / "calibrator.onnx", dialect="duckdb")
    with pytest.raises(ParameterError, match="columns must be 3 different names"):
        fitted.export(tmp_path / "calibrator.onnx", columns=["a", "b", "b"])
    with pytest.raises(ParameterError, match="columns must be 3 different names, one per class, not 5"):
        fitted.export(tmp_path / "calibrator.json", columns=5)
    with pytest.raises(ParameterError, match="space must be 'probabilities' or 'logits', not 'odds'"):
        fitted.export(tmp_path / "calibrator.json", space="odds")
    assert os.listdir(tmp_path) == []


def test_wrong_options_of_modules_are_refused(fitted):
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(ParameterError, match="space must be 'probabilities' or 'logits', not 'odds'"):
        fitted.to_torch("odds")


def test_columns_are_called_as_in_the_fit():
    frame = pd.DataFrame({"p_x": [0.9, 0.2, 0.7], "p_y": [0.1, 0.8, 0.3]})
    fitted = TemperatureScaling().fit(frame, [0, 1, 1])
    assert exportable(fitted).columns == ("p_x", "p_y")
    assert exportable(fitted, space="logits").columns == ("z_0", "z_1")


def test_columns_are_called_by_class_and_space(fitted):
    assert exportable(fitted).columns == ("z_cat", "z_dog", "z_owl")
    assert exportable(fitted, columns=["a", "b", "c"]).columns == ("a", "b", "c")
    binary = TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    assert exportable(binary).columns == ("p_0", "p_1")


def test_every_ending_belongs_to_one_back_end():
    endings = [ending for backend in backends() for ending in backend.endings]
    assert len(endings) == len(set(endings))


# Damaged and hostile files


@every_ending
def test_damaged_exports_are_refused_in_one_sentence(ending, fitted, tmp_path, capfd):
    """A bit here and there, and files that end early; the libraries print nothing of their own."""
    needs(ending)
    path = tmp_path / f"calibrator.{ending}"
    fitted.export(path)
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    sentences = []
    shares = [*np.linspace(0, 1, 30, endpoint=False), 0.999]
    damaged = [whole[:length] for length in (1, 100, len(whole) - 1, *(int(s * len(whole)) for s in shares))]
    for _ in range(270):
        spoilt = bytearray(whole)
        spoilt[generator.integers(len(whole))] ^= 1 << generator.integers(8)
        damaged.append(bytes(spoilt))
    for content in damaged:
        path.write_bytes(content)
        try:
            verify(path, fitted)
        except (FileFormatError, ExportError) as error:
            sentences.append(str(error))
    assert len(sentences) >= len(shares)
    assert capfd.readouterr() == ("", "")
    assert all(sentence.startswith(str(path)) and "\n" not in sentence for sentence in sentences)


@every_ending
def test_files_of_others_are_refused(ending, fitted, tmp_path):
    needs(ending)
    path = tmp_path / f"calibrator.{ending}"
    path.write_bytes(b"not an export")
    with pytest.raises(FileFormatError, match="is damaged or is no"):
        verify(path, fitted)
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / f"absent.{ending}", fitted)
    with pytest.raises(FileFormatError, match="is not a regular file"):
        verify(folder_called(tmp_path, ending), fitted)


def folder_called(tmp_path, ending):
    folder = tmp_path / f"folder.{ending}"
    folder.mkdir()
    return folder


class Harmful:
    def __reduce__(self):
        return os.mkdir, (self.path,)

    def __init__(self, path):
        self.path = str(path)


def rewritten(path, changes):
    """Replace members of an archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    root = next(iter(members)).split("/")[0]
    for name, change in changes.items():
        members[f"{root}/{name}"] = change(members.get(f"{root}/{name}"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


MODEL = "models/model.json"


def harmful_changes(made):
    """Return members of an archive that would run code, by what is wrong with them."""
    pickled = io.BytesIO()
    import torch

    torch.save(Harmful(made), pickled)
    code = f"__import__('os').mkdir('{made}') or Symbol("
    return {
        "pickle": ("data/sample_inputs/model.pt", lambda old: pickled.getvalue()),  # noqa: ARG005
        "library": ("data/aotinductor/model/x.so", lambda old: b"code"),  # noqa: ARG005
        "weights": (
            "data/weights/model_weights_config.json",
            lambda old: old.replace(b'"use_pickle": false', b'"use_pickle": true'),
        ),
        "operator": (MODEL, lambda old: old.replace(b"torch.ops.aten.add.Tensor", b"torch.hub.load")),
        "expression": (MODEL, lambda old: old.replace(b"Symbol(", code.encode())),
        "guards": (MODEL, lambda old: old.replace(b'"guards_code": []', b'"guards_code": ["1"]')),
    }


@pytest.mark.parametrize("what", ["pickle", "library", "weights", "operator", "expression", "guards"])
def test_a_program_of_torch_runs_no_code_of_the_file(what, fitted, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    path, made = tmp_path / "calibrator.pt2", tmp_path / "made"
    fitted.export(path)
    rewritten(path, dict([harmful_changes(made)[what]]))
    with pytest.raises(FileFormatError, match=r"no export has|is damaged"):
        verify(path, fitted)
    assert not made.exists()


def test_an_onnx_model_with_other_operators_or_huge_values_is_refused(fitted, tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    needs("onnx")
    path = tmp_path / "calibrator.onnx"
    fitted.export(path)
    model = onnx.load(path)
    model.graph.node[-1].op_type = "RandomNormalLike"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FileFormatError, match="has the operator 'RandomNormalLike', which no export has"):
        verify(path, fitted)

    fitted.export(path)
    model = onnx.load(path)
    wide = onnx.numpy_helper.from_array(np.zeros((3, 200_000_000 // 4), np.float32)[:, :1], "wide")
    ones = onnx.numpy_helper.from_array(np.zeros((1, 10_000), np.float32), "ones")
    many = onnx.numpy_helper.from_array(np.zeros((10_000, 1, 1), np.float32), "many")
    model.graph.initializer.extend([wide, ones, many])
    first = onnx.helper.make_node("MatMul", ["scores", "wide"], ["column"])
    second = onnx.helper.make_node("MatMul", ["column", "ones"], ["plane"])
    third = onnx.helper.make_node("Add", ["plane", "many"], ["cube"])
    model.graph.node.extend([first, second, third])
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FileFormatError, match=r"intermediate values of \d+ entries"):
        verify(path, fitted)

    fitted.export(path)
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FileFormatError, match="refers to other files"):
        verify(path, fitted)


def test_an_export_names_no_folder_of_this_machine(fitted, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    fitted.export(tmp_path / "calibrator.pt2")
    with zipfile.ZipFile(tmp_path / "calibrator.pt2") as archive:
        for name in archive.namelist():
            assert os.path.dirname(__file__).encode() not in archive.read(name)
            assert b"site-packages" not in archive.read(name)


# Metadata and absent libraries


def test_the_metadata_of_an_onnx_model(fitted, tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    fitted.export(tmp_path / "calibrator.onnx")
    model = onnx.load(tmp_path / "calibrator.onnx")
    told = {entry.key: entry.value for entry in model.metadata_props}
    assert told["calibrant.space"] == "logits"
    assert json.loads(told["calibrant.classes"]) == ["cat", "dog", "owl"]
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 18)]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"


@pytest.mark.parametrize(("ending", "library"), [("onnx", "onnx"), ("pt2", "torch")])
def test_without_its_library_an_export_names_the_extra(ending, library):
    program = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {library!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from calibrant import TemperatureScaling
from calibrant.errors import MissingExtraError
fitted = TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
try:
    fitted.export("calibrator.{ending}")
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert (
        done.stdout == f"{library} is required but not installed; run: pip install 'calibrant[{library}]'.\n"
    )


@pytest.fixture
def plugin(monkeypatch):
    """Install an object as the only plug-in for exports."""

    def install(plugin):
        entry = SimpleNamespace(name="text", load=lambda: plugin)
        monkeypatch.setattr("calibrant.export.backend.entry_points", lambda **_: [entry])
        backends.cache_clear()

    yield install
    backends.cache_clear()


def test_a_package_adds_an_export_format(plugin, fitted, tmp_path):
    """A format that nothing can run is written and not compared; one with an ending of ours does not replace ours."""
    text = Backend(
        "text", (".txt", ".onnx"), "", lambda content, path, _: path.write_text(str(content.graph)), None
    )
    plugin(text)
    assert backends()[-1] is text
    assert fitted.export(tmp_path / "calibrator.txt") is None
    assert (tmp_path / "calibrator.txt").read_text() == str(fitted.graph())
    assert backend_module.backend_for(Path("calibrator.onnx")).name == "ONNX"


def test_a_plugin_that_is_no_backend_is_refused(plugin, fitted, tmp_path):
    plugin(print)
    with pytest.raises(
        ParameterError, match=r"the plug-in 'text' of group 'calibrant.exports' is not a Backend"
    ):
        fitted.export(tmp_path / "calibrator.txt")
