"""Programs of torch that would run code, write files or fill memory: refused before torch runs them."""

import json
import os
import zipfile

import numpy as np
import pytest

from calibrant import Predictions, TemperatureScaling, VectorScaling
from calibrant.errors import FileFormatError
from calibrant.export import export, verify

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'calibrant[torch]'")

from calibrant.export.torch.program import METADATA, MODEL, OPERATORS  # noqa: E402


@pytest.fixture(scope="module")
def fitted():
    return VectorScaling().fit([[0.7, 0.2, 0.1]] * 6, [0, 0, 0, 1, 1, 2])


@pytest.fixture
def refused(fitted, tmp_path, monkeypatch):
    """Return a function that writes what another module computes as an export, and returns why it is refused."""
    monkeypatch.chdir(tmp_path)

    def refused(forward, **buffers):
        other = type("Other", (torch.nn.Module,), {"forward": forward})()
        for name, array in buffers.items():
            other.register_buffer(name, torch.as_tensor(array))
        program = torch.export.export(
            other, (torch.ones(2, 3),), dynamic_shapes={"scores": {0: torch.export.Dim.DYNAMIC}}, strict=False
        )
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)
        told = {"version": "1", "space": "probabilities", "classes": ["0", "1", "2"], "dtype": "float32"}
        path = tmp_path / "calibrator.pt2"
        torch.export.save(program, path, extra_files={METADATA: json.dumps(told)})
        return reason(path, fitted)

    return refused


def reason(path, fitted):
    before = sorted(os.listdir(path.parent))
    with pytest.raises(FileFormatError) as caught:
        verify(path, fitted)
    assert sorted(os.listdir(path.parent)) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_file_is_written(fitted, tmp_path, monkeypatch):
    """from_file creates the file that it maps."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "calibrator.pt2"
    export(fitted, path)

    def spoilt(content):
        model = json.loads(content)
        graph = model["graph_module"]["graph"]
        name = "from_file"
        given = {"filename": {"as_string": "made"}, "shared": {"as_bool": True}, "size": {"as_int": 3}}
        graph["nodes"].insert(
            0,
            {
                **graph["nodes"][0],
                "target": "torch.ops.aten.from_file.default",
                "inputs": [{"name": key, "arg": value, "kind": 1} for key, value in given.items()],
                "outputs": [{"as_tensor": {"name": name}}],
                "name": name,
            },
        )
        graph["tensor_values"][name] = next(iter(graph["tensor_values"].values()))
        return json.dumps(model).encode()

    changed(path, {MODEL: spoilt})
    assert "the operator 'torch.ops.aten.from_file.default', which no export has" in reason(path, fitted)


@pytest.mark.parametrize(
    "operator",
    [
        "from_file.default",
        "full.default",
        "ones.default",
        "empty.memory_format",
        "arange.default",
        "repeat.default",
        "expand.default",
        "_local_scalar_dense.default",
        "set_.source_Tensor",
        "as_strided.default",
        "resize_.default",
        "nonzero.default",
        "as_strided_.default",
    ],
)
def test_operators_that_make_values_of_any_size_are_not_allowed(operator):
    assert operator not in OPERATORS


def test_values_of_large_size_are_refused_before_they_are_computed(refused):
    column = torch.zeros(40_000, 1)

    def outer(self, scores):
        large = self.column * self.column.mT
        return scores + large.sum(dim=1, keepdim=True).narrow(0, 0, 1)

    def padded(self, scores):
        large = torch.nn.functional.pad(self.column, (0, 40_000))
        return scores + large.sum(dim=1, keepdim=True).narrow(0, 0, 1)

    for forward in (outer, padded):
        assert "entries, which no export has" in refused(forward, column=column)


def test_many_products_are_refused(refused):
    def forward(self, scores):
        return scores + (self.square @ self.square).narrow(0, 0, 1).narrow(1, 0, 3)

    assert "which no export has" in refused(forward, square=torch.zeros(5000, 5000))


def changed(path, changes, compression=zipfile.ZIP_STORED):
    """Replace members of an archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            change = changes.get(name.partition("/")[2])
            archive.writestr(name, content if change is None else change(content))


def test_names_are_no_code(fitted, tmp_path):
    """torch writes names of buffers into Python source, between quotes."""
    path, made = tmp_path / "calibrator.pt2", tmp_path / "made"
    export(fitted, path)
    code = f"a\", __import__('os').mkdir('{made}')) or getattr(self, \"b"
    with zipfile.ZipFile(path) as archive:
        model = json.loads(archive.read(f"draft/{MODEL}"))
    name = next(
        spec["buffer"]["buffer_name"]
        for spec in model["graph_module"]["signature"]["input_specs"]
        if "buffer" in spec
    )

    def renamed(content):
        return content.replace(json.dumps(name).encode(), json.dumps(code).encode())

    changed(path, {MODEL: renamed, "data/weights/model_weights_config.json": renamed})
    assert "has the " in reason(path, fitted)
    assert not made.exists()


def test_expressions_are_short(fitted, tmp_path):
    """A tower of powers would never be evaluated."""
    path = tmp_path / "calibrator.pt2"
    export(fitted, path)

    def tower(content):
        start = content.index(b"Symbol(")
        end = content.index(b")", start) + 1
        return content.replace(content[start:end], b"9**9**9**9")

    changed(path, {MODEL: tower})
    assert "has the expression '9**9**9**9'" in reason(path, fitted)


def test_members_are_not_compressed(fitted, tmp_path):
    path = tmp_path / "calibrator.pt2"
    export(fitted, path)
    changed(path, {}, zipfile.ZIP_DEFLATED)
    assert "has compressed members" in reason(path, fitted)


@pytest.mark.parametrize("left", [0.5, 0.99, 0.999])
def test_a_truncated_file_is_called_truncated(left, fitted, tmp_path):
    """The end of the last archive inside of the file is taken for that of the file."""
    path = tmp_path / "calibrator.pt2"
    export(fitted, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(left * len(whole))])
    assert "damaged" in reason(path, fitted)


def test_autocast_changes_nothing():
    """Products of bfloat16 have three digits."""
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 3, (200, 3))
    y = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    for method in (TemperatureScaling(), VectorScaling()):
        module = method.fit(Predictions.from_logits(logits), y).to_torch()
        rows = torch.from_numpy(logits.astype(np.float32))
        expected = module(rows)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = module(rows)
        assert torch.equal(found, expected)
