"""Outputs of parametric methods, after a fit and along a stream, stay what they were.

Make the file again after an intended change: ``python benchmarks/stored_outputs.py reference
tests/common/stored_outputs.json``. The same script compares all methods in far more detail.
"""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from calibrant.calibrators.structured.structured_map import StructuredMap
from calibrant.objective import DiagonalMap, FullMap, ScalarMap
from calibrant.objective.family import EventFeatures

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "benchmarks" / "stored_outputs.py"
STORED = json.loads((HERE / "stored_outputs.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("stored_outputs", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    yield module
    del sys.modules[specification.name]


def test_every_parametric_method_is_stored(script: ModuleType) -> None:
    assert sorted(STORED) == sorted(script.reference_names())


@pytest.mark.parametrize("name", STORED)
def test_outputs_stay(script: ModuleType, name: str) -> None:
    outputs = script.reference_outputs(name)
    assert outputs.keys() == STORED[name].keys()
    for key, rows in STORED[name].items():
        np.testing.assert_allclose(outputs[key], rows, rtol=1e-7, atol=1e-9, err_msg=key)


@pytest.mark.parametrize(
    ("name", "owner", "formula"),
    [
        ("temperature", ScalarMap, "traced"),
        ("vector", DiagonalMap, "traced"),
        ("shared-map", StructuredMap, "traced"),
        ("platt", EventFeatures, "log_odds"),
        ("matrix", FullMap, "forward"),
    ],
)
def test_a_formula_that_moves_by_a_millionth_is_found(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, owner: type, formula: str
) -> None:
    exact = getattr(owner, formula)

    def moved(self: object, theta: object, *rest: object) -> object:
        return exact(self, theta * (1 + 1e-6 * np.arange(1, len(theta) + 1)), *rest)

    monkeypatch.setattr(owner, formula, moved)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_outputs_stay(script, name)
