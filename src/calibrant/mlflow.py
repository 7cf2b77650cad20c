"""MLflow flavour: save, log and load fitted calibrators as MLflow models, without pickle."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from calibrant.calibrator import Calibrator
from calibrant.errors import FileFormatError, MissingExtraError, ParameterError, PredictionError
from calibrant.origin import frame_of
from calibrant.persistence import load
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["FLAVOUR", "load_model", "log_model", "save_model"]

FLAVOUR = "calibrant"
"""Name of the flavour in the file ``MLmodel``."""

MODEL_FILE = "calibrator.npz"


def save_model(
    calibrator: Calibrator,
    path: str | os.PathLike[str],
    *,
    mlflow_model: Any = None,
    signature: Any = None,
    metadata: dict[str, Any] | None = None,
    pip_requirements: list[str] | None = None,
) -> None:
    """Save a fitted calibrator as an MLflow model with the flavours ``calibrant`` and ``python_function``.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted. For a :class:`~calibrant.CalibratedClassifier`, log its estimator and its calibrator as two models.
    path : path-like
        A folder that does not exist yet.
    mlflow_model : mlflow.models.Model, optional
        The model to which the flavours are added; :func:`log_model` passes it.
    signature : mlflow.models.ModelSignature, optional
        By default one double column per class if the calibrator was fitted on named columns, else none.
    metadata : dict, optional
        Stored with the model.
    pip_requirements : list of str, optional
        By default calibrant itself, of this version.

    Notes
    -----
    The folder contains ``calibrator.npz``, the file of :meth:`~calibrant.Calibrator.save`. No pickle is involved.
    """
    mlflow = _mlflow()
    if not isinstance(calibrator, Calibrator):
        raise ParameterError(
            f"calibrator must be a fitted Calibrator, not {type(calibrator).__name__}; save a CalibratedClassifier by its "
            "method save."
        )
    folder = Path(path)
    if folder.exists() and any(folder.iterdir()):
        raise FileFormatError(f"{folder} exists already; choose a folder that does not exist yet.")
    folder.mkdir(parents=True, exist_ok=True)
    calibrator.save(folder / MODEL_FILE)
    model = mlflow.models.Model() if mlflow_model is None else mlflow_model
    model.signature = _signature(calibrator) if signature is None else signature
    if metadata is not None:
        model.metadata = metadata
    requirements = pip_requirements or [f"calibrant[mlflow]=={calibrant.__version__}"]
    (folder / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    environment = {"name": "mlflow-env", "dependencies": ["pip", {"pip": requirements}]}
    mlflow.utils.yaml_utils.write_yaml(str(folder), "conda.yaml", environment)
    mlflow.pyfunc.add_to_model(
        model, loader_module="calibrant.mlflow", data=MODEL_FILE, conda_env="conda.yaml"
    )
    model.add_flavor(
        FLAVOUR,
        calibrant_version=calibrant.__version__,
        data=MODEL_FILE,
        calibrator_class=type(calibrator).__name__,
        space=calibrator.space_,
    )
    model.save(str(folder / "MLmodel"))


def log_model(calibrator: Calibrator, name: str = "calibrator", **options: Any) -> Any:
    """Log a fitted calibrator as a model of the active MLflow run.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted.
    name : str, default="calibrator"
        Name of the model.
    **options
        Options of :func:`save_model`, and of ``mlflow.models.Model.log``, such as ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Pass its ``model_uri`` to :func:`load_model` or ``mlflow.pyfunc.load_model``.
    """
    flavour = sys.modules[__name__]
    log = _mlflow().models.Model.log
    return log(artifact_path=None, name=name, flavor=flavour, calibrator=calibrator, **options)


def load_model(model_uri: str, dst_path: str | None = None) -> Calibrator:
    """Load the fitted calibrator of an MLflow model.

    Parameters
    ----------
    model_uri : str
        A local folder, or an address such as ``models:/name/1`` or ``runs:/<id>/calibrator``.
    dst_path : str, optional
        Folder for downloads.
    """
    mlflow = _mlflow()
    folder = mlflow.artifacts.download_artifacts(artifact_uri=str(model_uri), dst_path=dst_path)
    flavours = mlflow.models.Model.load(folder).flavors
    if FLAVOUR not in flavours:
        raise FileFormatError(
            f"{model_uri} has no flavour {FLAVOUR!r}, only {sorted(flavours)}; load it with one of those."
        )
    return load(Path(folder, MODEL_FILE))


def _load_pyfunc(path: str) -> "_FrameModel":
    """Return the model that ``mlflow.pyfunc.load_model`` wraps."""
    return _FrameModel(load(path))


class _FrameModel:
    """Python function of MLflow: a data frame of scores to a data frame of probabilities."""

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator = calibrator

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return calibrated probabilities as a pandas frame, one column per class, with the index of the input."""
        if params:
            raise ParameterError(
                f"this model has no parameters, but got {sorted(params)}; call predict without params."
            )
        names = _column_names(self.calibrator)
        if names is not None and hasattr(model_input, "columns") and len(model_input.columns) > 1:
            missing = [name for name in names if name not in model_input.columns]
            if missing:
                raise PredictionError(
                    f"column {missing[0]!r} is missing from the model input; pass the columns {names}."
                )
            model_input = model_input[names]
        parse = (
            Predictions.from_logits
            if self.calibrator.space_ == Space.LOGITS
            else Predictions.from_probabilities
        )
        rows = np.asarray(self.calibrator.predict_proba(parse(model_input)))
        columns = [str(label) for label in self.calibrator.classes_.tolist()]
        return frame_of(rows, columns, "pandas", getattr(model_input, "index", None))


def _column_names(calibrator: Calibrator) -> list[str] | None:
    """Return the names of the columns in the fit, if they were strings; a single column has no name."""
    for names in (calibrator.column_names_, calibrator.classes_):
        if names is not None and names.dtype.kind == "U":
            return [str(name) for name in names]
    return None


def _signature(calibrator: Calibrator) -> Any:
    names = _column_names(calibrator)
    if names is None:
        return None
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    classes = [str(label) for label in calibrator.classes_.tolist()]
    return ModelSignature(
        inputs=Schema([ColSpec("double", name) for name in names]),
        outputs=Schema([ColSpec("double", name) for name in classes]),
    )


def _mlflow() -> Any:
    try:
        import mlflow
        import mlflow.models
        import mlflow.pyfunc
        import mlflow.utils.yaml_utils
    except ModuleNotFoundError as error:
        raise MissingExtraError("mlflow", "mlflow") from error
    return mlflow
