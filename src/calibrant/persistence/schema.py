"""File format of calibrators: names, limits and errors.

A file is a zip archive of stored (not compressed) members: ``header.json``, then ``array_0.npy``,
``array_1.npy`` and so on, which the header refers to by number. The header is one JSON object::

    {"format": "calibrant calibrator", "schema_version": 2, "library_version": "...",
     "calibrator": {"class": "...", "parameters": {name: value}, "state": {name: value}},
     "probe": {"inputs": {"array": 1}, "outputs": {"array": 2}},
     "graph": {"columns": 3, "space": "probabilities", "output_space": "probabilities",
               "operations": [{"operation": "log", "of": [0], "floor": 1e-38}, ...]}}

``graph`` is the fitted map as a list of operations (see :mod:`calibrant.graph.plain`), which is sufficient for
predictions. It is null for methods without a graph, and absent in files of schema 1.

None, booleans, integers, finite floats, strings and lists are stored as in JSON. Every other value is an object with one
key that names its type, such as ``{"tuple": [...]}`` (see
:mod:`calibrant.persistence.writing`). A dict whose keys are all text is ``{"dict": {key: value}}``; one with
other keys too, which may be integers of up to 64 bits, booleans and finite floats, numpy's own included, is
``{"pairs": [[key, value], ...]}``, in which no key may equal another one as Python compares them, such as 1,
1.0 and true. A change that older versions would misread needs a new
``schema_version``; a new kind of value does not, since older versions refuse what they do not know.
"""

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calibrant.binning import EqualMass, EqualWidth, FixedEdges
from calibrant.errors import FileFormatError
from calibrant.solvers import Solution, Status
from calibrant.space import Space

__all__ = [
    "ARRAY_MEMBER",
    "ENUMERATIONS",
    "FORMAT",
    "HEADER_MEMBER",
    "MAX_DEPTH",
    "MAX_DIRECTORY_BYTES",
    "MAX_HEADER_BYTES",
    "MAX_HEADER_ITEMS",
    "MAX_INTEGER_BITS",
    "RECORDS",
    "SCHEMA_VERSION",
    "STATE_NAME",
    "UnreadableError",
    "UnstorableError",
    "array_member",
    "is_key",
    "naming",
    "quoted",
]

FORMAT: Final = "calibrant calibrator"
SCHEMA_VERSION: Final = 2
HEADER_MEMBER: Final = "header.json"
ARRAY_MEMBER: Final = re.compile(r"array_(0|[1-9][0-9]{0,8})\.npy")
STATE_NAME: Final = re.compile(r"[a-z][a-z0-9_]*_")

MAX_HEADER_BYTES: Final = 2**24
"""Sufficient for one-vs-rest maps of about 20,000 classes."""

MAX_HEADER_ITEMS: Final = 1_000_000
"""Maximum number of values in the header, each of which takes some hundred bytes as a Python object."""

MAX_DIRECTORY_BYTES: Final = 2**24
"""Maximum size of the directory of the archive, with about 60 bytes per array."""

MAX_DEPTH: Final = 64
"""Maximum nesting of values: sufficient for any calibrator, and far from exhausting the stack."""

MAX_KEY_BITS: Final = 64
"""Maximum size of integer keys: longer ones could be crafted to collide in a hash table."""

MAX_INTEGER_BITS: Final = 1024
"""Maximum size of integers: Python does not convert very long ones from and to text."""

RECORDS: Final[dict[str, type[Any]]] = {
    "EqualMass": EqualMass,
    "EqualWidth": EqualWidth,
    "FixedEdges": FixedEdges,
    "Solution": Solution,
}
"""Dataclasses that parameters and fitted state may contain, by the names under which they are stored."""

ENUMERATIONS: Final[dict[str, type[Status] | type[Space]]] = {"Status": Status, "Space": Space}
"""Enumerations that fitted state may contain; members are stored by name, so their texts may change."""


class UnreadableError(ValueError):
    """A file cannot be read; the message continues a sentence that starts with the name of the file."""


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert an :class:`UnreadableError` into the error that names the file."""
    try:
        yield
    except UnreadableError as error:
        raise FileFormatError(f"{os.fsdecode(path)} {error}.") from error


@dataclass
class UnstorableError(Exception):
    """A value cannot be stored in the format."""

    where: str
    what: str


def array_member(index: int) -> str:
    """Return the name of the member that holds array number ``index``."""
    return f"array_{index}.npy"


def is_key(value: object) -> bool:
    """Return whether a dict in a file may have ``value`` as a key.

    >>> is_key("a"), is_key(1), is_key(np.int64(1)), is_key(float("nan")), is_key((1, 2))
    (True, True, True, False, False)
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if type(plain) is int:
        return plain.bit_length() <= MAX_KEY_BITS
    if type(plain) is float:
        return math.isfinite(plain)
    return type(plain) in (str, bool)


def quoted(value: object) -> str:
    """Return a short ``repr``, for text from an untrusted file.

    >>> quoted("a" * 1000)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'"
    """
    text = repr(value[:100] if isinstance(value, str | bytes) else value)
    return text if len(text) <= 64 else f"{text[:60]}...{text[-1]}"
