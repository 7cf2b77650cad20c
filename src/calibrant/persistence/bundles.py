"""Save and load several calibrators together: those of several labels, and a classifier with its calibrators."""

import io
import json
import os
import secrets
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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
from calibrant.errors import CalibrationWarning, FileFormatError, MissingExtraError, ParameterError
from calibrant.persistence.archive import EPOCH
from calibrant.persistence.reading import checked_header, expect, read_calibrator
from calibrant.persistence.replacing import replacing
from calibrant.persistence.schema import ENUMERATIONS, RECORDS, UnreadableError, naming, quoted
from calibrant.persistence.writing import save
from calibrant.registry import calibrator_classes

__all__ = ["load_classifier", "load_labels", "save_classifier", "save_labels", "trusted_types"]

Members = dict[str, Callable[[], bytes]]
"""Name -> function that reads the member."""


def members_of(path: Path) -> Members:
    """Return the members of a folder or zip file."""
    if path.is_dir():
        return {file.name: file.read_bytes for file in path.iterdir() if file.is_file()}
    return members_in(path.read_bytes())


def members_in(content: bytes) -> Members:
    """Return the members of a zip file from its bytes."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except zipfile.BadZipFile as error:
        raise UnreadableError("is neither a folder nor a zip file that save wrote") from error
    members: Members = {}
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > len(content):
            raise UnreadableError(
                f"contains {quoted(info.filename)} in compressed form, which is not allowed"
            )
        members[info.filename] = partial(archive.read, info)
    return members


def content_of(members: Members, name: str, what: str, largest: int | None = None) -> bytes:
    """Return the bytes of one member of a saved ``what``."""
    if name not in members:
        raise UnreadableError(f"is not a saved {what}, or is damaged: {name} is missing")
    try:
        content = members[name]()
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise UnreadableError(f"is damaged: {name} cannot be read") from error
    if largest is not None and len(content) > largest:
        raise UnreadableError(f"is damaged: {name} has more than {largest} bytes")
    return content


SCHEMA_VERSION = 1
MAX_HEADER_BYTES = 2**24


@dataclass(frozen=True)
class Bundle:
    """A kind of bundle: what it is, the member with its header, and the format and the keys of that."""

    what: str
    member: str
    file_format: str
    keys: frozenset[str]

    def header(self, **content: Any) -> str:
        """Return the header as JSON."""
        versions = {"schema_version": SCHEMA_VERSION, "library_version": calibrant.__version__}
        return json.dumps(
            {"format": self.file_format, **versions, **content}, ensure_ascii=False, allow_nan=False
        )

    def read_header(self, members: Members) -> dict[str, Any]:
        """Return the header of a bundle after checking format, version and keys."""
        text = content_of(members, self.member, self.what, MAX_HEADER_BYTES)
        header = checked_header(text, self.member, f"saved {self.what}", self.file_format, SCHEMA_VERSION)
        keys = {"format", "schema_version", "library_version", *self.keys}
        expect(set(header) == keys, f"{self.member} has unexpected keys or values")
        return header


LABELS = Bundle(
    "calibrator of several labels",
    "labels.json",
    "calibrant labels",
    frozenset({"class", "parameters", "names", "strength", "n_calibrators"}),
)
CLASSIFIER = Bundle(
    "classifier",
    "classifier.json",
    "calibrant classifier",
    frozenset({"parameters", "classes", "response", "written_by", "n_pairs"}),
)


class OfLabels(Protocol):
    """The part of a calibrator of several labels that is saved."""

    calibrators_: list[Calibrator]
    names_: list[str] | None

    def __init__(self, **parameters: Any) -> None: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...


Some = TypeVar("Some", bound=OfLabels)


def save_labels(owner: OfLabels, path: str | os.PathLike[str]) -> None:
    """Write the fitted calibrators of all labels to a zip file; saving again gives the same bytes."""
    check_is_fitted(owner, msg="this %(name)s is not fitted, so there is nothing to save; call fit first.")
    parameters = owner.get_params(deep=False)
    if isinstance(parameters["method"], Calibrator):
        parameters["method"] = None  # every label has a fitted copy of it
    content = {
        "class": type(owner).__name__,
        "parameters": parameters,
        "names": owner.names_,
        "strength": getattr(owner, "strength_", None),
        "n_calibrators": len(owner.calibrators_),
    }
    with (
        TemporaryDirectory() as folder,
        replacing(path) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive,
    ):
        archive.writestr(zipfile.ZipInfo(LABELS.member, EPOCH), LABELS.header(**content))
        file = Path(folder, "calibrator.npz")
        for number, calibrator in enumerate(owner.calibrators_):
            save(calibrator, file)
            archive.writestr(zipfile.ZipInfo(_calibrator_file(number), EPOCH), file.read_bytes())


def load_labels(cls: type[Some], path: str | os.PathLike[str]) -> Some:
    """Return the fitted object that :func:`save_labels` wrote."""
    with naming(path):
        return labels_from(cls, Path(path).read_bytes())


def labels_from(cls: type[Some], content: bytes) -> Some:
    """Return the fitted object in the bytes of a file; raises :class:`UnreadableError` if there is none."""
    members = members_in(content)
    header = LABELS.read_header(members)
    if header["class"] != cls.__name__:
        raise UnreadableError(f"holds a {quoted(header['class'])}; use the method load of that class")
    parameters, names, n_calibrators = header["parameters"], header["names"], header["n_calibrators"]
    expect(
        type(parameters) is dict
        and all(value is None or type(value) in (bool, int, float, str) for value in parameters.values()),
        "its parameters must be numbers and text",
    )
    expect(type(n_calibrators) is int and 1 <= n_calibrators < len(members), "its labels are not all there")
    expect(
        names is None
        or (type(names) is list and len(names) == n_calibrators and all(type(name) is str for name in names)),
        "its names must be one text per label",
    )
    strength = header["strength"]
    expect(strength is None or type(strength) in (int, float), "its strength must be a number")
    calibrators = [
        read_calibrator(io.BytesIO(content_of(members, _calibrator_file(number), LABELS.what)))
        for number in range(n_calibrators)
    ]
    if parameters.get("method") is None:
        parameters["method"] = clone(calibrators[0])
    try:
        owner = cls(**parameters)
    except (TypeError, ParameterError) as error:
        raise UnreadableError(f"is damaged: {cls.__name__} refuses its parameters") from error
    owner.calibrators_, owner.names_ = calibrators, names
    if "strength" in parameters:
        vars(owner).update(strength_=strength, strengths_=None, cv_losses_=None)
    return owner


SKOPS, USER = "skops", "user"
DEFAULTS = {"method": "auto", "cv": 5, "ensemble": True, "response": "auto", "n_jobs": None}


class Classifier(Protocol):
    """The part of CalibratedClassifier that is saved."""

    classes_: Any
    calibrated_pairs_: list[tuple[Any, Any]]
    response_: str

    def __init__(self, estimator: Any, **parameters: Any) -> None: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...


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
    header = CLASSIFIER.header(
        parameters=_parameters(classifier),
        classes=_plain_classes_of(classifier),
        response=classifier.response_,
        written_by=SKOPS if write is None else USER,
        n_pairs=len(classifier.calibrated_pairs_),
    )
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
        (folder / CLASSIFIER.member).write_text(header, encoding="utf-8")
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
    with naming(path):
        return _loaded(cls, Path(path), trusted, read)


def _loaded(
    cls: type[SomeClassifier], path: Path, trusted: Sequence[str], read: Callable[[Path], Any] | None
) -> SomeClassifier:
    members = members_of(path)
    header = _classifier_header(members)
    if (header["written_by"] == USER) != (read is not None):
        raise UnreadableError(
            "has estimators that were stored by a function of the user; pass its counterpart as read="
            if read is None
            else "has estimators that skops stored; omit read="
        )
    several = header["classes"].get("outputs")
    pairs: list[tuple[Any, Any]] = []
    for number in range(header["n_pairs"]):
        content = content_of(members, _estimator_file(number), CLASSIFIER.what)
        estimator = _read_by_skops(content, trusted) if read is None else _read_by_user(content, read)
        stored = content_of(members, _calibrator_file(number), CLASSIFIER.what)
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
    if (
        target.exists()
        and not (target / CLASSIFIER.member).is_file()
        and (not target.is_dir() or any(target.iterdir()))
    ):
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


def _classifier_header(members: Members) -> dict[str, Any]:
    header = CLASSIFIER.read_header(members)
    parameters = header.get("parameters")
    expect(
        type(parameters) is dict
        and set(parameters) == set(DEFAULTS)
        and all(value is None or type(value) in (bool, int, str) for value in parameters.values())
        and type(header["classes"]) is dict
        and header["response"] in ("predict_proba", "predict_log_proba", "decision_function")
        and header["written_by"] in (SKOPS, USER)
        and type(header["n_pairs"]) is int
        and header["n_pairs"] >= 1,
        f"{CLASSIFIER.member} has unexpected keys or values",
    )
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
