"""Save and load a classifier with its calibrators, without pickle, in a folder or in one file."""

import io
import json
import os
import secrets
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

import calibrant
from calibrant.calibrator import Calibrator
from calibrant.calibrators import MultilabelCalibration, MultioutputCalibration
from calibrant.calibrators.combinators.calibrated_classifier.outputs import OutputPairs
from calibrant.errors import CalibrationWarning, FileFormatError, MissingExtraError
from calibrant.persistence.labels import labels_from, save_labels
from calibrant.persistence.members import content_of, members_of
from calibrant.persistence.reading import read_calibrator
from calibrant.persistence.replacing import replacing
from calibrant.persistence.schema import ENUMERATIONS, RECORDS, UnreadableError, quoted
from calibrant.persistence.writing import save
from calibrant.registry import calibrator_classes

__all__ = ["load_classifier", "save_classifier", "trusted_types"]

FORMAT = "calibrant classifier"
SCHEMA_VERSION = 1
HEADER = "classifier.json"
WHAT = "classifier"
HEADER_KEYS = {
    "format",
    "schema_version",
    "library_version",
    "parameters",
    "classes",
    "response",
    "written_by",
    "n_pairs",
}
MAX_HEADER_BYTES = 2**24

SKOPS, USER = "skops", "user"
DEFAULTS = {"method": "auto", "cv": 5, "ensemble": True, "response": "auto", "n_jobs": None}


class Classifier(Protocol):
    """The part of CalibratedClassifier that is saved."""

    classes_: Any
    calibrated_pairs_: list[tuple[Any, Any]]
    response_: str

    def __init__(self, estimator: Any, **parameters: Any) -> None: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters."""
        ...


SomeClassifier = TypeVar("SomeClassifier", bound=Classifier)


def save_classifier(
    classifier: Classifier, path: str | os.PathLike[str], write: Callable[[Any, Path], object] | None
) -> None:
    """Write a fitted CalibratedClassifier; see its method ``save``."""
    check_is_fitted(
        classifier, msg="this %(name)s is not fitted, so there is nothing to save; call fit first."
    )
    target = Path(path)
    in_one_file = target.suffix == ".zip"
    if not in_one_file:
        _check_replaceable(target)
    header = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "library_version": calibrant.__version__,
        "parameters": _parameters(classifier),
        "classes": _plain_classes_of(classifier),
        "response": classifier.response_,
        "written_by": SKOPS if write is None else USER,
        "n_pairs": len(classifier.calibrated_pairs_),
    }
    with TemporaryDirectory(dir=None if in_one_file else target.absolute().parent) as temporary:
        folder = Path(temporary, secrets.token_hex(8))
        folder.mkdir()
        for number, (estimator, calibrator) in enumerate(classifier.calibrated_pairs_):
            if isinstance(calibrator, Calibrator):
                save(calibrator, folder / _calibrator_file(number))
            else:
                save_labels(calibrator, folder / _calibrator_file(number))
            (_write_by_skops if write is None else write)(estimator, folder / _estimator_file(number))
            if not (folder / _estimator_file(number)).is_file():
                raise FileFormatError(
                    "write must store the estimator in the file whose path it is given, but there is none; "
                    "pass write(estimator, path)."
                )
        (folder / HEADER).write_text(
            json.dumps(header, ensure_ascii=False, allow_nan=False), encoding="utf-8"
        )
        if in_one_file:
            with replacing(target) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
                for file in sorted(folder.iterdir()):
                    archive.write(file, file.name)
        else:
            if target.exists():
                target.rename(Path(temporary, "replaced"))
            folder.rename(target)


def load_classifier(
    cls: type[SomeClassifier],
    path: str | os.PathLike[str],
    trusted: Sequence[str],
    read: Callable[[Path], Any] | None,
) -> SomeClassifier:
    """Return a fitted CalibratedClassifier; see its method ``load``."""
    try:
        return _loaded(cls, Path(path), trusted, read)
    except UnreadableError as error:
        raise FileFormatError(f"{os.fsdecode(path)} {error}.") from error


def _loaded(
    cls: type[SomeClassifier], path: Path, trusted: Sequence[str], read: Callable[[Path], Any] | None
) -> SomeClassifier:
    members = members_of(path)
    header = _parsed_header(content_of(members, HEADER, WHAT, MAX_HEADER_BYTES))
    if (header["written_by"] == USER) != (read is not None):
        raise UnreadableError(
            "has estimators that were stored by a function of the user; pass its counterpart as read="
            if read is None
            else "has estimators that skops stored; omit read="
        )
    several = header["classes"].get("outputs")
    pairs: list[tuple[Any, Any]] = []
    for number in range(header["n_pairs"]):
        content = content_of(members, _estimator_file(number), WHAT)
        estimator = _read_by_skops(content, trusted) if read is None else _read_by_user(content, read)
        stored = content_of(members, _calibrator_file(number), WHAT)
        calibrator: Any = (
            read_calibrator(io.BytesIO(stored))
            if several is None
            else labels_from(CLASSES_OF_OUTPUTS[bool(header["classes"].get("multilabel"))], stored)
        )
        pairs.append((estimator, calibrator))
    parameters = header["parameters"]
    first_estimator, first_calibrator = pairs[0]
    if parameters["method"] is None:  # an unfitted calibrator, which every pair has a fitted copy of
        own = first_calibrator if several is None else first_calibrator.calibrators_[0]
        parameters["method"] = clone(own)
    unfitted = clone(first_estimator) if isinstance(first_estimator, BaseEstimator) else first_estimator
    classifier = cls(unfitted, **parameters)
    if several is not None:
        _set_outputs(classifier, header, several, pairs)
        return classifier
    classifier.classes_ = _classes(header["classes"])
    for _, calibrator in pairs:
        if len(calibrator.classes_) != len(classifier.classes_):
            raise UnreadableError(
                "is damaged: a calibrator has another number of classes than the classifier"
            )
    classifier.calibrated_pairs_ = pairs
    classifier.response_ = header["response"]
    return classifier


CLASSES_OF_OUTPUTS: dict[bool, type[Any]] = {True: MultilabelCalibration, False: MultioutputCalibration}
"""Calibrators of labels that a row has or has not, and of several class columns."""


def _set_outputs(classifier: Any, header: dict[str, Any], several: Any, pairs: list[tuple[Any, Any]]) -> None:
    """Set the fitted attributes of a classifier with several outputs."""
    if type(several) is not list or not several:
        raise UnreadableError("is damaged: its classes are invalid")
    classes = [_classes(content) for content in several]
    for _, calibrator in pairs:
        if len(calibrator.calibrators_) != len(classes):
            raise UnreadableError(
                "is damaged: a calibrator has another number of outputs than the classifier"
            )
    found = OutputPairs(classes, bool(header["classes"].get("multilabel")), pairs, header["response"])
    classifier.outputs_, classifier.classes_ = found, classes
    classifier.calibrated_pairs_, classifier.response_ = pairs, header["response"]


def _plain_classes_of(classifier: Any) -> dict[str, Any]:
    outputs = vars(classifier).get("outputs_")
    if outputs is None:
        return _plain_classes(classifier.classes_)
    return {
        "outputs": [_plain_classes(classes) for classes in outputs.classes],
        "multilabel": outputs.is_multilabel,
    }


def _calibrator_file(number: int) -> str:
    return f"calibrator_{number}.npz"


def _estimator_file(number: int) -> str:
    return f"estimator_{number}"


def _check_replaceable(target: Path) -> None:
    if target.exists() and not (target / HEADER).is_file() and (not target.is_dir() or any(target.iterdir())):
        raise FileFormatError(
            f"{target} exists already and is not a saved classifier; choose another folder, or a file that ends in .zip."
        )


def _parameters(classifier: Classifier) -> dict[str, Any]:
    """Return all parameters but the estimator; those that cannot be stored are replaced by defaults, with a warning."""
    parameters = {}
    for name, default in DEFAULTS.items():
        value = classifier.get_params(deep=False)[name]
        if name == "method" and isinstance(value, Calibrator):
            value = None
        elif value is not None and not isinstance(value, bool | int | str):
            warnings.warn(
                f"the parameter {name} is of type {type(value).__name__}, which a file cannot hold; its default "
                f"{default!r} is saved instead and would be used in another fit.",
                CalibrationWarning,
                stacklevel=4,
            )
            value = default
        parameters[name] = value
    return parameters


def _plain_classes(classes: NDArray[Any]) -> dict[str, Any]:
    if classes.dtype.kind not in "iubfUO" or not all(
        isinstance(label, bool | int | float | str) for label in classes.tolist()
    ):
        raise FileFormatError(
            f"the classifier cannot be saved, because its classes are of type {classes.dtype}; use numbers or text."
        )
    return {"dtype": "object" if classes.dtype.kind == "O" else classes.dtype.str, "labels": classes.tolist()}


def _classes(content: dict[str, Any]) -> NDArray[Any]:
    try:
        classes = np.array(content["labels"], dtype=np.dtype(content["dtype"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableError("is damaged: its classes are invalid") from error
    if classes.ndim != 1 or classes.dtype.kind not in "iubfUO":
        raise UnreadableError("is damaged: its classes are invalid")
    return classes


def _skops() -> Any:
    try:
        import skops.io
    except ModuleNotFoundError as error:
        raise MissingExtraError("skops", "skops") from error
    return skops.io


def _write_by_skops(estimator: Any, path: Path) -> None:
    path.write_bytes(_skops().dumps(estimator))


def _read_by_skops(content: bytes, trusted: Sequence[str]) -> Any:
    skops = _skops()
    allowed = {*trusted, *trusted_types()}
    try:
        found = skops.get_untrusted_types(data=content)
        unknown = sorted(set(found) - allowed)
        if unknown:
            raise UnreadableError(
                f"contains types that skops does not trust: {unknown}; if you trust them, pass trusted={unknown}"
            )
        return skops.loads(content, trusted=found)
    except (zipfile.BadZipFile, KeyError, TypeError) as error:
        raise UnreadableError(f"is damaged: skops cannot read an estimator ({error})") from error


def _read_by_user(content: bytes, read: Callable[[Path], Any]) -> Any:
    with TemporaryDirectory() as folder:
        path = Path(folder, "estimator")
        path.write_bytes(content)
        return read(path)


def _parsed_header(content: bytes) -> dict[str, Any]:
    try:
        header = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"is damaged: {HEADER} is not valid JSON") from error
    if type(header) is not dict or header.get("format") != FORMAT:
        raise UnreadableError("is not a saved classifier: its header names another format")
    version = header.get("schema_version")
    if type(version) is not int or version < 1:
        raise UnreadableError(f"is damaged: the schema version {quoted(version)} is invalid")
    if version > SCHEMA_VERSION:
        raise UnreadableError(
            f"was written by a newer calibrant (schema {quoted(version)}; this version reads {SCHEMA_VERSION}); "
            "upgrade calibrant"
        )
    parameters = header.get("parameters")
    sound = (
        set(header) == HEADER_KEYS
        and type(parameters) is dict
        and set(parameters) == set(DEFAULTS)
        and all(value is None or type(value) in (bool, int, str) for value in parameters.values())
        and type(header["classes"]) is dict
        and header["response"] in ("predict_proba", "predict_log_proba", "decision_function")
        and header["written_by"] in (SKOPS, USER)
        and type(header["n_pairs"]) is int
        and header["n_pairs"] >= 1
    )
    if not sound:
        raise UnreadableError(f"is damaged: {HEADER} has unexpected keys or values")
    return header


def trusted_types() -> list[str]:
    """Return the types that fitted calibrators contain, for ``skops.io.load(file, trusted=trusted_types())``.

    They hold numbers, strings, arrays and each other, and execute no code when they are loaded. The list includes the
    classes of plug-ins.

    >>> "calibrant.calibrators.scaling.temperature.TemperatureScaling" in trusted_types()
    True
    """
    types: list[type] = [*calibrator_classes(), *RECORDS.values(), *ENUMERATIONS.values()]
    return [f"{cls.__module__}.{cls.__qualname__}" for cls in types]
