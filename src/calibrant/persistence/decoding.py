"""From JSON and arrays back to calibrators; every name and type is checked, nothing is evaluated."""

import inspect
import struct
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError
from calibrant.persistence.npy import Layout, array_from_bytes
from calibrant.persistence.schema import (
    ENUMERATIONS,
    MAX_DEPTH,
    RECORDS,
    STATE_NAME,
    UnreadableError,
    is_key,
    quoted,
)
from calibrant.registry import calibrator_class

__all__ = ["Decoder", "expect"]


def expect(condition: bool, complaint: str) -> None:
    """Raise :class:`UnreadableError` unless ``condition`` holds."""
    if not condition:
        raise UnreadableError(f"is damaged: {complaint}")


@dataclass(frozen=True)
class Decoder:
    """Turns JSON into values; arrays come from ``array_at``, called with their number.

    Examples
    --------
    >>> Decoder([np.zeros(3)].__getitem__).value({"tuple": [1, -0.0, {"array": 0}]})
    (1, -0.0, array([0., 0., 0.]))
    """

    array_at: Callable[[int], NDArray[Any]]

    def calibrator(self, node: Any, depth: int = 0) -> Calibrator:
        """Return the calibrator that ``node`` describes, fitted if it has any state."""
        expect(
            type(node) is dict and set(node) == {"class", "parameters", "state"},
            "a calibrator must have a class, parameters and a state, and nothing else",
        )
        name, parameters, state = node["class"], node["parameters"], node["state"]
        expect(type(name) is str, "the class of a calibrator must be text")
        expect(type(parameters) is dict, f"the parameters of {quoted(name)} must be a JSON object")
        expect(type(state) is dict, f"the state of {quoted(name)} must be a JSON object")
        cls = _known_class(name)
        _check_parameters(cls, parameters)
        for attribute in state:
            expect(
                STATE_NAME.fullmatch(attribute) is not None,
                f"{quoted(attribute)} cannot be a fitted attribute of {name}",
            )
        values = {key: self.value(part, depth + 1) for key, part in parameters.items()}
        try:
            calibrator = cls(**values)
        except Exception as error:
            raise UnreadableError(
                f"is damaged: {name} refuses its parameters ({quoted(str(error))})"
            ) from error
        # Straight into the dictionary: no property or descriptor of the class can be made to act.
        calibrator.__dict__.update({key: self.value(part, depth + 1) for key, part in state.items()})
        return calibrator

    def value(self, node: Any, depth: int = 0) -> Any:
        """Return the value that ``node`` stands for."""
        expect(depth <= MAX_DEPTH, f"values are nested more than {MAX_DEPTH} deep")
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if type(node) is list:
            return [self.value(item, depth + 1) for item in node]
        expect(len(node) == 1, f"a value must have one kind, not {quoted(sorted(node))}")
        ((kind, content),) = node.items()
        if kind == "tuple":
            expect(type(content) is list, "a tuple must be a list of values")
            return tuple(self.value(item, depth + 1) for item in content)
        if kind == "dict":
            expect(type(content) is dict, "a dict must be a JSON object")
            return {key: self.value(item, depth + 1) for key, item in content.items()}
        if kind == "pairs":
            return self._mapping(content, depth)
        if kind == "calibrator":
            return self.calibrator(content, depth)
        if kind == "record":
            return self._record(content, depth)
        if kind == "array":
            expect(type(content) is int and content >= 0, "an array must be referred to by its number")
            return self.array_at(content)
        return _leaf(kind, content)

    def _mapping(self, content: Any, depth: int) -> dict[Any, Any]:
        expect(type(content) is list, "the pairs of a dict must be a list")
        mapping = {}
        for item in content:
            node, part = _pair(item, "a key and its value")
            key = self.value(node, depth + 1)
            expect(is_key(key), f"{quoted(node)} cannot be a key of a dict")
            expect(key not in mapping, f"the key {quoted(key)} occurs twice")
            mapping[key] = self.value(part, depth + 1)
        return mapping

    def _record(self, content: Any, depth: int) -> Any:
        name, parts = _pair(content, "a record")
        expect(type(name) is str and name in RECORDS, f"{quoted(name)} is not a kind of record")
        cls = RECORDS[name]
        known = {part.name for part in fields(cls)}
        needed = {
            part.name for part in fields(cls) if part.default is MISSING and part.default_factory is MISSING
        }
        expect(
            type(parts) is dict and needed <= set(parts) <= known,
            f"the parts of a {name} must be {sorted(known)}",
        )
        values = {key: self.value(part, depth + 1) for key, part in parts.items()}
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            raise UnreadableError(f"is damaged: {name} refuses its parts ({quoted(str(error))})") from error


def _known_class(name: str) -> type[Calibrator]:
    try:
        return calibrator_class(name)
    except ParameterError:
        raise UnreadableError(
            f"holds a calibrator of the class {quoted(name)}, which is not known here; "
            "upgrade calibrant or install the package that provides it"
        ) from None


def _check_parameters(cls: type[Calibrator], parameters: dict[str, Any]) -> None:
    known = set(cls._get_param_names())
    unknown = sorted(set(parameters) - known)
    expect(not unknown, f"{cls.__name__} has no parameters {quoted(unknown)}")
    signature = inspect.signature(cls.__init__).parameters
    required = {name for name in known if signature[name].default is inspect.Parameter.empty}
    # Others may be missing: later versions of a class can have more of them than the file's writer knew.
    missing = sorted(required - set(parameters))
    expect(not missing, f"the parameters {missing} of {cls.__name__} are missing")


def _leaf(kind: str, content: Any) -> Any:
    if kind == "float":
        return struct.unpack(">d", _bytes(content, 8))[0]
    if kind == "numpy_text":
        expect(type(content) is str, "numpy text must be text")
        return np.str_(content)
    if kind == "scalar":
        return _numpy_scalar(content)
    expect(kind == "member", f"{quoted(kind)} is not a kind of value")
    name, member = _pair(content, "a member of an enumeration")
    expect(type(name) is str and name in ENUMERATIONS, f"{quoted(name)} is not an enumeration")
    members = ENUMERATIONS[name].__members__
    expect(type(member) is str and member in members, f"{name} has no member {quoted(member)}")
    return members[member]


def _numpy_scalar(content: Any) -> np.generic:
    item_type, digits = _pair(content, "a numpy scalar")
    expect(type(item_type) is str and "U" not in item_type, f"{quoted(item_type)} is not a scalar type")
    layout = Layout(item_type, (), "C")
    expect(layout.n_bytes > 0, f"{quoted(item_type)} is not a scalar type")
    data = np.frombuffer(_bytes(digits, layout.n_bytes), np.uint8)
    try:
        items: Any = array_from_bytes(data, layout)
    except UnreadableError as error:
        raise UnreadableError(f"is damaged: it has a numpy scalar {error}") from error
    scalar: np.generic = items[()]
    return scalar


def _pair(content: Any, what: str) -> tuple[Any, Any]:
    expect(type(content) is list and len(content) == 2, f"{what} must be a list of two")
    return content[0], content[1]


def _bytes(digits: Any, size: int) -> bytes:
    try:
        data = bytes.fromhex(digits)
    except (TypeError, ValueError):
        data = b""
    expect(len(data) == size, f"{quoted(digits)} is not a number of {size} bytes")
    return data
