"""The tasks of ``structured_and_auto.py``: classifier outputs cut into calibration and test rows.

Two kinds of *sets*, read from the folder named by ``CALIBRANT_DATA`` (see ``baselines.py``):

- files of predictions with at least 1,000 rows: one task for each of five seeded permutations, of which the first half
  calibrates and the second tests. Where a file has validation and test rows they are put together, but of
  ``mnist_metacal`` only the test rows count (the others are images the network was trained on), and of ``labelshift_demo``
  only the validation rows (the others come from a different distribution). Files that hold confidences alone become problems of
  two classes: is the prediction right?
- tables of features (``uci``, and two that scikit-learn brings along): six classifiers of scikit-learn with near-default
  settings, trained on half of the rows, calibrated on a quarter and tested on the last quarter, stratified, for two
  seeds. Classifiers are trained once; their probabilities stay in the cache folder.

A calibration part has at most 5,000 rows and a test part at most 25,000. A task may have a given number of calibration rows
instead, a sample of these, and its labels may be redrawn from the predictions, which are then calibrated. Sets are numbered
by name over both kinds, starting at one: odd ones are for choices, even ones for reports. In a script::

    from structured_and_auto_tasks import tasks

    for task in tasks("odd"):
        fitted = calibrator.fit(task.calibration, task.calibration_labels)
        fitted.transform(task.test), task.test_labels, task.name, task.set, task.kind, task.seed
"""

import os
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache as remembered
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from baselines import FOLDER
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from calibrant import Predictions

DEFAULT_CACHE = Path(tempfile.gettempdir()) / "calibrant_structured_and_auto"

NETWORKS, TOP_LABEL, FEATURES = "networks", "top-label", "uci"
KINDS = (NETWORKS, TOP_LABEL, FEATURES)

NETWORK_FOLDERS = (
    "cifar_netcal",
    "cifar_other",
    "cifar_pytorch_models",
    "cifar_widmann",
    "imagenet_k1000",
    "kull_nn",
    "mnist_like",
    "other",
)
PARTS = {"mnist_like/mnist_metacal": ("test_",), "other/labelshift_demo": ("val_",)}
LEAST_ROWS = 1000
HALVES = 5

# The digits that scikit-learn brings along are rows of uci/optdigits.
BUNDLED = {"sklearn/breast_cancer": load_breast_cancer, "sklearn/wine": load_wine}
SPLITS = 2

MOST_CALIBRATION_ROWS = 5_000
MOST_TEST_ROWS = 25_000
FEW_CALIBRATION_ROWS = 200


def classifiers(seed: int) -> dict[str, ClassifierMixin]:
    """Return the six classifiers by name."""
    return {
        "boosting": HistGradientBoostingClassifier(early_stopping=False, random_state=seed),
        "discriminant": make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()),
        "forest": RandomForestClassifier(random_state=seed),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "naive-bayes": GaussianNB(),
        "network": make_pipeline(StandardScaler(), MLPClassifier(random_state=seed)),
    }


@dataclass(frozen=True)
class Task:
    """Calibration and test rows, ready to use."""

    name: str
    set: str
    kind: str
    seed: int
    calibration: Predictions
    calibration_labels: NDArray[np.intp]
    test: Predictions
    test_labels: NDArray[np.intp]

    @property
    def has_few_rows(self) -> bool:
        return self.calibration.n_rows < FEW_CALIBRATION_ROWS


@dataclass(frozen=True)
class TaskKey:
    """What a task is called, before anything is read."""

    set: str
    seed: int
    classifier: str = ""
    rows: int | None = None
    redrawn: bool = False

    @property
    def name(self) -> str:
        return ":".join(
            [self.full_name, *([str(self.rows)] if self.rows else []), *["redrawn"] * self.redrawn]
        )

    @property
    def full_name(self) -> str:
        """Name of the task with all rows and the labels as observed."""
        return ":".join([self.set, *([self.classifier] if self.classifier else []), str(self.seed)])

    @property
    def kind(self) -> str:
        if self.classifier:
            return FEATURES
        return TOP_LABEL if self.set.startswith("toplabel/") else NETWORKS

    def load(self, cache: Path = DEFAULT_CACHE) -> Task:
        """Read the task, training the classifiers of its set if the cache does not have them yet."""
        halves = _outputs_of_classifier(self, cache) if self.classifier else _halves(self)
        return _changed(Task(self.name, self.set, self.kind, self.seed, *halves), self.rows, self.redrawn)


def _changed(task: Task, n_rows: int | None, redrawn: bool) -> Task:
    """Return the task with a sample of its calibration rows, and with labels drawn from its predictions."""
    generator = np.random.default_rng([task.seed, n_rows or 0])
    if n_rows is not None:
        rows = np.sort(generator.permutation(task.calibration.n_rows)[:n_rows])
        task = replace(
            task, calibration=task.calibration.take(rows), calibration_labels=task.calibration_labels[rows]
        )
    if not redrawn:
        return task

    def drawn(predictions: Predictions) -> NDArray[np.intp]:
        ends = predictions.probabilities.cumsum(axis=1)
        drawn_below = generator.random((len(ends), 1)) * ends[:, -1:] > ends
        return np.minimum(drawn_below.sum(axis=1), predictions.n_classes - 1)

    return replace(task, calibration_labels=drawn(task.calibration), test_labels=drawn(task.test))


@remembered
def set_names() -> list[str]:
    """Return the names of all sets in order."""
    files = [
        f"{folder}/{path.stem}"
        for folder in (*NETWORK_FOLDERS, "toplabel")
        for path in (FOLDER / folder).glob("*.npz")
    ]
    enough = [name for name in files if len(_rows(name)[1]) >= LEAST_ROWS]
    tables = [f"uci/{path.stem}" for path in (FOLDER / "uci").glob("*.npz")]
    return sorted([*enough, *tables, *BUNDLED])


def task_keys(which: str = "all", kinds: tuple[str, ...] = KINDS) -> list[TaskKey]:
    """Return the tasks of the odd-numbered, the even-numbered or all sets, the first seed of every set first."""
    start, step = {"odd": (0, 2), "even": (1, 2), "all": (0, 1)}[which]
    found = []
    for name in set_names()[start::step]:
        if name.startswith(("uci/", "sklearn/")):
            found += [TaskKey(name, seed, method) for seed in range(SPLITS) for method in classifiers(0)]
        else:
            found += [TaskKey(name, seed) for seed in range(HALVES)]
    return sorted((key for key in found if key.kind in kinds), key=lambda key: (key.seed, key.name))


def tasks(
    which: str = "all", cache: Path | str = DEFAULT_CACHE, kinds: tuple[str, ...] = KINDS
) -> Iterator[Task]:
    """Yield the tasks of the odd-numbered, the even-numbered or all sets."""
    for key in task_keys(which, kinds):
        yield key.load(Path(cache))


@lru_cache(maxsize=2)
def _rows(name: str) -> tuple[Predictions, NDArray[np.intp]]:
    """Return all rows of a file of predictions."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as arrays:
        if "confidence" in arrays.files:
            confidence = arrays["confidence"].astype(np.float64)
            right = arrays["correct"] if "correct" in arrays.files else arrays["pred"] == arrays["y"]
            return Predictions.from_probabilities(
                np.column_stack([1 - confidence, confidence])
            ), right.astype(np.intp)
        parts = PARTS.get(name, ("val_", "test_") if "val_y" in arrays.files else ("",))
        kind = "logits" if f"{parts[0]}logits" in arrays.files else "probs"
        scores = np.concatenate([arrays[f"{part}{kind}"] for part in parts]).astype(np.float64)
        labels = np.concatenate([arrays[f"{part}y"] for part in parts]).astype(np.intp)
    given = Predictions.from_logits if kind == "logits" else Predictions.from_probabilities
    return given(scores), labels


def _halves(key: TaskKey) -> tuple[Predictions, NDArray[np.intp], Predictions, NDArray[np.intp]]:
    predictions, labels = _rows(key.set)
    order = np.random.default_rng([key.seed]).permutation(len(labels))
    first = order[: len(order) // 2][:MOST_CALIBRATION_ROWS]
    second = order[len(order) // 2 :][:MOST_TEST_ROWS]
    return predictions.take(first), labels[first], predictions.take(second), labels[second]


def _features(name: str) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    if name in BUNDLED:
        return BUNDLED[name](return_X_y=True)
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as arrays:
        return arrays["X"], arrays["y"].astype(np.intp)


def _outputs_of_classifier(
    key: TaskKey, cache: Path
) -> tuple[Predictions, NDArray[np.intp], Predictions, NDArray[np.intp]]:
    with np.load(trained(key.set, key.seed, cache), allow_pickle=False) as arrays:
        return (
            Predictions.from_probabilities(arrays[f"{key.classifier}_calibration"]),
            arrays["calibration_labels"],
            Predictions.from_probabilities(arrays[f"{key.classifier}_test"]),
            arrays["test_labels"],
        )


def trained(name: str, seed: int, cache: Path) -> Path:
    """Return the file with the outputs of all classifiers for one split, which is written if it is not there."""
    path = cache / "classifiers" / f"{name.replace('/', '-')}-{seed}.npz"
    if path.exists():
        return path
    X, y = _features(name)
    training, rest = train_test_split(np.arange(len(y)), test_size=0.5, random_state=seed, stratify=y)
    calibration, test = train_test_split(rest, test_size=0.5, random_state=seed, stratify=y[rest])
    calibration, test = calibration[:MOST_CALIBRATION_ROWS], test[:MOST_TEST_ROWS]
    arrays: dict[str, Any] = {"calibration_labels": y[calibration], "test_labels": y[test]}
    for method, classifier in classifiers(seed).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # networks that stop at their default number of epochs
            classifier.fit(X[training], y[training])
        if not np.array_equal(classifier.classes_, np.unique(y)):
            raise ValueError(f"{method} was trained on some of the classes of {name} only, seed {seed}.")
        arrays[f"{method}_calibration"] = classifier.predict_proba(X[calibration])
        arrays[f"{method}_test"] = classifier.predict_proba(X[test])
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    with unfinished.open("wb") as file:
        np.savez_compressed(file, **arrays)
    unfinished.replace(path)
    return path
