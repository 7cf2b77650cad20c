"""Calibration methods of several libraries on one network: log-loss, calibration error and processor time of the fit.

Fits the methods of calibrant, scikit-learn, netcal, probmetrics, MAPIE and torch-uncertainty to the same 5,000 calibration
rows of a published network (``kull_nn/NETWORK.npz`` of the data folder) in the same run, and evaluates them on its 10,000
test rows. Libraries that are not installed are left out. A second table has one row per library, with its method of the
lowest log-loss. Usage::

    CALIBRANT_DATA=folder python benchmarks/libraries.py [--network c10_resnet110] [--threads 1]
"""

import argparse
import contextlib
import io
import os
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--network", default="c10_resnet110")
parser.add_argument("--threads", type=int, default=1)
ARGUMENTS = parser.parse_args()
# Before numpy is imported: the libraries read these once.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CALIBRANT_NUM_THREADS"):
    os.environ[variable] = str(ARGUMENTS.threads)

import numpy as np  # noqa: E402
from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: E402
from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.frozen import FrozenEstimator  # noqa: E402

from calibrant import Predictions, __version__, registry  # noqa: E402
from calibrant.metrics import classwise_ece, confidence_ece, log_loss  # noqa: E402
from calibrant.numerics.simplex import softmax  # noqa: E402

# Fitted on calibration logits and labels, a method returns the probabilities of test logits.
Method = Callable[[Any, Any], Callable[[Any], Any]]
LIBRARIES = {
    "calibrant": "all kinds of methods; tests, intervals, reports, exports, label shift, streams",
    "scikit-learn": "sigmoid, isotonic, temperature; calibration curves",
    "netcal": "scaling, binning, Bayesian fits; detection and regression",
    "probmetrics": "scaling of logits, wrappers of other libraries; metrics",
    "mapie": "top-label and Venn-Abers; conformal prediction",
    "torch-uncertainty": "scaling and binning in PyTorch; conformal prediction, ensembles",
}


class Row(NamedTuple):
    """The result of one method."""

    library: str
    method: str
    log_loss: float
    ece: float
    classwise: float
    seconds: float


class Scores(ClassifierMixin, BaseEstimator):
    """A trained classifier whose features are its own logits."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, X: Any, y: Any) -> "Scores":  # noqa: ARG002
        """Return self; there is nothing to train."""
        return self

    def decision_function(self, X: Any) -> Any:
        """Return the logits."""
        return X

    def predict(self, X: Any) -> Any:
        """Return the class of the largest logit."""
        return X.argmax(axis=1)


class Probabilities(Scores):
    """A trained classifier with probabilities only."""

    decision_function = None  # type: ignore[assignment]

    def predict_proba(self, X: Any) -> Any:
        """Return the softmax of the logits."""
        return softmax(X)


def of_calibrant(name: str) -> Method:
    """Return a method of the registry, fitted to logits."""

    def fit(logits: Any, labels: Any) -> Callable[[Any], Any]:
        fitted = registry.make(name).fit(Predictions.from_logits(logits), labels)
        return lambda given: fitted.predict_proba(Predictions.from_logits(given))

    return fit


def of_scikit_learn(method: str) -> Method:
    """Return ``CalibratedClassifierCV`` around a frozen classifier."""

    def fit(logits: Any, labels: Any) -> Callable[[Any], Any]:
        frozen = FrozenEstimator(Scores(logits.shape[1]))
        return CalibratedClassifierCV(frozen, method=method).fit(logits, labels).predict_proba

    return fit


def of_netcal(folder: str, name: str, **options: Any) -> Method:
    """Return a method of netcal, fitted to probabilities."""

    def fit(logits: Any, labels: Any) -> Callable[[Any], Any]:
        from importlib import import_module

        fitted = getattr(import_module(f"netcal.{folder}"), name)(**options)
        # From probabilities in float32 its scaling methods return the identity.
        fitted.fit(softmax(logits.astype(np.float64)), labels)
        return lambda given: fitted.transform(softmax(given.astype(np.float64)))

    return fit


def of_probmetrics(name: str) -> Method:
    """Return a method of probmetrics, fitted to probabilities."""

    def fit(logits: Any, labels: Any) -> Callable[[Any], Any]:
        from probmetrics.calibrators import get_calibrator

        fitted = get_calibrator(name).fit(softmax(logits), labels)
        return lambda given: fitted.predict_proba(softmax(given))

    return fit


def of_mapie(calibrator: str) -> Method:
    """Return the top-label calibrator of MAPIE around a trained classifier."""

    def fit(logits: Any, labels: Any) -> Callable[[Any], Any]:
        from mapie.calibration import TopLabelCalibrator

        trained = Probabilities(logits.shape[1])
        fitted = TopLabelCalibrator(trained, calibrator=calibrator, cv="prefit").fit(logits, labels)
        return fitted.predict_proba

    return fit


def of_torch_uncertainty(name: str, **options: Any) -> Method:
    """Return a scaler of torch-uncertainty behind the identity."""

    def fit(logits: Any, labels: Any) -> Callable[[Any], Any]:
        import torch
        import torch_uncertainty.post_processing as scalers

        rows = torch.utils.data.TensorDataset(torch.as_tensor(logits), torch.as_tensor(labels))
        scaler = getattr(scalers, name)(model=torch.nn.Identity(), **options)
        scaler.fit(torch.utils.data.DataLoader(rows, batch_size=1000), progress=False)

        def predict_proba(given: Any) -> Any:
            with torch.no_grad():
                return scaler(torch.as_tensor(given)).softmax(dim=1).numpy()

        return predict_proba

    return fit


def methods(n_classes: int) -> Iterator[tuple[str, str, Method]]:
    """Yield library, method and its fit."""
    for name in ("temperature", "shared-vector", "shared-matrix", "dirichlet-odir", "isotonic", "auto"):
        yield "calibrant", name, of_calibrant(name)
    for method in ("temperature", "sigmoid", "isotonic"):
        yield "scikit-learn", method, of_scikit_learn(method)
    yield "netcal", "TemperatureScaling", of_netcal("scaling", "TemperatureScaling")
    yield "netcal", "LogisticCalibration", of_netcal("scaling", "LogisticCalibration")
    yield "netcal", "BetaCalibration", of_netcal("scaling", "BetaCalibration")
    yield "netcal", "HistogramBinning", of_netcal("binning", "HistogramBinning", bins=15)
    for name in ("ts-mix", "svs", "sms"):
        yield "probmetrics", name, of_probmetrics(name)
    for calibrator in ("sigmoid", "isotonic"):
        yield "mapie", f"TopLabelCalibrator, {calibrator}", of_mapie(calibrator)
    yield "torch-uncertainty", "TemperatureScaler", of_torch_uncertainty("TemperatureScaler")
    for name in ("VectorScaler", "MatrixScaler", "DirichletScaler"):
        yield "torch-uncertainty", name, of_torch_uncertainty(name, num_classes=n_classes)


def measured(library: str, method: str, fit: Method, data: dict[str, Any]) -> Row:
    """Fit a method and evaluate it."""
    fit(data["val_logits"][:500], data["val_y"][:500])  # imports and compiles
    start = time.process_time()
    predict_proba = fit(data["val_logits"], data["val_y"])
    seconds = time.process_time() - start
    p, labels = np.asarray(predict_proba(data["test_logits"]), dtype=np.float64), data["test_y"]
    if library == "mapie":  # the probability of the predicted class; the others are NaN
        confidence = np.nanmax(p, axis=1)
        right = (np.nanargmax(p, axis=1) == labels).astype(int)
        return Row(library, method, np.nan, classwise_ece(right, confidence), np.nan, seconds)
    p /= p.sum(axis=1, keepdims=True)
    return Row(
        library, method, log_loss(labels, p), confidence_ece(labels, p), classwise_ece(labels, p), seconds
    )


def main() -> None:
    path = Path(os.environ.get("CALIBRANT_DATA", "data"), "kull_nn", f"{ARGUMENTS.network}.npz")
    with np.load(path) as file:
        data = {name: file[name] for name in file.files}
    n_classes = data["val_logits"].shape[1]
    rows = [measured("", "uncalibrated", of_calibrant("uncalibrated"), data)]
    for library, name, fit in methods(n_classes):
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(ImportError):
                rows.append(measured(library, name, fit, data))
    sizes = f"{len(data['val_y']):,} calibration and {len(data['test_y']):,} test rows, {n_classes} classes"
    print(f"{ARGUMENTS.network}: {sizes}, {ARGUMENTS.threads} thread(s); {versions()}\n")
    print("| library | method | log-loss | ECE | classwise ECE | fit, CPU seconds |")
    print("|---|---|---:|---:|---:|---:|")
    for row in rows:
        numbers = " | ".join(map(shown, (row.log_loss, row.ece, row.classwise)))
        print(f"| {row.library} | {row.method} | {numbers} | {row.seconds:.3f} |")
    print()
    print_summary(rows)


def print_summary(rows: list[Row]) -> None:
    """Print the method of the lowest log-loss for every library."""
    print("| library | what it has | best method here | log-loss | ECE | fit, CPU |")
    print("|---|---|---|---:|---:|---:|")
    for library in dict.fromkeys(row.library for row in rows):
        best = min((row for row in rows if row.library == library), key=lambda row: (row.log_loss, row.ece))
        start = f"| {library} | {LIBRARIES.get(library, '')} | {best.method}"
        print(f"{start} | {shown(best.log_loss)} | {shown(best.ece)} | {best.seconds:.2f} s |")


def shown(value: float) -> str:
    """Return four decimals, or a dash for a value that does not exist."""
    return "–" if np.isnan(value) else f"{value:.4f}"


def versions() -> str:
    """Return the installed libraries with their versions."""
    found = []
    for library in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{library} {__version__ if library == 'calibrant' else version(library)}")
    return ", ".join(found)


if __name__ == "__main__":
    main()
