"""Data sets of a study: files in the layouts of published data, generators, and what identifies them."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import (
    FileFormatError,
    LabelError,
    MissingExtraError,
    PredictionError,
    RecipeError,
    StudyDataError,
    StudyError,
    WeightError,
)
from calibrant.predictions import Predictions
from calibrant.space import Space
from calibrant.studies.data import StudyData
from calibrant.studies.own_code import code_fingerprint, load_function, one_line
from calibrant.studies.safe_pickle import load_pickle
from calibrant.studies.specifications import DataSpec
from calibrant.tables import read_predictions
from calibrant.tables.file_set import open_source
from calibrant.tables.formats.numpy import NpzMembers

__all__ = [
    "AbsentDataError",
    "check_source",
    "file_hash",
    "find_file",
    "find_source",
    "fingerprint",
    "is_table",
    "load",
    "place_of",
    "read_scores",
    "size_of",
]


PICKLE_ENDINGS = (".p", ".pkl", ".pickle")
SCORE_NAMES = {
    Space.LOGITS: ("logits", "z"),
    Space.PROBABILITIES: ("probs", "probabilities", "proba", "p"),
}
LABEL_NAMES = ("y", "labels", "label", "y_true", "targets", "target")
CALIBRATION_PREFIXES = ("val_", "cal_", "calibration_", "valid_", "validation_")
OF_TABLES = ("label", "columns", "positive", "normalise")

Arrays = dict[str, NDArray[Any]]


def is_table(name: str) -> bool:
    """Return whether a file is a table, judged by its name, and not an NPZ file or a pickle.

    >>> is_table("iris.csv"), is_table("iris.npz"), is_table("resnet.p")
    (True, False, False)
    """
    return not name.lower().endswith((".npz", *PICKLE_ENDINGS))


def check_columns(path: Path, options: Mapping[str, Any], *, needed: bool) -> None:
    """Refuse a table without its label column; only the header is read."""
    label = options.get("label")
    if not is_table(path.name) or (label is None and not needed):
        return
    try:
        with open_source(path) as source:
            columns = tuple(source.columns)
    except (FileFormatError, MissingExtraError, OSError):
        return  # The units will report it.
    _check_label(path, label, columns)


def _check_label(path: Path, label: Any, columns: Sequence[str]) -> None:
    if label not in columns:
        asked = "" if label is None else f"there is no column {label!r}; "
        raise StudyDataError(
            f'{path}: {asked}name the column of the classes by label = "..."; there are {", ".join(columns)}.'
        )


def read_features(path: Path, options: Mapping[str, Any]) -> StudyData:
    """Read features and labels.

    NPZ files hold ``X`` and ``y``; or ``X_train``, ``y_train``, ``X_test`` and ``y_test``; or these with ``X_cal`` and
    ``y_cal``. In CSV, Parquet and Feather files every column except ``label`` is a feature.
    """
    if path.suffix.lower() != ".npz":
        return _with_path(path, lambda: _from_table(path, options))
    arrays = _arrays(path)
    if {"X_train", "y_train", "X_test", "y_test"} <= arrays.keys():
        pairs: dict[str, Any] = {"train": (arrays["X_train"], arrays["y_train"])}
        for name in ("cal", "val", "calibration"):
            if {f"X_{name}", f"y_{name}"} <= arrays.keys():
                pairs["calibration"] = arrays[f"X_{name}"], arrays[f"y_{name}"]
        return _with_path(path, lambda: StudyData.from_features(arrays["X_test"], arrays["y_test"], **pairs))
    if "X" not in arrays or "y" not in arrays:
        raise StudyDataError(
            f"{path} has the arrays {', '.join(arrays)}; X and y, or X_train, y_train, X_test and y_test, are needed."
        )
    return _with_path(path, lambda: StudyData.from_features(arrays["X"], arrays["y"]))


def read_scores(path: Path, options: Mapping[str, Any], test_path: Path | None = None) -> StudyData:
    """Read predictions of a classifier, with or without a split into calibration and test sets.

    NPZ files hold ``logits`` or ``probs``, and ``y``; with the prefixes ``val_`` and ``test_`` the rows are already split.
    Pickles are the pairs ``((logits, y), (logits, y))`` of the published networks, calibration set first. CSV, Parquet and
    Feather files are read by :func:`calibrant.tables.read_predictions`; ``space`` is the kind of scores. ``test_path`` is
    a second file with the test set. The option ``truth`` names an array of true probabilities, or of votes.
    """
    if test_path is not None:
        return _with_path(
            path, lambda: StudyData.from_split(_undivided(path, options), _undivided(test_path, options))
        )
    if path.suffix.lower() in PICKLE_ENDINGS:
        return _with_path(path, lambda: _from_pickle(load_pickle(path), options))
    if path.suffix.lower() == ".npz":
        arrays = _arrays(path)
        parts = _divided(path, arrays, options)
        if parts is not None:
            truth = _truth(path, arrays, options)
            return _with_path(path, lambda: StudyData.from_split(*parts, truth=truth))
        truth = _truth(path, arrays, options)
        return _with_path(path, lambda: StudyData.from_scores(*_pair(path, arrays, options), truth=truth))
    return _with_path(path, lambda: StudyData.from_scores(*_undivided(path, options)))


def read_top_label(path: Path) -> StudyData:
    """Read confidences as a binary problem whose classes are "wrong" and "right".

    An NPZ file holds ``confidence`` and either ``correct``, or ``pred`` and ``y``.
    """
    arrays = _arrays(path) if path.suffix.lower() == ".npz" else {}
    confidence = arrays.get("confidence")
    if confidence is None or not ("correct" in arrays or {"pred", "y"} <= arrays.keys()):
        raise StudyDataError(
            f"{path} must be an NPZ file with the arrays confidence and correct, or confidence, pred and y."
        )
    correct = arrays["correct"] if "correct" in arrays else arrays["pred"] == arrays["y"]
    if confidence.ndim != 1 or correct.shape != confidence.shape:
        raise StudyDataError(
            f"{path}: confidence has shape {confidence.shape} and correct {correct.shape}; give one entry per row."
        )
    if not np.isin(correct, (0, 1)).all():
        raise StudyDataError(f"{path}: correct must be 0 or 1 in every row.")
    data = _with_path(path, lambda: StudyData.from_scores(confidence, correct.astype(np.int64)))
    return StudyData(np.array(["wrong", "right"]), rows=data.rows)


def _with_path(path: Path, make: Any) -> StudyData:
    """Return what ``make`` returns, or raise its error with the name of the file."""
    try:
        data: StudyData = make()
    except (StudyDataError, PredictionError, LabelError, WeightError, FileFormatError) as error:
        text = str(error)
        raise StudyDataError(text if str(path) in text else f"{path}: {text}") from error
    return data


def _arrays(path: Path) -> Arrays:
    try:
        members = NpzMembers(path)
        try:
            return {
                name: np.array(members.array(name))
                for name in members.names
                if not members.types[name].hasobject
            }
        finally:
            members.close()
    except FileFormatError as error:
        raise StudyDataError(str(error)) from error


def _space(options: Mapping[str, Any]) -> Space | None:
    asked = options.get("space")
    if asked is None:
        return None
    try:
        return Space(asked)
    except ValueError:
        raise StudyDataError(f"space must be 'probabilities' or 'logits', not {asked!r}.") from None


def _predictions(scores: Any, space: Space) -> Predictions:
    return (
        Predictions.from_logits(scores) if space is Space.LOGITS else Predictions.from_probabilities(scores)
    )


def _pair(
    path: Path, arrays: Arrays, options: Mapping[str, Any], prefix: str = ""
) -> tuple[Predictions, NDArray[Any]]:
    """Return the scores and labels whose names begin with ``prefix``."""
    space, wanted = _space(options), options.get("columns")
    spaces = [space] if space is not None else list(SCORE_NAMES)
    found = [
        (name, each)
        for each in spaces
        for name in ([wanted] if wanted is not None and space is not None else SCORE_NAMES[each])
        if prefix + name in arrays
    ]
    names = [options["label"]] if "label" in options else LABEL_NAMES
    labels = [arrays[prefix + name] for name in names if prefix + name in arrays]
    if len(found) != 1 or len(labels) != 1:
        what = "scores" if len(found) != 1 else "labels"
        raise StudyDataError(
            f"{path} has the arrays {', '.join(arrays)}, and it is unclear which are the {what}; name them "
            f"{prefix}logits or {prefix}probs, and {prefix}y."
        )
    name, chosen = found[0]
    return _predictions(arrays[prefix + name], chosen), labels[0]


def _divided(path: Path, arrays: Arrays, options: Mapping[str, Any]) -> tuple[Any, Any] | None:
    if not any(name.startswith("test_") for name in arrays):
        return None
    for prefix in CALIBRATION_PREFIXES:
        if any(name.startswith(prefix) and not name.endswith("_idx") for name in arrays):
            return _pair(path, arrays, options, prefix), _pair(path, arrays, options, "test_")
    return None


def _truth(path: Path, arrays: Arrays, options: Mapping[str, Any]) -> NDArray[Any] | None:
    name = options.get("truth")
    if name is None:
        return None
    if name not in arrays:
        raise StudyDataError(f"{path} has no array {name!r} for the truth; it has {', '.join(arrays)}.")
    return arrays[name]


def _from_pickle(content: Any, options: Mapping[str, Any]) -> StudyData:
    # The published networks are pickled as logits.
    space = _space(options) or Space.LOGITS
    try:
        (first, first_labels), (second, second_labels) = content
    except (TypeError, ValueError):
        raise StudyDataError(
            "the pickle is not ((calibration scores, labels), (test scores, labels)); save the arrays in an NPZ file."
        ) from None
    return StudyData.from_split(
        (_predictions(first, space), first_labels), (_predictions(second, space), second_labels)
    )


def _undivided(path: Path, options: Mapping[str, Any]) -> tuple[Predictions, NDArray[Any]]:
    if path.suffix.lower() == ".npz":
        return _pair(path, _arrays(path), options)
    if path.suffix.lower() in PICKLE_ENDINGS:
        raise StudyDataError(f"{path} is a pickle of calibration and test sets; remove the option test.")
    space = _space(options)
    if space is None:
        raise StudyDataError(f"{path}: add space = 'probabilities' or space = 'logits'.")
    table = read_predictions(path, space=space, **{key: options[key] for key in OF_TABLES if key in options})
    return table.predictions, table.labels


def _from_table(path: Path, options: Mapping[str, Any]) -> StudyData:
    label = options.get("label")
    with open_source(path) as source:
        _check_label(path, label, source.columns)
        names = [name for name in source.columns if name != label]
        features, labels = [], []
        for batch in source.batches(100_000, list(source.columns)):
            features.append(np.asarray(batch.scores(names), dtype=np.float64))
            labels.append(batch.names(str(label)).array)
    return StudyData.from_features(np.concatenate(features), np.concatenate(labels))


BYTES_AT_A_TIME = 1 << 20

# A file is hashed once while it is unchanged; few data sets are kept in memory.
_HASHES: dict[tuple[str, int, int], str] = {}
_LOADED: dict[tuple[Any, ...], StudyData] = {}
KEPT_SETS = 4


class AbsentDataError(StudyDataError):
    """The file of a data set does not exist."""


def find_source(spec: DataSpec, data_folder: Path | None, recipe_folder: Path) -> Path | None:
    """Return the path of a data set's file, None if it is generated; raise if a file does not exist.

    Paths are relative to the data folder or to the folder of the recipe. A generator that reads files lists them in the
    option ``files``.
    """
    if spec.kind == "generated":
        for name in spec.options.get("files", ()):
            find_file(str(name), f"data set {spec.name!r}", data_folder, recipe_folder)
        return None
    return find_file(spec.source, f"data set {spec.name!r}", data_folder, recipe_folder)


def check_source(spec: DataSpec, data_folder: Path | None, recipe_folder: Path) -> None:
    """Refuse a data set whose file does not exist, or whose table lacks its label column, without reading the rows."""
    path = find_source(spec, data_folder, recipe_folder)
    if path is None:
        return
    try:
        for each in (path, _test_path(spec, data_folder, recipe_folder)):
            if each is not None and spec.kind in ("features", "scores"):
                check_columns(each, spec.options, needed=spec.kind == "features")
    except StudyDataError as error:
        raise type(error)(f"data set {spec.name!r}: {error}") from error


def fingerprint(spec: DataSpec, data_folder: Path | None, recipe_folder: Path) -> str:
    """Return a hash of everything that a data set depends on: contents of files, code of a generator, and options.

    Names and paths of files do not matter.
    """
    content = [spec.kind, json.dumps(_options(spec), sort_keys=True)]
    path = find_source(spec, data_folder, recipe_folder)
    if path is None:
        content += [spec.source, code_fingerprint(spec.source, recipe_folder)]
        files = spec.options.get("files", ())
        content += [
            file_hash(find_file(str(name), f"data set {spec.name!r}", data_folder, recipe_folder))
            for name in files
        ]
    else:
        content.append(file_hash(path))
    test = _test_path(spec, data_folder, recipe_folder)
    if test is not None:
        content.append(file_hash(test))
    return hashlib.sha256("\0".join(content).encode()).hexdigest()


def load(spec: DataSpec, data_folder: Path | None, recipe_folder: Path, seed: int) -> StudyData:
    """Load a data set; ``seed`` is passed to a generator and ignored otherwise."""
    path = find_source(spec, data_folder, recipe_folder)
    generated = path is None
    key = (
        fingerprint(spec, data_folder, recipe_folder),
        str(path),
        str(data_folder) if generated else "",
        seed if generated else 0,
    )
    if key in _LOADED:
        return _LOADED[key]
    data = (
        _generated(spec, data_folder, recipe_folder, seed)
        if path is None
        else _read(spec, path, data_folder, recipe_folder)
    )
    if spec.options.get("standardise", False):
        data = data.standardised()
    while len(_LOADED) >= KEPT_SETS:
        _LOADED.pop(next(iter(_LOADED)), None)
    _LOADED[key] = data
    return data


def size_of(spec: DataSpec, data_folder: Path | None, recipe_folder: Path) -> tuple[int, int] | None:
    """Return the number of rows and of classes of a data set; None if it is generated, which would run its code."""
    path = find_source(spec, data_folder, recipe_folder)
    if path is None:
        return None
    data = _read(spec, path, data_folder, recipe_folder)
    return data.n_rows, data.n_classes


def _read(spec: DataSpec, path: Path, data_folder: Path | None, recipe_folder: Path) -> StudyData:
    if spec.kind == "features":
        return read_features(path, spec.options)
    if spec.kind == "scores":
        return read_scores(path, spec.options, _test_path(spec, data_folder, recipe_folder))
    if spec.kind == "top-label":
        return read_top_label(path)
    raise RecipeError(
        f"data set {spec.name!r} is of kind {spec.kind!r}; it must be features, scores, top-label or generated."
    )


def _generated(spec: DataSpec, data_folder: Path | None, recipe_folder: Path, seed: int) -> StudyData:
    parameters = dict(spec.options.get("parameters", {}))
    function = load_function(f"data set {spec.name!r}", spec.source, parameters, recipe_folder)
    try:
        data = function(seed=seed, data_folder=data_folder or recipe_folder, **parameters)
    except (StudyError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise StudyDataError(f"{spec.source}: {type(error).__name__}: {one_line(error)}.") from error
    if not isinstance(data, StudyData):
        raise StudyDataError(
            f"data set {spec.name!r}: {spec.source} returned {type(data).__name__}; it must return a StudyData."
        )
    return data


def _options(spec: DataSpec) -> Any:
    """Return the options in canonical form."""
    return spec.canonical()["options"]


def _test_path(spec: DataSpec, data_folder: Path | None, recipe_folder: Path) -> Path | None:
    other = spec.options.get("test")
    if other is None or spec.kind != "scores":
        return None
    return find_file(str(other), f"data set {spec.name!r}", data_folder, recipe_folder)


def find_file(name: str, where: str, data_folder: Path | None, recipe_folder: Path) -> Path:
    """Return the path of a file in the data folder or in the folder of the recipe."""
    path = place_of(name, (data_folder, recipe_folder))
    if path is None:
        raise AbsentDataError(
            f"{where}: there is no file {name} in {data_folder or recipe_folder}; name the folder of your data by "
            "--data or CALIBRANT_DATA."
        )
    return path


def place_of(name: str, folders: Iterable[Path | None]) -> Path | None:
    """Return the first of some folders' files of that name; None if there is none."""
    paths = (folder / name for folder in folders if folder is not None)
    return next((path for path in paths if path.is_file()), None)


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file; an unchanged file is read once."""
    try:
        status = os.stat(path)
        known = (str(path.resolve()), status.st_mtime_ns, status.st_size)
        if known not in _HASHES:
            digest = hashlib.sha256()
            with open(path, "rb") as stream:
                while block := stream.read(BYTES_AT_A_TIME):
                    digest.update(block)
            _HASHES[known] = digest.hexdigest()
    except OSError as error:
        raise StudyDataError(f"{path} cannot be read: {error.strerror}.") from error
    return _HASHES[known]
