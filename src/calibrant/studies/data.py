"""Data sets of a study by what the recipe says of them: where they are, what they hold, what identifies them."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from calibrant.errors import RecipeError, StudyDataError, StudyError
from calibrant.studies.data_rows import Rows, StudyData, Truth
from calibrant.studies.own_code import code_fingerprint, load_function
from calibrant.studies.sources import check_columns, read_features, read_scores, read_top_label
from calibrant.studies.specifications import DataSpec

__all__ = [
    "AbsentDataError",
    "Rows",
    "StudyData",
    "Truth",
    "check_source",
    "file_hash",
    "find_source",
    "fingerprint",
    "load",
]

BYTES_AT_A_TIME = 1 << 20

# Files are hashed once as long as they stay as they are; few sets are kept in memory.
_HASHES: dict[tuple[str, int, int], str] = {}
_LOADED: dict[tuple[Any, ...], StudyData] = {}
KEPT_SETS = 4


class AbsentDataError(StudyDataError):
    """The file of a data set is not there."""


def find_source(spec: DataSpec, data_folder: Path | None, recipe_folder: Path) -> Path | None:
    """Return where the file of a data set is, None for one that is generated; refuse one that is absent.

    Files are relative to the folder of data, or to that of the recipe if there is none; own ones beside the recipe are
    found as well. A generator that reads files names them in the option ``files``.
    """
    if spec.kind == "generated":
        for name in spec.options.get("files", ()):
            _found(str(name), spec.name, data_folder, recipe_folder)
        return None
    return _found(spec.source, spec.name, data_folder, recipe_folder)


def check_source(spec: DataSpec, data_folder: Path | None, recipe_folder: Path) -> None:
    """Refuse a data set that is absent, or whose table lacks the column of the labels, by its first line alone."""
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
    """Return a hash of all that a data set depends on: the content of its files, or the code that makes it, and its options.

    Neither names nor places of files matter.
    """
    content = [spec.kind, json.dumps(_options(spec), sort_keys=True)]
    path = find_source(spec, data_folder, recipe_folder)
    if path is None:
        content += [spec.source, code_fingerprint(spec.source, recipe_folder)]
        files = spec.options.get("files", ())
        content += [file_hash(_found(str(name), spec.name, data_folder, recipe_folder)) for name in files]
    else:
        content.append(file_hash(path))
    test = _test_path(spec, data_folder, recipe_folder)
    if test is not None:
        content.append(file_hash(test))
    return hashlib.sha256("\0".join(content).encode()).hexdigest()


def load(spec: DataSpec, data_folder: Path | None, recipe_folder: Path, seed: int) -> StudyData:
    """Return the rows of a data set; ``seed`` is passed on to a generator and is of no account otherwise."""
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
        text = " ".join(str(error).split()).removesuffix(".")
        raise StudyDataError(f"{spec.source}: {type(error).__name__}: {text}.") from error
    if not isinstance(data, StudyData):
        raise StudyDataError(
            f"data set {spec.name!r}: {spec.source} returned {type(data).__name__}; it must return a StudyData."
        )
    return data


def _options(spec: DataSpec) -> Any:
    """Return the options that determine the rows."""
    return spec.canonical()["options"]


def _test_path(spec: DataSpec, data_folder: Path | None, recipe_folder: Path) -> Path | None:
    other = spec.options.get("test")
    if other is None or spec.kind != "scores":
        return None
    return _found(str(other), spec.name, data_folder, recipe_folder)


def _found(source: str, name: str, data_folder: Path | None, recipe_folder: Path) -> Path:
    folders = [recipe_folder] if data_folder is None else [data_folder, recipe_folder]
    for folder in folders:
        path = folder / source
        if path.is_file():
            return path
    raise AbsentDataError(
        f"data set {name!r}: there is no file {source} in {folders[0]}; name the folder of your data by --data or "
        "CALIBRANT_DATA."
    )


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file; one that stays as it is is read once."""
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
