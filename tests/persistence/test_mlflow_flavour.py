"""The MLflow flavour: saved, logged and loaded, as a calibrator and as a function of data frames."""

import sys

import numpy as np
import pandas as pd
import pytest

import calibrant.mlflow as flavour
from calibrant import (
    CalibratedClassifier,
    DirichletCalibration,
    IsotonicCalibration,
    NearestNeighbourCalibration,
    Predictions,
    TemperatureScaling,
)
from calibrant.errors import FileFormatError, MissingExtraError, ParameterError

GENERATOR = np.random.default_rng(0)
LOGITS = GENERATOR.normal(0, 2, (200, 3))
CODES = (LOGITS + GENERATOR.gumbel(size=LOGITS.shape)).argmax(axis=1)
WORDS = np.array(["ant", "bee", "cat"])
INDEX = [f"row {i}" for i in range(200)]
LOGIT_FRAME = pd.DataFrame(LOGITS, index=INDEX, columns=["z_ant", "z_bee", "z_cat"])
FRAME = pd.DataFrame(Predictions.from_logits(LOGITS).probabilities, index=INDEX, columns=WORDS)


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    # MLflow warns of its own type hints when this part of it is imported, which importorskip forgives.
    pytest.importorskip("mlflow.pyfunc", reason="mlflow is not installed; pip install 'calibrant[mlflow]'")
    return sys.modules["mlflow"]


def from_frame(calibrator):
    return calibrator.fit(FRAME, WORDS[CODES])


CASES = {
    "probabilities": (lambda: from_frame(TemperatureScaling()), FRAME, FRAME),
    "several arrays": (lambda: from_frame(DirichletCalibration(reg_lambda=0.01, reg_mu=0.01)), FRAME, FRAME),
    "one against the rest": (lambda: from_frame(IsotonicCalibration()), FRAME, FRAME),
    "no graph": (lambda: from_frame(NearestNeighbourCalibration(n_neighbours=20)), FRAME, FRAME),
    "logits": (
        lambda: TemperatureScaling().fit(Predictions.from_logits(LOGIT_FRAME), WORDS[CODES]),
        LOGIT_FRAME,
        Predictions.from_logits(LOGIT_FRAME),
    ),
    "columns without names": (
        lambda: TemperatureScaling().fit(FRAME.to_numpy(), CODES),
        pd.DataFrame(FRAME.to_numpy(), index=INDEX),
        FRAME.to_numpy(),
    ),
}


@pytest.mark.usefixtures("mlflow")
@pytest.mark.parametrize("case", CASES)
def test_a_saved_model_is_a_calibrator_and_a_function_of_frames(case, mlflow, tmp_path):
    make, frame, given = CASES[case]
    calibrator = make()
    expected = calibrator.predict_proba(given)
    flavour.save_model(calibrator, tmp_path / "model")
    loaded = flavour.load_model(str(tmp_path / "model"))
    assert type(loaded) is type(calibrator)
    np.testing.assert_array_equal(loaded.predict_proba(given), expected)
    calibrated = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(frame)
    assert isinstance(calibrated, pd.DataFrame)
    assert calibrated.columns.tolist() == [str(label) for label in calibrator.classes_]
    assert calibrated.index.tolist() == INDEX
    # MLflow may hand the columns over in another memory order.
    np.testing.assert_allclose(calibrated.to_numpy(), expected, rtol=1e-12)


def test_columns_are_found_by_their_names(mlflow, tmp_path):
    flavour.save_model(from_frame(TemperatureScaling()), tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert model.metadata.get_input_schema().input_names() == ["ant", "bee", "cat"]
    other = FRAME[["cat", "ant", "bee"]].assign(note="x")
    pd.testing.assert_frame_equal(model.predict(other), model.predict(FRAME))
    with pytest.raises(Exception, match=r"bee"):
        model.predict(FRAME[["ant", "cat"]])
    own = flavour._load_pyfunc(str(tmp_path / "model" / "calibrator.npz"))
    with pytest.raises(ValueError, match=r"column 'bee' is missing from the model input; pass the columns"):
        own.predict(FRAME[["ant", "cat"]])
    with pytest.raises(ParameterError, match=r"no parameters, but got \['level'\]"):
        own.predict(FRAME, {"level": 1})


def test_a_logged_model(mlflow):
    calibrator = from_frame(TemperatureScaling())
    with mlflow.start_run():
        logged = flavour.log_model(calibrator, "calibrator", metadata={"trained": "today"})
    loaded = flavour.load_model(logged.model_uri)
    np.testing.assert_array_equal(loaded.predict_proba(FRAME), calibrator.predict_proba(FRAME))
    model = mlflow.pyfunc.load_model(logged.model_uri)
    assert model.metadata.metadata == {"trained": "today"}
    assert model.metadata.flavors["calibrant"]["calibrator_class"] == "TemperatureScaling"
    assert model.predict(FRAME).shape == (200, 3)


@pytest.mark.usefixtures("mlflow")
def test_the_folder_holds_our_own_file_and_no_pickle(tmp_path):
    flavour.save_model(from_frame(TemperatureScaling()), tmp_path / "model", pip_requirements=["calibrant"])
    files = {path.name for path in (tmp_path / "model").iterdir()}
    assert files == {"MLmodel", "calibrator.npz", "conda.yaml", "requirements.txt"}
    assert (tmp_path / "model" / "requirements.txt").read_text() == "calibrant\n"
    with pytest.raises(FileFormatError, match=r"exists already; choose a folder that does not exist"):
        flavour.save_model(from_frame(TemperatureScaling()), tmp_path / "model")


def test_what_is_no_calibrator_is_refused(mlflow, tmp_path):
    with pytest.raises(ParameterError, match=r"must be a fitted Calibrator, not CalibratedClassifier"):
        flavour.save_model(CalibratedClassifier(None), tmp_path / "model")
    (tmp_path / "other").mkdir()
    model = mlflow.models.Model()
    model.add_flavor("other")
    model.save(str(tmp_path / "other" / "MLmodel"))
    with pytest.raises(FileFormatError, match=r"has no flavour 'calibrant', only \['other'\]"):
        flavour.load_model(str(tmp_path / "other"))


def test_without_mlflow_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"mlflow is required.*calibrant\[mlflow\]"):
        flavour.save_model(TemperatureScaling(), tmp_path / "model")
