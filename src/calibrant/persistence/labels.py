"""Save and load the calibrators of several labels in one file, without pickle."""

import io
import json
import os
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

import calibrant
from calibrant.calibrator import Calibrator
from calibrant.errors import FileFormatError, ParameterError
from calibrant.persistence.archive import EPOCH
from calibrant.persistence.members import content_of, members_in
from calibrant.persistence.reading import expect, parsed_json, read_calibrator
from calibrant.persistence.replacing import replacing
from calibrant.persistence.schema import UnreadableError, quoted
from calibrant.persistence.writing import save

__all__ = ["labels_from", "load_labels", "save_labels"]

FORMAT = "calibrant labels"
SCHEMA_VERSION = 1
HEADER = "labels.json"
KEYS = {
    "format",
    "schema_version",
    "library_version",
    "class",
    "parameters",
    "names",
    "strength",
    "n_calibrators",
}
WHAT = "calibrator of several labels"
MAX_HEADER_BYTES = 2**24


class OfLabels(Protocol):
    """The part of a calibrator of several labels that is saved."""

    calibrators_: list[Calibrator]
    names_: list[str] | None

    def __init__(self, **parameters: Any) -> None: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters."""
        ...


Some = TypeVar("Some", bound=OfLabels)


def save_labels(owner: OfLabels, path: str | os.PathLike[str]) -> None:
    """Write the fitted calibrators of all labels to a zip file; saving again gives the same bytes."""
    check_is_fitted(owner, msg="this %(name)s is not fitted, so there is nothing to save; call fit first.")
    parameters = owner.get_params(deep=False)
    if isinstance(parameters["method"], Calibrator):
        parameters["method"] = None  # every label has a fitted copy of it
    header = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "library_version": calibrant.__version__,
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
        text = json.dumps(header, ensure_ascii=False, allow_nan=False)
        archive.writestr(zipfile.ZipInfo(HEADER, EPOCH), text)
        file = Path(folder, "calibrator.npz")
        for number, calibrator in enumerate(owner.calibrators_):
            save(calibrator, file)
            archive.writestr(zipfile.ZipInfo(_member(number), EPOCH), file.read_bytes())


def load_labels(cls: type[Some], path: str | os.PathLike[str]) -> Some:
    """Return the fitted object that :func:`save_labels` wrote."""
    try:
        return labels_from(cls, Path(path).read_bytes())
    except UnreadableError as error:
        raise FileFormatError(f"{os.fsdecode(path)} {error}.") from error


def labels_from(cls: type[Some], content: bytes) -> Some:
    """Return the fitted object in the bytes of a file; raises :class:`UnreadableError` if there is none."""
    members = members_in(content)
    try:
        header = parsed_json(content_of(members, HEADER, WHAT, MAX_HEADER_BYTES))
    except UnreadableError:
        raise
    except ValueError as error:
        raise UnreadableError(f"is damaged: {HEADER} is not valid JSON") from error
    if type(header) is not dict or header.get("format") != FORMAT:
        raise UnreadableError(f"is not a saved {WHAT}: its header names another format")
    if header.get("schema_version") != SCHEMA_VERSION:
        raise UnreadableError(
            f"has schema {quoted(header.get('schema_version'))}, but this version reads {SCHEMA_VERSION}; upgrade calibrant"
        )
    expect(set(header) == KEYS, f"{HEADER} must have the keys {sorted(KEYS)}")
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
        read_calibrator(io.BytesIO(content_of(members, _member(number), WHAT)))
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


def _member(number: int) -> str:
    return f"calibrator_{number}.npz"
