"""From calibrators to JSON and a list of arrays."""

import inspect
import math
import struct
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError
from calibrant.persistence.npy import is_storable
from calibrant.persistence.schema import (
    ENUMERATIONS,
    MAX_DEPTH,
    MAX_INTEGER_BITS,
    RECORDS,
    STATE_NAME,
    UnstorableError,
    is_key,
    quoted,
)
from calibrant.registry import calibrator_class

__all__ = ["Encoder", "Replacement"]

RECORD_NAMES = {cls: name for name, cls in RECORDS.items()}
ENUMERATION_NAMES = {cls: name for name, cls in ENUMERATIONS.items()}
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Replacement:
    """A parameter that could not be stored, and the default that took its place."""

    where: str
    what: str
    default: Any


@dataclass
class Encoder:
    """Turns values into JSON; arrays are put aside in ``arrays`` and referred to by number.

    Types are compared exactly: a subclass may carry what the format does not know of.

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
        """Return class, parameters and fitted state; ``where`` is the path to it from the outermost."""
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
                # A default that cannot be stored either is left out: whoever reads the file has it too.
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
        """Return ``value`` as JSON; raises :class:`UnstorableError` with ``where`` if that cannot be."""
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
            # The bits, since there are many kinds of nan.
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
        return {"numpy_text": _checked_text(str.__str__(value), where)}  # str() would drop a last \0
    if not is_storable(value.dtype):
        raise UnstorableError(where, f"of type {type(value).__name__}")
    return {"scalar": [value.dtype.str, value.tobytes().hex()]}
