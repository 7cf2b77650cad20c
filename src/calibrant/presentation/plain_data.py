"""Results as plain data: dataclasses to dictionaries and JSON, and back with type checks."""

import json
from dataclasses import fields, is_dataclass
from functools import cache
from math import inf, isfinite, isnan, nan
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from calibrant.errors import FileFormatError

__all__ = ["as_json", "from_plain", "to_plain"]

Contents = TypeVar("Contents")

# Strict JSON has no non-finite numbers.
NOT_FINITE = {"Infinity": inf, "-Infinity": -inf, "NaN": nan}


def to_plain(value: Any, *, strict: bool = False, nan_is_null: bool = False) -> Any:
    """Convert a dataclass, dictionary, list, NumPy array or scalar, and whatever these contain, to plain data.

    ``strict`` converts non-finite numbers, which JSON lacks, to the strings "Infinity", "-Infinity" and "NaN".
    ``nan_is_null`` converts NaN to None.

    >>> to_plain((1, float("inf")), strict=True), to_plain({"low": float("nan")}, nan_is_null=True)
    ([1, 'Infinity'], {'low': None})
    """

    def plain(each: Any) -> Any:
        return to_plain(each, strict=strict, nan_is_null=nan_is_null)

    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # a NumPy array or scalar, which this file need not import
        return plain(value.tolist())
    if isinstance(value, float) and not isfinite(value):
        if isnan(value) and nan_is_null:
            return None
        if strict:
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def as_json(value: Any) -> str:
    """Return a result as strict JSON, with a final line end."""
    plain = to_plain(value, strict=True)
    return f"{json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)}\n"


def from_plain(kind: type[Contents], plain: Any, where: str = "report") -> Contents:
    """Return a dataclass from the output of :func:`to_plain`; reject anything else, naming the wrong field."""
    found: Contents = _read(kind, plain, where)
    return found


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, plain: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        return _read_dataclass(kind, plain, where)
    if origin in (Union, UnionType):
        if plain is None and NoneType in arguments:
            return None
        others = [argument for argument in arguments if argument is not NoneType]
        return _read(others[0], plain, where)
    if origin is Literal:
        if plain in arguments:
            return plain
        raise _wrong(where, f"one of {', '.join(map(repr, arguments))}", plain)
    if origin is tuple:
        if not isinstance(plain, list | tuple):
            raise _wrong(where, "a list", plain)
        return tuple(_read(arguments[0], entry, f"{where}[{place}]") for place, entry in enumerate(plain))
    if origin is dict:
        if not isinstance(plain, dict):
            raise _wrong(where, "an object", plain)
        return {str(key): _read(arguments[1], entry, f"{where}.{key}") for key, entry in plain.items()}
    return _read_simple(kind, plain, where)


def _read_dataclass(kind: type, plain: Any, where: str) -> Any:
    if not isinstance(plain, dict):
        raise _wrong(where, "an object", plain)
    hints = _hints(kind)
    unknown = set(plain) - set(hints)
    if unknown:
        raise FileFormatError(
            f"{where} has an unknown field {sorted(unknown)[0]!r}; it is not a report of this version."
        )
    given = {name: _read(hints[name], entry, f"{where}.{name}") for name, entry in plain.items()}
    try:
        return kind(**given)
    except TypeError as error:
        raise FileFormatError(f"{where} lacks a field: {error}.") from error


def _read_simple(kind: type, plain: Any, where: str) -> Any:
    if kind is float:
        if isinstance(plain, str) and plain in NOT_FINITE:
            return NOT_FINITE[plain]
        if isinstance(plain, int | float) and not isinstance(plain, bool):
            return float(plain)
        raise _wrong(where, "a number", plain)
    if isinstance(plain, kind) and not (kind is int and isinstance(plain, bool)):
        return plain
    raise _wrong(where, {int: "an integer", str: "text", bool: "true or false"}[kind], plain)


def _wrong(where: str, wanted: str, plain: Any) -> FileFormatError:
    shown = repr(plain)
    return FileFormatError(
        f"{where} must be {wanted}, but is {shown if len(shown) < 60 else f'{shown[:57]}...'}."
    )
