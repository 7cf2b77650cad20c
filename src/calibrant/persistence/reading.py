"""load: read a calibrator from a file of any origin; names and types are checked, nothing is evaluated."""

import inspect
import io
import json
import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError
from calibrant.graph import GraphError, MapGraph
from calibrant.graph.plain import graph_from_plain
from calibrant.persistence.archive import ArchiveReader, File, Layout, array_from_bytes
from calibrant.persistence.schema import (
    ENUMERATIONS,
    FORMAT,
    HEADER_MEMBER,
    MAX_DEPTH,
    MAX_HEADER_ITEMS,
    RECORDS,
    SCHEMA_VERSION,
    STATE_NAME,
    UnreadableError,
    array_member,
    is_key,
    naming,
    quoted,
)
from calibrant.persistence.validation import MAX_ROWS, Probe, UnsoundError, check_fitted
from calibrant.registry import calibrator_class
from calibrant.space import Space

__all__ = [
    "checked_header",
    "checked_probe",
    "expect",
    "load",
    "load_graph",
    "opened",
    "parsed_json",
    "read_calibrator",
]

HEADER_KEYS = {"format", "schema_version", "library_version", "calibrator", "probe"}

LONGEST_COMPLAINT = 200

GRAPH_SINCE = 2  # the schema version from which on a header has a graph


def load_graph(path: str | os.PathLike[str]) -> MapGraph:
    """Load the graph of the fitted map from a file of :meth:`calibrant.Calibrator.save`.

    Only the graph is read, so the class of the calibrator need not be installed. Its ``space`` is that of the scores.

    Raises
    ------
    FileFormatError
        If the file is damaged, is not a calibrator file, or has no graph.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from calibrant import TemperatureScaling
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "calibrator.npz")
    ...     TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1]).save(path)
    ...     graph = load_graph(path)
    >>> graph(np.array([[0.9, 0.1]]))
    array([[0.75, 0.25]])
    """
    with naming(path), opened(path) as stream:
        return read_graph(stream)


def load(path: str | os.PathLike[str]) -> Calibrator:
    """Load a fitted calibrator from a file of :meth:`calibrant.Calibrator.save`.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    Calibrator
        With the class, parameters and fitted state that were saved; predictions on the same machine are bit-identical.

    Raises
    ------
    FileFormatError
        If the file is damaged, is not a calibrator file, or was written by a newer calibrant.
    FileNotFoundError
        If there is no such file.

    Notes
    -----
    Files from untrusted sources are safe. Nothing in them is evaluated, unpickled or imported, arrays take no more memory
    than the size of the file, and names of classes, parameters and attributes are checked. Fitted arrays must be finite,
    and methods check index structures such as trees. The file contains probe rows with their predictions, which are
    repeated in bounded time; a file whose predictions differ by more than 1e-6 is refused.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from calibrant import TemperatureScaling, load
    >>> fitted = TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "calibrator.npz")
    ...     fitted.save(path)
    ...     loaded = load(path)
    >>> loaded
    TemperatureScaling()
    >>> loaded.temperature_ == fitted.temperature_
    True
    """
    with naming(path), opened(path) as stream:
        return read_calibrator(stream)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[io.BufferedReader]:
    """Open a regular file; pipes would block, and devices may never end."""

    def without_waiting(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    with open(path, "rb", opener=without_waiting) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise UnreadableError(
                "is not a regular file but a pipe or a device; copy its content into a file"
            )
        yield stream


def read_calibrator(stream: File) -> Calibrator:
    """Return the calibrator in an open file; raises :class:`UnreadableError` if there is none."""
    archive = ArchiveReader(stream)
    header = _parsed_header(archive.header())
    arrays = archive.arrays()

    # First without the arrays, so that no memory is allocated for an invalid header.
    referred: list[int] = []

    def stand_in(index: int) -> NDArray[Any]:
        referred.append(index)
        return np.empty(0)

    _decoded(header, Decoder(stand_in))
    _refer_to_arrays(header.get("graph"), stand_in)
    missing = sorted(set(referred) - set(range(len(arrays))))
    expect(not missing, f"{array_member(missing[0]) if missing else ''} is missing")
    expect(len(referred) == len(arrays), "some arrays are referred to twice or never")

    decoder = Decoder(lambda index: archive.read(arrays[index]))
    calibrator, probe = _decoded(header, decoder)
    _check_base(calibrator)
    try:
        check_fitted(calibrator)
    except UnsoundError as error:
        raise UnreadableError(f"is damaged: {error}") from error
    checked = checked_probe(probe, len(calibrator.classes_))
    checked.check(calibrator, archive.n_bytes)
    if header.get("graph") is not None:
        checked.check_graph(_decoded_graph(header["graph"], decoder), archive.n_bytes)
    return calibrator


def read_graph(stream: File) -> MapGraph:
    """Return the graph in an open file without decoding the calibrator; checked on the probe rows."""
    archive = ArchiveReader(stream)
    header = _parsed_header(archive.header())
    arrays = archive.arrays()
    if header.get("graph") is None:
        raise UnreadableError(
            "has no graph: it was written by version 0.1, or its method has none; load it and save it again"
        )

    nodes = _probe_nodes(header)
    referred: set[int] = set()

    def refer(index: int) -> None:
        expect(0 <= index < len(arrays), f"{array_member(index)} is missing")
        # An array with many references would take many times the memory of the file.
        expect(index not in referred, f"{array_member(index)} is referred to twice")
        referred.add(index)

    _refer_to_arrays([header["graph"], *nodes], refer)
    decoder = Decoder(lambda index: archive.read(arrays[index]))
    graph = _decoded_graph(header["graph"], decoder)
    inputs, outputs = map(decoder.value, nodes)
    checked_probe((inputs, outputs), graph.n_columns).check_graph(graph, archive.n_bytes)
    return graph


def _decoded_graph(content: Any, decoder: "Decoder") -> MapGraph:
    try:
        return graph_from_plain(content, decoder.value)
    except GraphError as error:
        complaint = str(error)  # may contain a long list of widths
        shown = complaint if len(complaint) <= LONGEST_COMPLAINT else f"{complaint[:LONGEST_COMPLAINT]}..."
        raise UnreadableError(f"is damaged: {shown}") from error


def _refer_to_arrays(content: Any, array_at: Callable[[int], Any]) -> None:
    """Call ``array_at`` with the number of every array that a graph refers to."""
    pending = [content]
    while pending:
        part = pending.pop()
        if type(part) is dict:
            if set(part) == {"array"}:
                expect(type(part["array"]) is int, "an array must be referred to by its number")
                array_at(part["array"])
            else:
                pending.extend(part.values())
        elif type(part) is list:
            pending.extend(part)


def _parsed_header(text: bytes) -> dict[str, Any]:
    if sum(map(text.count, (b",", b"[", b"{"))) > MAX_HEADER_ITEMS:
        raise UnreadableError(f"has more than {MAX_HEADER_ITEMS} values in its {HEADER_MEMBER}")
    header = checked_header(text, HEADER_MEMBER, "calibrator file", FORMAT, SCHEMA_VERSION)
    keys = HEADER_KEYS | {"graph"} if header["schema_version"] >= GRAPH_SINCE else HEADER_KEYS
    expect(set(header) == keys, f"the header must have the keys {sorted(keys)}")
    expect(type(header["library_version"]) is str, "the library version must be text")
    return header


def checked_header(text: bytes, member: str, what: str, file_format: str, newest: int) -> dict[str, Any]:
    """Return the header of a ``what`` after checking its format and that its schema is no newer than ``newest``."""
    try:
        header = parsed_json(text)
    except ValueError as error:
        raise UnreadableError(f"is damaged: {member} is not valid JSON") from error
    if type(header) is not dict or header.get("format") != file_format:
        raise UnreadableError(f"is not a {what}: its header names another format")
    version = header.get("schema_version")
    if type(version) is not int or version < 1:
        raise UnreadableError(f"is damaged: the schema version {quoted(version)} is invalid")
    if version > newest:
        raise UnreadableError(
            f"was written by a newer calibrant (schema {quoted(version)}; this version reads {newest}); upgrade calibrant"
        )
    return header


def parsed_json(text: bytes) -> Any:
    """Parse strict JSON in UTF-8; ``ValueError`` for duplicate keys, NaN and too much nesting."""
    try:
        return json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("values are nested too deeply") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) < len(pairs):
        raise ValueError("a key occurs twice")
    return keys


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _decoded(header: dict[str, Any], decoder: "Decoder") -> tuple[Calibrator, tuple[Any, Any]]:
    inputs, outputs = _probe_nodes(header)
    calibrator = decoder.calibrator(header["calibrator"])
    return calibrator, (decoder.value(inputs), decoder.value(outputs))


def _probe_nodes(header: dict[str, Any]) -> tuple[Any, Any]:
    probe = header["probe"]
    expect(
        type(probe) is dict and set(probe) == {"inputs", "outputs"}, "the probe must have inputs and outputs"
    )
    return probe["inputs"], probe["outputs"]


def _check_base(calibrator: Calibrator) -> None:
    """Check the attributes that every fitted calibrator has; the probe tests the rest."""
    state = vars(calibrator)
    classes = state.get("classes_")
    expect(
        isinstance(classes, np.ndarray)
        and classes.ndim == 1
        and classes.dtype.kind in "biufU"
        and len(np.unique(classes)) == len(classes) >= 2,
        "classes_ must be two or more different labels",
    )
    space = state.get("space_")
    expect(type(space) is str and space in list(Space), f"space_ is {quoted(space)}")


def checked_probe(probe: tuple[Any, Any], n_classes: int, n_columns: int | None = None) -> Probe:
    """Return the probe after checking the shapes of its rows; ``n_columns`` of scores, by default one per class."""
    inputs, outputs = probe
    widths = (n_classes if n_columns is None else n_columns, n_classes)
    for rows, width in zip((inputs,) if outputs is None else (inputs, outputs), widths, strict=False):
        expect(
            isinstance(rows, np.ndarray)
            and rows.dtype.kind == "f"
            and rows.ndim == 2
            and rows.shape == (len(inputs), width)
            and 1 <= len(rows) <= MAX_ROWS
            and bool(np.isfinite(rows).all()),
            f"the probe must be 1 to {MAX_ROWS} rows of {width} numbers",
        )
    return Probe(inputs, outputs)


def expect(condition: bool, complaint: str) -> None:
    """Raise :class:`UnreadableError` unless ``condition`` holds."""
    if not condition:
        raise UnreadableError(f"is damaged: {complaint}")


@dataclass(frozen=True)
class Decoder:
    """Decoder of JSON values; ``array_at(number)`` returns an array.

    Examples
    --------
    >>> Decoder([np.zeros(3)].__getitem__).value({"tuple": [1, -0.0, {"array": 0}]})
    (1, -0.0, array([0., 0., 0.]))
    """

    array_at: Callable[[int], NDArray[Any]]

    def calibrator(self, node: Any, depth: int = 0) -> Calibrator:
        """Decode a calibrator; it is fitted if it has any state."""
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
        # Directly into the dictionary, so that no property or descriptor of the class is called.
        calibrator.__dict__.update({key: self.value(part, depth + 1) for key, part in state.items()})
        return calibrator

    def value(self, node: Any, depth: int = 0) -> Any:
        """Decode a value."""
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
    # Others may be missing: later versions of a class can have more parameters than the version that wrote the file.
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
