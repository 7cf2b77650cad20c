"""Pictures of predictions: they show what was measured, and train nothing."""

import numpy as np
import pytest

from calibrant import TemperatureScaling
from calibrant.metrics import log_loss
from calibrant.studies.execution import run
from calibrant.studies.pictures import pictures_of_predictions
from calibrant.studies.pictures.options import PictureOptions
from calibrant.studies.plan import plan
from calibrant.studies.recipe import read_recipe
from calibrant.studies.report import contents_of
from calibrant.studies.results import Results
from calibrant.studies.store import Store

RECIPE = """
title = "Pictures"
[[data]]
name = "scores"
scores = "scores.npz"
splits = { kind = "given" }
calibrators = ["Uncal", "TempS"]
[[data]]
name = "maps"
scores = "scores.npz"
splits = { kind = "given", repeats = 1 }
calibrators = ["TempS", "PTS", "Dirichlet"]
[[data]]
name = "features"
features = "features.npz"
calibrators = ["Uncal", "TempS"]
[[data]]
name = "trained once"
features = "trained.npz"
splits = { kind = "random", calibration_rows = 50 }
calibrators = ["Uncal", "TempS"]
[classifiers]
tree = "tree"
[calibrators]
Uncal = "uncalibrated"
TempS = "temperature"
PTS = { method = "pts", parameters = { hidden = [] } }
Dirichlet = { method = "dirichlet-l2", grid = { reg_lambda = [0.001, 10.0] }, folds = 2 }
[splits]
kind = "folds"
repeats = 2
folds = 3
inner = 2
[measures]
log_loss = "log_loss"
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Results of a small study, and the folder of its outputs."""
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "recipe.toml").write_text(RECIPE)
    generator = np.random.default_rng(0)
    logits = 2 * generator.normal(size=(300, 3))
    labels = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    parts = {
        "val_logits": logits[:150],
        "val_y": labels[:150],
        "test_logits": logits[150:],
        "test_y": labels[150:],
    }
    np.savez(folder / "scores.npz", **parts)
    np.savez(folder / "features.npz", X=logits, y=labels)
    once = {"X_train": logits[:150], "y_train": labels[:150], "X_test": logits[150:], "y_test": labels[150:]}
    np.savez(folder / "trained.npz", **once)
    planned = plan(read_recipe(folder))
    with Store(folder / "pictures.sqlite") as store:
        run(planned, store)
        return Results(planned, planned.records(store)), store.outputs_folder, parts


def built(study, folder=None, **entry):
    results, outputs, _ = study
    options = PictureOptions.parse({"name": "picture", "kind": "probabilities", **entry})
    return pictures_of_predictions(outputs if folder is None else folder)(results, options)


def test_boxes_are_of_the_calibrated_test_rows(study):
    parts = study[2]
    found = built(study, data="scores", display="boxes")
    assert list(found.displays) == ["Uncal", "TempS"]
    calibrated = TemperatureScaling().fit(_softmax(parts["val_logits"]), parts["val_y"])
    p = calibrated.predict_proba(_softmax(parts["test_logits"]))
    own = p[parts["test_y"] == 1, 1]
    columns = found.displays["TempS"].columns()
    place = (columns["true_class"] == "1") & (columns["class"] == "1")
    assert columns["mean"][place][0] == pytest.approx(own.mean(), abs=1e-4)


def test_rows_of_all_folds_of_one_repeat_are_put_together(study):
    found = built(study, data="features", classifier="tree")
    counts = found.displays[""].columns()
    assert counts["count"][counts["model"] == "TempS"].sum() == 300
    one = built(study, data="features", classifier="tree", fold=1, calibrators=["Uncal"])
    assert one.displays[""].columns()["count"].sum() == 100


def test_a_diagram_of_one_class_and_one_for_every_class(study):
    assert built(study, data="scores", **{"class": 1}).displays[""].curves["TempS"].n_rows == 150
    classwise = built(study, data="scores", display="classwise", calibrators="TempS")
    assert set(classwise.displays["TempS"].columns()["label"].tolist()) == {0, 1, 2}


def test_rows_of_all_repeats_can_be_put_together(study):
    found = built(study, data="features", classifier="tree", calibrators=["Uncal"], repeats="all")
    assert found.displays[""].columns()["count"].sum() == 600


def test_a_diagram_for_every_class_comes_with_that_of_the_confidence(study):
    found = built(study, data="scores", display="classwise", calibrators=["TempS"])
    assert list(found.displays) == ["TempS-confidence", "TempS"]
    confidence = built(study, data="scores", calibrators=["TempS"]).displays[""].columns()
    for name, column in found.displays["TempS-confidence"].columns().items():
        np.testing.assert_array_equal(column, confidence[name])


@pytest.mark.parametrize(
    ("display", "calibrator"),
    [("temperatures", "PTS"), ("weights", "Dirichlet"), ("interpretation points", "Dirichlet")],
)
def test_fitted_calibrators_are_drawn(study, display, calibrator):
    found = built(study, data="maps", kind="fitted maps", display=display, calibrators=[calibrator])
    assert list(found.displays) == [""]
    assert len(found.displays[""].plot().figure_.axes) > 0


def test_latent_functions_share_their_axes(study):
    parts = study[2]
    found = built(study, data="maps", kind="fitted maps", display="latent functions", calibrators=["TempS"])
    (function,) = found.displays[""].functions
    fitted = TemperatureScaling().fit(_softmax(parts["val_logits"]), parts["val_y"])
    slopes = np.diff(function.values) / np.diff(found.displays[""].scores)
    np.testing.assert_allclose(slopes, fitted.inverse_temperature_, rtol=1e-6)


def test_one_classifier_for_several_splits_is_found_and_counted_once(study):
    results = study[0]
    found = built(study, data="trained once", classifier="tree", calibrators=["Uncal"])
    assert found.displays[""].columns()["count"].sum() == 100
    (time,) = [text for name, text in contents_of(results).facts if name == "time"]
    assert time.endswith("to train 7 classifiers")  # of two times three folds, and the one


def test_no_classifier_is_trained_for_a_picture(study, tmp_path):
    found = built(study, tmp_path / "nothing", data="features", classifier="tree")
    assert not found.displays
    assert "are no longer cached" in found.notes[0]
    assert not (tmp_path / "nothing").exists()


def test_nothing_is_drawn_of_what_is_not_there(study):
    assert built(study, data="other").notes == ("Not drawn: none of its units is finished.",)


def test_losses_of_what_is_drawn_are_those_that_were_measured(study):
    results, _, parts = study
    line, _ = results.where({"data": "scores", "calibrator": "Uncal"})  # of two repeats
    assert line.values["log_loss"] == pytest.approx(log_loss(parts["test_y"], _softmax(parts["test_logits"])))


def _softmax(logits):
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)
