"""Files of every schema, written once: every later version must read them.

:func:`build_examples` made them. It is not run again for an old schema; a new schema gets files of its own.
"""

from pathlib import Path

import numpy as np
import pytest

from calibrant import Chain, TemperatureScaling, load, load_graph
from calibrant.errors import FileFormatError
from calibrant.solvers import Status

FOLDERS = [Path(__file__).parent / f"schema_{version}" for version in (1, 2)]

every_schema = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def build_examples(folder: Path) -> None:
    """Write the files: ``python -c "from test_stored_schemas import *; build_examples(FOLDERS[-1])"`` here."""
    X, y = [[0.9, 0.1]] * 4, ["bee", "bee", "bee", "cat"]
    TemperatureScaling().fit(X, y).save(folder / "temperature.npz")
    stages = (TemperatureScaling(loss="brier", bounds=(0.01, 100.0)), TemperatureScaling())
    Chain(stages).fit(X, y).save(folder / "chain.npz")


@every_schema
@pytest.mark.parametrize("name", ["temperature", "chain"])
def test_an_example_still_predicts_as_it_did(folder, name):
    """Three of four right at 90 %: 75 % is honest, and the second stage of the chain adds nothing."""
    loaded = load(folder / f"{name}.npz")
    np.testing.assert_allclose(loaded.predict_proba([[0.9, 0.1]]), [[0.75, 0.25]], rtol=1e-8)
    assert loaded.predict([[0.9, 0.1], [0.2, 0.8]]).tolist() == ["bee", "cat"]
    assert loaded.present_columns_ is None
    assert loaded.space_ == "probabilities"


@every_schema
def test_the_temperature_example_keeps_its_state(folder):
    loaded = load(folder / "temperature.npz")
    assert isinstance(loaded, TemperatureScaling)
    assert loaded.temperature_ == pytest.approx(2, rel=1e-9)
    assert loaded.solution_.status is Status.CONVERGED
    assert loaded.solution_.theta == pytest.approx([0.5], rel=1e-9)
    assert (loaded.loss, loaded.bounds) == ("log", (1e-3, 1e3))


@every_schema
def test_the_chain_example_keeps_its_stages(folder):
    loaded = load(folder / "chain.npz")
    assert isinstance(loaded, Chain)
    assert isinstance(loaded.calibrators, tuple)
    first, second = loaded.calibrators
    assert (first.loss, first.bounds, second.loss) == ("brier", (0.01, 100.0), "log")
    temperatures = [stage.temperature_ for stage in loaded.calibrators_]
    assert temperatures == pytest.approx([2, 1], rel=1e-6)


@pytest.mark.parametrize("name", ["temperature", "chain"])
def test_the_graph_is_there_from_schema_2_on(name):
    first, second = (folder / f"{name}.npz" for folder in FOLDERS)
    np.testing.assert_allclose(load_graph(second)(np.array([[0.9, 0.1]])), [[0.75, 0.25]], rtol=1e-8)
    with pytest.raises(FileFormatError, match="has no graph"):
        load_graph(first)


@every_schema
def test_the_examples_can_be_built(folder, tmp_path):
    build_examples(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in folder.glob("*.npz")
    )
    assert load(tmp_path / "chain.npz").classes_.tolist() == ["bee", "cat"]
