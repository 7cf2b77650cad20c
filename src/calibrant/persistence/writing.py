"""save: write a fitted calibrator to one file."""

import inspect
import json
import math
import os
import struct
import warnings
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import calibrant
from calibrant.calibrator import Calibrator
from calibrant.errors import CalibrationWarning, FileFormatError, NoGraphError, ParameterError
from calibrant.graph.plain import graph_to_plain
from calibrant.persistence.archive import is_storable, write_archive
from calibrant.persistence.reading import read_calibrator
from calibrant.persistence.replacing import replacing
from calibrant.persistence.schema import (
    ENUMERATIONS,
    FORMAT,
    MAX_DEPTH,
    MAX_INTEGER_BITS,
    RECORDS,
    SCHEMA_VERSION,
    STATE_NAME,
    UnreadableError,
    UnstorableError,
    is_key,
    quoted,
)
from calibrant.persistence.validation import Probe, UnsoundError, check_fitted
from calibrant.registry import calibrator_class

__all__ = ["Encoder", "save"]


def save(calibrator: Calibrator, path: str | os.PathLike[str]) -> None:
    """Write a fitted calibrator to ``path``; :func:`calibrant.load` reads it.

    The file is read back and must reproduce the predictions before it replaces an older one; on any error the older file is
    unchanged. Saving the same calibrator always gives the same bytes.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted. Its parameters and all attributes that end in an underscore are stored: numbers, strings, arrays, lists,
        tuples, dicts whose keys are strings or numbers, and other calibrators.
    path : path-like
        No ending is added; ``.npz`` is usual, and ``numpy.load`` can read the arrays.

    Raises
    ------
    NotFittedError
        If the calibrator is not fitted.
    FileFormatError
        If a fitted attribute cannot be stored, or the saved file does not reproduce the predictions.

    Warns
    -----
    CalibrationWarning
        If a parameter cannot be stored, such as a splitter for ``cv``; its default is stored instead.

    Notes
    -----
    Costs three predictions of five rows, and writing and reading the fitted arrays once.
    """
    name = type(calibrator).__name__
    probe = _probe(calibrator, name)
    encoder = Encoder()
    try:
        content = encoder.calibrator(calibrator)
    except UnstorableError as error:
        subject = f"its {error.where} is" if error.where else "it is"
        raise FileFormatError(
            f"{name} cannot be saved, because {subject} {error.what}; a file holds numbers, text, arrays, "
            "lists, tuples, dicts and the calibrators of the registry."
        ) from None
    try:
        check_fitted(calibrator)
    except UnsoundError as error:
        raise FileFormatError(
            f"{name} cannot be saved, because {error}; fit it again with finite numbers, or name attributes in which NaN "
            "has a meaning in _non_finite_state of the class."
        ) from error
    for replacement in encoder.replacements:
        warnings.warn(
            f"the parameter {replacement.where} of {name} is {replacement.what}, which a file cannot hold; "
            f"its default {replacement.default!r} is saved instead and would be used in another fit.",
            CalibrationWarning,
            stacklevel=3,
        )
    header = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "library_version": calibrant.__version__,
        "calibrator": content,
        "probe": {
            "inputs": encoder.value(probe.inputs, "probe"),
            "outputs": encoder.value(probe.outputs, "probe"),
        },
        "graph": _graph(calibrator, encoder),
    }
    text = json.dumps(header, ensure_ascii=False, allow_nan=False).encode()
    with replacing(path) as stream:
        write_archive(stream, text, encoder.arrays)
        try:
            read_calibrator(stream)
        except UnreadableError as error:
            dropped = ", ".join(replacement.where for replacement in encoder.replacements)
            advice = (
                f"its predictions need {dropped}, which cannot be stored"
                if dropped
                else "all that it needs must be in its parameters and in attributes that end in an underscore"
            )
            raise FileFormatError(
                f"{name} cannot be saved, because what was written {error}; {advice}."
            ) from error


def _graph(calibrator: Calibrator, encoder: "Encoder") -> dict[str, Any] | None:
    """Return the graph of the fitted map, or None if it has none."""
    try:
        graph = calibrator.graph()
    except NoGraphError:
        return None
    return graph_to_plain(graph, lambda array: encoder.value(array, "graph"))


def _probe(calibrator: Calibrator, name: str) -> Probe:
    check_is_fitted(
        calibrator, msg="this %(name)s is not fitted, so there is nothing to save; call fit first."
    )
    try:
        return Probe.of(calibrator)
    except Exception as error:
        # For example after a fit that failed.
        raise NotFittedError(
            f"this {name} cannot be saved, because it does not predict ({type(error).__name__}: {error}); "
            "fit it again."
        ) from error


RECORD_NAMES = {cls: name for name, cls in RECORDS.items()}
ENUMERATION_NAMES = {cls: name for name, cls in ENUMERATIONS.items()}
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Replacement:
    """A parameter that cannot be stored, and the default that replaces it."""

    where: str
    what: str
    default: Any


@dataclass
class Encoder:
    """Encoder of values as JSON; arrays are collected in ``arrays`` and referred to by number.

    Types are compared exactly, because a subclass may have attributes that the format does not store.

    Examples
    --------
    >>> encoder = Encoder()
    >>> encoder.value((1, -0.0, np.zeros(3)), "example_")
    {'tuple': [1, -0.0, {'array': 0}]}
    >>> encoder.arrays
    [array([0., 0., 0.])]
    """

    arrays: list[NDArray[Any]] = field(default_factory=list)
    replacements: list[Replacement] = field(default_factory=list)

    def calibrator(self, calibrator: Calibrator, where: str = "", depth: int = 0) -> dict[str, Any]:
        """Return class, parameters and fitted state; ``where`` is the path from the outermost calibrator."""
        cls = type(calibrator)
        _check_known(cls, where)
        prefix = f"{where}." if where else ""
        defaults = inspect.signature(cls.__init__).parameters
        parameters = {}
        for name, value in calibrator.get_params(deep=False).items():
            try:
                parameters[name] = self._undone_on_failure(value, prefix + name, depth + 1)
            except UnstorableError as error:
                default = defaults[name].default
                if default is REQUIRED:
                    raise
                if value is not default:
                    self.replacements.append(Replacement(prefix + name, error.what, default))
                # A default that cannot be stored either is omitted, since the reader has it too.
                with suppress(UnstorableError):
                    parameters[name] = self._undone_on_failure(default, prefix + name, depth + 1)
        state = {}
        for name, value in vars(calibrator).items():
            if name.endswith("_") and not name.startswith("_"):
                if not STATE_NAME.fullmatch(name):
                    raise UnstorableError(prefix + name, "named otherwise than in lower case")
                state[name] = self.value(value, prefix + name, depth + 1)
        return {"class": cls.__name__, "parameters": parameters, "state": state}

    def value(self, value: Any, where: str, depth: int = 0) -> Any:
        """Return ``value`` as JSON; raises :class:`UnstorableError` with ``where`` if it cannot be stored."""
        if depth > MAX_DEPTH:
            raise UnstorableError(where, f"nested more than {MAX_DEPTH} deep, or contains itself")
        cls = type(value)
        if value is None or cls is bool:
            return value
        if cls is int:
            if value.bit_length() > MAX_INTEGER_BITS:
                raise UnstorableError(where, f"an integer of more than {MAX_INTEGER_BITS} bits")
            return value
        if cls is float:
            # The bits, since there are many NaNs.
            return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}
        if cls is str:
            return _checked_text(value, where)
        if cls is list:
            return self._items(value, where, depth)
        if cls is tuple:
            return {"tuple": self._items(value, where, depth)}
        if cls is dict:
            return self._mapping(value, where, depth)
        if isinstance(value, np.generic):
            return _numpy_scalar(value, where)
        if cls is np.ndarray or cls is np.memmap:
            return self._array(value, where)
        if cls in RECORD_NAMES:
            content = {
                part.name: self.value(getattr(value, part.name), f"{where}.{part.name}", depth + 1)
                for part in fields(value)
            }
            return {"record": [RECORD_NAMES[cls], content]}
        if cls in ENUMERATION_NAMES:
            return {"member": [ENUMERATION_NAMES[cls], value.name]}
        if isinstance(value, Calibrator):
            return {"calibrator": self.calibrator(value, where, depth)}
        raise UnstorableError(where, f"of type {cls.__name__}")

    def _undone_on_failure(self, value: Any, where: str, depth: int) -> Any:
        n_arrays, n_replacements = len(self.arrays), len(self.replacements)
        try:
            return self.value(value, where, depth)
        except UnstorableError:
            del self.arrays[n_arrays:], self.replacements[n_replacements:]
            raise

    def _items(self, values: list[Any] | tuple[Any, ...], where: str, depth: int) -> list[Any]:
        return [self.value(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(values)]

    def _mapping(self, mapping: dict[Any, Any], where: str, depth: int) -> dict[str, Any]:
        for key in mapping:
            if not is_key(key):
                kind = quoted(key) if isinstance(key, int | float) else f"of type {type(key).__name__}"
                raise UnstorableError(where, f"a dict with a key {kind}")
        items = {key: self.value(item, f"{where}[{key!r}]", depth + 1) for key, item in mapping.items()}
        if all(type(key) is str for key in mapping):
            return {"dict": {_checked_text(key, where): item for key, item in items.items()}}
        # The keys of a JSON object are text.
        return {"pairs": [[self.value(key, where, depth + 1), item] for key, item in items.items()]}

    def _array(self, array: NDArray[Any], where: str) -> dict[str, int]:
        if not is_storable(array.dtype):
            raise UnstorableError(where, f"an array of type {array.dtype}")
        self.arrays.append(np.asarray(array))
        return {"array": len(self.arrays) - 1}


def _check_known(cls: type[Calibrator], where: str) -> None:
    try:
        known = calibrator_class(cls.__name__)
    except ParameterError:
        known = None
    if known is not cls:
        raise UnstorableError(where, f"of class {cls.__name__}, which the registry does not know")


def _checked_text(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        # JSON would join two surrogates into one character.
        raise UnstorableError(where, "text with a lone surrogate") from None
    return text


def _numpy_scalar(value: np.generic, where: str) -> dict[str, Any]:
    if isinstance(value, np.str_):
        return {"numpy_text": _checked_text(str.__str__(value), where)}  # str() would drop a trailing \0
    if not is_storable(value.dtype):
        raise UnstorableError(where, f"of type {type(value).__name__}")
    return {"scalar": [value.dtype.str, value.tobytes().hex()]}
