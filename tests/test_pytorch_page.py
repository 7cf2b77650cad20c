"""Recipes of the PyTorch and Hugging Face pages, with Lightning and Transformers if installed, else with stand-ins."""

import importlib.util
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from calibrant.metrics import confidence_ece, log_loss
from calibrant.predictions import Predictions
from calibrant.streaming import RunningMetric

DOCS = Path(__file__).parents[1] / "docs"
PAGES = "\n".join((DOCS / page).read_text(encoding="utf-8") for page in ("pytorch.md", "huggingface.md"))
GENERATOR = np.random.default_rng(0)


def recipe(name: str, folder: Path) -> types.ModuleType:
    """Return a file of a page as a module."""
    found = re.search(rf":caption: `{name}`\n\n(.*?)^```$", PAGES, re.MULTILINE | re.DOTALL)
    (folder / name).write_text(found[1])
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), folder / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    logits = GENERATOR.normal(0, 3, shape)
    return logits, (logits / 2 + GENERATOR.gumbel(size=shape)).argmax(axis=-1)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed; pip install torch")


@pytest.fixture
def lightning(monkeypatch):
    """Stand in for the one class that the recipe takes from Lightning, unless that is installed."""
    if importlib.util.find_spec("lightning") is None:
        stand_in = types.ModuleType("lightning.pytorch")
        stand_in.Callback = object
        monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
        monkeypatch.setitem(sys.modules, "lightning.pytorch", stand_in)


@pytest.mark.usefixtures("lightning")
def test_the_callback_of_lightning_logs_the_error_before_and_after(torch, tmp_path):
    callback = recipe("lightning_callback.py", tmp_path).Calibrate()
    logits, labels = rows(600, 4)
    logged = {}
    module = types.SimpleNamespace(log=logged.__setitem__)
    for _ in range(2):  # a second epoch begins without the rows of the first
        callback.on_validation_epoch_start(None, module)
        for batch in np.array_split(np.arange(600), 5):
            outputs = {
                "logits": torch.tensor(logits[batch], requires_grad=True),
                "labels": torch.tensor(labels[batch]),
            }
            callback.on_validation_batch_end(None, module, outputs, None, 0)
        callback.on_validation_epoch_end(None, module)
    assert logged["val_ece"] == confidence_ece(labels, Predictions.from_logits(logits))
    assert logged["val_ece_calibrated"] < logged["val_ece"] / 2
    assert callback.calibrator.temperature_ == pytest.approx(2, rel=0.2)


@pytest.mark.parametrize("shape", [(400, 3), (40, 10, 3)], ids=["sequences", "tokens"])
def test_logits_of_a_trainer(shape, tmp_path):
    recipes = recipe("trainer_recipe.py", tmp_path)
    logits, labels = rows(*shape)
    labels[::7] = -100
    output = types.SimpleNamespace(predictions=logits, label_ids=labels)
    counts = labels != -100
    plain = Predictions.from_logits(logits[counts])
    assert recipes.compute_metrics(output) == {
        "ece": confidence_ece(labels[counts], plain),
        "log_loss": log_loss(labels[counts], plain),
    }
    calibrator = recipes.calibrate(types.SimpleNamespace(predict=lambda _: output), None)
    assert calibrator.predict_proba(recipes.predictions_of(output)).shape == shape


def test_metrics_of_several_processes_are_merged(torch, tmp_path, monkeypatch):
    logits, labels = rows(300, 3)
    parts = []
    for batch in np.array_split(np.arange(300), 3):
        parts.append(RunningMetric("confidence_ece", space="logits"))
        parts[-1].update(torch.tensor(logits[batch]), torch.tensor(labels[batch]))
    module = recipe("merged_metric.py", tmp_path)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    monkeypatch.setattr(
        torch.distributed, "all_gather_object", lambda into, _: into.__setitem__(slice(None), parts)
    )
    expected = confidence_ece(labels, Predictions.from_logits(logits))
    assert module.merged(parts[0]).compute() == pytest.approx(expected, rel=1e-12)
