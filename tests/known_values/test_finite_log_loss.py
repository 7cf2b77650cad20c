"""Every method, as the registry makes it, has a finite log-loss on fresh rows of every real data set."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from calibrant import Predictions, registry
from calibrant.errors import CalibrationWarning
from calibrant.metrics import log_loss
from data import DATA_FOLDER, load

# Without a penalty, parameters of a class of few rows can run away, which a warning says.
WITHOUT_PENALTY = {"matrix", "dirichlet", "vector"}
# These choose the strength of a penalty by folds: minutes at a hundred classes.
SEARCHING = {name for name in registry.calibrators() if name.startswith(("matrix-", "dirichlet-"))}
METHODS = [
    name
    for name in registry.calibrators()
    if name not in WITHOUT_PENALTY | SEARCHING | {"uncalibrated"}  # a forest alone may well say zero
]

# One of each kind in every run of the tests, all others in the slow suite.
QUICK = {
    "toplabel/kull_resnet50_birds",
    "uci/cleveland",
    "uci/glass",
    "uci/yeast",
}
# One row of each class or fewer: nothing to split.
TOO_FEW = {"imagenet_k1000/imagenet_samples_efficientnet_lite0"}


def found() -> list[str]:
    if not DATA_FOLDER.is_dir():
        return []
    paths = (path for path in sorted(DATA_FOLDER.rglob("*.npz")) if "reference_scores" not in path.parts)
    names = [str(Path(path).relative_to(DATA_FOLDER).with_suffix("")) for path in paths]
    return [name for name in names if name not in TOO_FEW]


SETS = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in found() or sorted(QUICK)
]


def halved(predictions: Predictions, labels: np.ndarray):
    """Return calibration rows and test rows, classes of fewer than two rows left out."""
    kept = np.flatnonzero(np.bincount(labels, minlength=predictions.n_classes)[labels] >= 2)
    first, second = train_test_split(kept, test_size=0.5, stratify=labels[kept], random_state=0)
    return predictions.take(first), labels[first], predictions.take(second), labels[second]


def classified(features: np.ndarray, labels: np.ndarray):
    """Return the outputs of two classifiers that often say exactly zero and one.

    About six thousand rows will do; of these each class that is left has two for training and two for :func:`halved`.
    """
    rows = np.arange(len(labels))[:: max(1, len(labels) // 6000)]
    rows = rows[np.bincount(labels[rows])[labels[rows]] >= 4]
    features, labels = features[rows], np.unique(labels[rows], return_inverse=True)[1]
    train, rest = train_test_split(np.arange(len(rows)), train_size=0.5, stratify=labels, random_state=0)
    for classifier in (RandomForestClassifier(20, random_state=0), GaussianNB()):
        classifier.fit(features[train], labels[train])
        with np.errstate(all="ignore"):
            p = classifier.predict_proba(features[rest])
        yield halved(
            Predictions.from_probabilities(np.where(np.isfinite(p), p, 1 / p.shape[1])), labels[rest]
        )


def problems(name: str):
    arrays = load(name)
    if "confidence" in arrays:
        right = arrays["correct"] if "correct" in arrays else arrays["pred"] == arrays["y"]
        yield halved(
            Predictions.from_probabilities(arrays["confidence"].ravel()), right.astype(np.intp).ravel()
        )
    elif "val_y" in arrays:
        kind = "logits" if "val_logits" in arrays else "probs"
        given = Predictions.from_logits if kind == "logits" else Predictions.from_probabilities
        yield (
            given(arrays[f"val_{kind}"]),
            arrays["val_y"],
            given(arrays[f"test_{kind}"]),
            arrays["test_y"],
        )
    elif "logits" in arrays or "test_logits" in arrays:
        part = "" if "logits" in arrays else "test_"
        logits, labels = arrays[f"{part}logits"], arrays[f"{part}y"]
        if "present_classes" in arrays:
            logits, labels = (
                logits[:, arrays["present_classes"]],
                np.searchsorted(arrays["present_classes"], labels),
            )
        yield halved(Predictions.from_logits(logits), labels)
    elif "probs" in arrays:
        yield halved(Predictions.from_probabilities(arrays["probs"]), arrays["y"])
    else:
        part = "" if "X" in arrays else "_train"
        yield from classified(arrays[f"X{part}"].astype(np.float64), arrays[f"y{part}"])


@pytest.mark.parametrize("name", SETS)
def test_log_loss_is_finite_on_fresh_rows(name):
    """Rows of a class that has none for calibration are left out: they keep what the classifier says, be it zero."""
    for calibration, calibration_labels, test, test_labels in problems(name):
        known = np.isin(test_labels, calibration_labels)
        fresh, fresh_labels = test.take(known), test_labels[known]
        infinite = []
        for method in METHODS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrationWarning)
                calibrator = registry.make(method).fit(calibration, calibration_labels)
            if not np.isfinite(log_loss(fresh_labels, calibrator.predict_proba(fresh))):
                infinite.append(method)
        assert not infinite
