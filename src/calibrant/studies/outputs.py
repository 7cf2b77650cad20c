"""Base outputs: the uncalibrated predictions of classifiers on calibration and test sets, and their cache."""

import hashlib
import json
import struct
import time
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import IntArray
from calibrant.errors import StoreError, StudyDataError
from calibrant.persistence.replacing import replacing
from calibrant.predictions import Predictions
from calibrant.space import Space
from calibrant.studies.classifiers import scores_of, trained
from calibrant.studies.data import Rows, StudyData, Truth
from calibrant.studies.own_code import code_fingerprint
from calibrant.studies.sources import fingerprint, load
from calibrant.studies.specifications import CalibratorSpec, ClassifierSpec, DataSpec, SplitSpec
from calibrant.studies.splits import Split, divided_rows, outer_fold, split_seed
from calibrant.synthetic.task import SyntheticTask

__all__ = [
    "BaseOutputs",
    "OutputsCache",
    "OutputsRequest",
    "Part",
    "averaged",
    "base_outputs",
    "needs_training",
    "outputs_key",
    "training_key",
]


@dataclass(frozen=True, eq=False)
class Part:
    """Predictions of one classifier.

    Attributes
    ----------
    calibration : Predictions
        Predictions for the calibration set.
    calibration_labels : ndarray of shape (n,)
        True classes of the calibration set, as column numbers.
    test : Predictions
        Predictions for the test set.
    training : Predictions or None
        Predictions for the training set of the classifier, if requested.
    training_labels : ndarray of shape (m,) or None
    """

    calibration: Predictions
    calibration_labels: IntArray
    test: Predictions
    training: Predictions | None = None
    training_labels: IntArray | None = None


@dataclass(frozen=True, eq=False)
class BaseOutputs:
    """Predictions of the classifiers of a split.

    Attributes
    ----------
    parts : tuple of Part
        One per inner fold if calibrated probabilities are averaged over inner folds; otherwise one.
    test_labels : ndarray of shape (n,)
        True classes of the test set, which all parts share.
    n_classes : int
    truth : ndarray of shape (n, K), SyntheticTask or None
        True probabilities of the test set, or the task that defines them.
    train_seconds : float
        Wall-clock time of training and prediction.
    """

    parts: tuple[Part, ...]
    test_labels: IntArray
    n_classes: int
    truth: Truth | None = None
    train_seconds: float = 0.0

    def uncalibrated(self) -> Predictions:
        """Return the uncalibrated predictions for the test set, averaged over parts."""
        return averaged([part.test for part in self.parts])


def averaged(predictions: list[Predictions]) -> Predictions:
    """Return the mean of several predictions for the same rows, in float64; a single one is returned unchanged.

    >>> one, other = Predictions.parse([[0.2, 0.8]]), Predictions.parse([[0.4, 0.6]])
    >>> averaged([one, other]).probabilities.round(2)
    array([[0.3, 0.7]])
    >>> averaged([one]) is one
    True
    """
    if len(predictions) == 1:
        return predictions[0]
    total = np.zeros(predictions[0].scores.shape)
    for each in predictions:
        total += each.probabilities
    return Predictions(total / len(predictions), Space.PROBABILITIES)


FORMAT = 1

# Exceptions of numpy and zipfile for truncated or damaged files.
DAMAGE = (
    *(OSError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, ValueError, KeyError, IndexError),
    *(TypeError, AttributeError, OverflowError, NotImplementedError, RuntimeError, SyntaxError),
)


class OutputsCache:
    """A folder with one file of base outputs per key, which several processes can use at once.

    Parameters
    ----------
    folder : Path
        Created at the first write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def path(self, key: str) -> Path:
        """Return the path of the outputs of a key, whether they exist or not."""
        return self.folder / f"{key}.npz"

    def has(self, key: str) -> bool:
        """Return whether there is a file for a key, without reading it."""
        return self.path(key).is_file()

    def get(self, key: str) -> BaseOutputs | None:
        """Return the outputs of a key; None if the file does not exist or is damaged."""
        try:
            # Opened here, because numpy does not close damaged files.
            with self.path(key).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                return _decoded({name: file[name] for name in file.files})
        except DAMAGE:
            return None

    def put(self, key: str, outputs: BaseOutputs) -> None:
        """Write outputs atomically; outputs of a synthetic task are not cached."""
        if isinstance(outputs.truth, SyntheticTask):
            return
        content = BytesIO()
        np.savez(content, **_encoded(outputs))  # type: ignore[arg-type]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self.path(key)) as stream:
                stream.write(content.getbuffer())
        except OSError as error:
            raise StoreError(
                f"outputs cannot be written to {self.folder}: {error.strerror}; free some space or choose another folder."
            ) from error


def _encoded(outputs: BaseOutputs) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {"test_labels": outputs.test_labels}
    spaces: list[dict[str, str]] = []
    for number, part in enumerate(outputs.parts):
        spaces.append({})
        for name in ("calibration", "test", "training"):
            predictions = getattr(part, name)
            if predictions is not None:
                arrays[f"{number}_{name}"] = predictions.scores
                spaces[-1][name] = str(predictions.space)
        arrays[f"{number}_calibration_labels"] = part.calibration_labels
        if part.training_labels is not None:
            arrays[f"{number}_training_labels"] = part.training_labels
    if outputs.truth is not None:
        assert isinstance(outputs.truth, np.ndarray)
        arrays["truth"] = outputs.truth
    facts = {
        "format": FORMAT,
        "spaces": spaces,
        "n_classes": outputs.n_classes,
        "train_seconds": outputs.train_seconds,
    }
    return {"facts": np.array(json.dumps(facts)), **arrays}


def _decoded(arrays: dict[str, NDArray[Any]]) -> BaseOutputs:
    facts = json.loads(str(arrays["facts"]))
    if facts["format"] != FORMAT:
        raise ValueError("another format")
    parts = []
    for number, spaces in enumerate(facts["spaces"]):
        scores = {
            name: Predictions(arrays[f"{number}_{name}"], Space(space)) for name, space in spaces.items()
        }
        parts.append(
            Part(
                scores["calibration"],
                arrays[f"{number}_calibration_labels"],
                scores["test"],
                scores.get("training"),
                arrays.get(f"{number}_training_labels"),
            )
        )
    return BaseOutputs(
        tuple(parts), arrays["test_labels"], facts["n_classes"], arrays.get("truth"), facts["train_seconds"]
    )


# Part of every key; a new number invalidates all cached outputs.
VERSION = 1


@dataclass(frozen=True)
class OutputsRequest:
    """Everything that determines base outputs.

    Attributes
    ----------
    data : DataSpec
    classifier : ClassifierSpec or None
        None for data that already holds predictions.
    splits : SplitSpec
    split : Split
    seed : int
        Seed of the recipe.
    data_folder : Path or None
    recipe_folder : Path
    keep_training : bool
        Whether predictions for the training set of the classifier are kept too.
    """

    data: DataSpec
    classifier: ClassifierSpec | None
    splits: SplitSpec
    split: Split
    seed: int
    data_folder: Path | None
    recipe_folder: Path
    keep_training: bool = False

    @property
    def data_seed(self) -> int:
        """Seed of a generator; it differs between repeats if the generator makes the split itself."""
        return split_seed(self.seed, replace(self.split, fold=0)) if self.split.kind == "given" else self.seed

    def loaded(self) -> StudyData:
        """Load the data set."""
        return load(self.data, self.data_folder, self.recipe_folder, self.data_seed)


def needs_training(spec: CalibratorSpec) -> bool:
    """Return whether parameters are selected on the training set of the classifier."""
    return bool(spec.grid) and spec.select == "training"


def outputs_key(request: OutputsRequest) -> str:
    """Return a hash of everything that the outputs depend on: contents of files, code, options, rows and seed.

    It depends neither on the number of repeats nor on whether predictions for the training set are kept.
    """
    classifier, split = request.classifier, request.split
    content: dict[str, Any] = {
        "version": VERSION,
        "data": fingerprint(request.data, request.data_folder, request.recipe_folder),
        "splits": _what_matters(request.splits),
        "split": [split.kind, split.repeat, split.fold, split.calibration_rows],
        "seed": request.seed,
    }
    if classifier is not None:
        content["classifier"] = [
            classifier.estimator,
            classifier.canonical()["parameters"],
            code_fingerprint(classifier.estimator, request.recipe_folder),
        ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def base_outputs(
    request: OutputsRequest, cache: OutputsCache | None = None, key: str | None = None
) -> BaseOutputs:
    """Return the predictions of a classifier for the rows of a split, from the cache if they exist.

    Data that already holds predictions needs no classifier. For features, splits of kind ``"folds"`` train classifiers on inner
    folds; the other kinds train one classifier on the training set of the file, once for all splits.
    """
    if request.split.kind == "folds":
        if cache is None:
            return _nested(request)
        key = outputs_key(request) if key is None else key
        found = _cached(request, cache, key)
        if found is None:
            found = _nested(request)
            cache.put(key, found)
        return found
    return _divided(request, cache)


def training_key(request: OutputsRequest) -> str | None:
    """Return the key of the cached predictions of the classifier; None if none is trained.

    For folds it is :func:`outputs_key`; a classifier that is trained once has the same key for all splits.
    """
    if request.classifier is None:
        return None
    return outputs_key(request if request.split.kind == "folds" else _for_all_splits(request))


def _for_all_splits(request: OutputsRequest) -> OutputsRequest:
    """Return the request for the predictions of all rows that the splits share."""
    once = replace(request, split=Split("random"), splits=SplitSpec("random"))
    if request.data.kind == "generated" and request.split.kind == "given":
        return replace(once, seed=request.data_seed)
    return once


def _what_matters(spec: SplitSpec) -> dict[str, Any]:
    """Return the fields that determine the rows of a split."""
    if spec.kind == "folds":
        return {"folds": spec.folds, "inner": spec.inner, "combine": spec.combine}
    matters: dict[str, Any] = {"test_rows": spec.test_rows, "stratified": spec.stratified}
    if spec.kind == "random" and spec.test_rows is None:
        # The test set consists of the rows that are left by the largest calibration set.
        matters["calibration_rows"] = [float(rows) for rows in sorted(spec.calibration_rows)]
    return matters


def _cached(request: OutputsRequest, cache: OutputsCache | None, key: str) -> BaseOutputs | None:
    found = None if cache is None else cache.get(key)
    if found is not None and request.keep_training and found.parts[0].training is None:
        return None  # cached by a recipe that did not need them
    return found


def _nested(request: OutputsRequest) -> BaseOutputs:
    """Train classifiers on nested folds."""
    data, classifier = request.loaded(), request.classifier
    if not data.has_features or classifier is None:
        raise StudyDataError(
            f"data set {request.data.name!r} has predictions but no features, so no classifier can be trained on folds; "
            "use splits of kind given or random."
        )
    rows, n_classes = data.every_row(), data.n_classes
    fold = outer_fold(rows.labels, request.splits, request.split, request.seed)
    seed = split_seed(request.seed, request.split)
    started = time.perf_counter()
    test = rows.take(fold.test)

    def scores(model: Any, of: Rows) -> Predictions:
        return scores_of(classifier, model, _features(of), n_classes)

    def fitted(on: Rows) -> Any:
        return trained(classifier, seed, request.recipe_folder, _features(on), on.labels)

    parts, held_out = [], []
    for inner in fold.inner:
        training, calibration = rows.take(inner.training), rows.take(inner.calibration)
        model = fitted(training)
        if request.splits.combine == "pooled":
            held_out.append(scores(model, calibration))
            continue
        kept = (scores(model, training), training.labels) if request.keep_training else (None, None)
        parts.append(Part(scores(model, calibration), calibration.labels, scores(model, test), *kept))
    if request.splits.combine == "pooled":
        training = rows.take(fold.training)
        model = fitted(training)
        labels = rows.labels[np.concatenate([inner.calibration for inner in fold.inner])]
        kept = (scores(model, training), training.labels) if request.keep_training else (None, None)
        parts = [Part(_stacked(held_out), labels, scores(model, test), *kept)]
    return BaseOutputs(tuple(parts), test.labels, n_classes, test.truth, time.perf_counter() - started)


def _divided(request: OutputsRequest, cache: OutputsCache | None) -> BaseOutputs:
    """Split rows with predictions, which come from the file or from a classifier that is trained once."""
    data = request.loaded()
    training: tuple[Predictions, IntArray] | None = None
    seconds = 0.0
    if data.has_features:
        data, training, seconds = _trained_once(request, data, cache)
    if request.split.kind == "given":
        if data.calibration is None or data.test is None:
            raise StudyDataError(
                f"data set {request.data.name!r} is not split into calibration and test sets; use splits of kind random."
            )
        calibration, test = data.calibration, data.test
        rows, test_rows = divided_rows(
            calibration.labels, request.splits, request.split, request.seed, test.labels
        )
        calibration, test = calibration.take(rows), test.take(test_rows)
    else:
        whole = data.all_rows()
        rows, test_rows = divided_rows(whole.labels, request.splits, request.split, request.seed)
        calibration, test = whole.take(rows), whole.take(test_rows)
    assert calibration.predictions is not None
    assert test.predictions is not None
    part = Part(calibration.predictions, calibration.labels, test.predictions, *(training or (None, None)))
    truth: Truth | None = test.truth if data.task is None else data.task
    return BaseOutputs((part,), test.labels, data.n_classes, truth, seconds)


def _trained_once(
    request: OutputsRequest, data: StudyData, cache: OutputsCache | None
) -> tuple[StudyData, tuple[Predictions, IntArray] | None, float]:
    """Return the data with predictions of a classifier, those for its training set, and the training time."""
    classifier = request.classifier
    if data.training is None or classifier is None:
        raise StudyDataError(
            f"data set {request.data.name!r} has no training set for a classifier, X_train and y_train; "
            "use splits of kind folds."
        )
    whole = data.all_rows()
    once = _for_all_splits(request)
    key = outputs_key(once)
    found = _cached(request, cache, key)
    if found is None:
        started = time.perf_counter()
        seed = split_seed(once.seed, once.split)
        model = trained(
            classifier, seed, request.recipe_folder, _features(data.training), data.training.labels
        )
        scores = scores_of(classifier, model, _features(whole), data.n_classes)
        kept: tuple[Predictions, IntArray] | tuple[None, None] = (None, None)
        if request.keep_training:
            kept = (
                scores_of(classifier, model, _features(data.training), data.n_classes),
                data.training.labels,
            )
        # The calibration field holds all rows that are split later.
        part = Part(scores, whole.labels, scores.take(slice(0, 1)), *kept)
        found = BaseOutputs((part,), whole.labels[:1], data.n_classes, None, time.perf_counter() - started)
        if cache is not None:
            cache.put(key, found)
    part = found.parts[0]
    scored = replace(whole, features=None, predictions=part.calibration)
    if data.rows is not None:
        data = replace(data, rows=scored, training=None)
    else:
        assert data.calibration is not None
        n_calibration = len(data.calibration)
        data = replace(
            data,
            training=None,
            calibration=scored.take(np.arange(n_calibration)),
            test=scored.take(np.arange(n_calibration, len(scored))),
        )
    training = None
    if part.training is not None and part.training_labels is not None:
        training = part.training, part.training_labels
    return data, training, found.train_seconds


def _features(rows: Rows) -> NDArray[np.float64]:
    assert rows.features is not None
    return rows.features


def _stacked(parts: Sequence[Predictions]) -> Predictions:
    return Predictions(np.concatenate([part.scores for part in parts]), Space.PROBABILITIES)
