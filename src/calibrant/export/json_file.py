"""JSON exports: the graph of a fitted calibrator for interpreters in any language.

A file is one JSON object::

    {"format": "calibrant graph", "version": 1, "library_version": "...", "float_type": "float64",
     "classes": ["cat", "dog"], "columns": ["p_cat", "p_dog"],
     "graph": {"columns": 2, "space": "probabilities", "output_space": "probabilities",
               "operations": [{"operation": "log", "of": [0], "floor": 1e-38}, ...]},
     "probe": {"inputs": [[0.3, 0.7], ...], "outputs": [[0.4, 0.6], ...]}}

Arrays are lists, or lists of lists, row by row. Numbers of float arrays have a decimal point or an exponent and round-trip.
Infinity, which means no bound, is the text ``"Infinity"`` or ``"-Infinity"``. An array without entries is
``{"empty": "integers" or "floats", "shape": [0, 2]}``.
"""

import json
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import calibrant
from calibrant.arrays import AnyArray
from calibrant.export.backend import Backend, Exportable
from calibrant.graph import GraphError, one_column
from calibrant.graph.plain import graph_from_plain, graph_to_plain
from calibrant.persistence.reading import checked_probe, expect, opened, parsed_json
from calibrant.persistence.schema import UnreadableError, naming, quoted
from calibrant.persistence.validation import probe_inputs

__all__ = ["BACKEND", "interpreter_source", "json_of", "load_json"]

FORMAT: Final = "calibrant graph"
VERSION: Final = 1
KEYS: Final = {"format", "version", "library_version", "float_type", "classes", "columns", "graph", "probe"}

MAX_BYTES: Final = 2**28
MAX_VALUES: Final = 20_000_000
"""Maximum number of values in a file, each of which takes some tens of bytes as a Python object."""

INFINITIES: Final = {"Infinity": np.inf, "-Infinity": -np.inf}


def json_of(exportable: Exportable) -> dict[str, Any]:
    """Return the content of a JSON file: a graph, the names of classes and columns, and probe rows."""
    graph = exportable.graph
    inputs = probe_inputs(graph.n_outputs, graph.space)
    if graph.n_columns == 1:
        inputs = one_column(inputs, graph.space)
    inputs = inputs.astype(exportable.dtype)
    return {
        "format": FORMAT,
        "version": VERSION,
        "library_version": calibrant.__version__,
        "float_type": exportable.dtype.name,
        "classes": list(exportable.classes),
        "columns": list(exportable.columns),
        "graph": graph_to_plain(graph, _listed),
        "probe": {"inputs": _listed(inputs), "outputs": _listed(graph(inputs))},
    }


def load_json(path: str | os.PathLike[str]) -> Exportable:
    """Load a JSON export: the graph with its classes, columns and float type.

    Raises
    ------
    FileFormatError
        If the file is damaged, is not a JSON export, or was written by a newer calibrant.

    Notes
    -----
    Files from untrusted sources are safe: nothing in them is evaluated. The graph is checked like that of a saved
    calibrator, and it must reproduce the probe outputs of the file in bounded time.
    """
    with naming(path), opened(path) as stream:
        return _read(stream.read(MAX_BYTES + 1))


def interpreter_source() -> str:
    """Return the JavaScript interpreter of JSON files; see :doc:`/javascript`."""
    return files("calibrant.export").joinpath("interpreter.js").read_text(encoding="utf-8")


def _listed(array: AnyArray) -> Any:
    if array.size == 0:
        return {"empty": "integers" if array.dtype.kind in "iu" else "floats", "shape": list(array.shape)}
    if array.dtype.kind in "iu" or np.isfinite(array).all():
        return array.tolist()
    return _with_names(array.tolist())


def _with_names(numbers: Any) -> Any:
    if isinstance(numbers, list):
        return [_with_names(number) for number in numbers]
    return numbers if np.isfinite(numbers) else "Infinity" if numbers > 0 else "-Infinity"


def _read(text: bytes) -> Exportable:
    if len(text) > MAX_BYTES:
        raise UnreadableError(f"has more than {MAX_BYTES} bytes")
    if sum(map(text.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise UnreadableError(f"has more than {MAX_VALUES} values")
    try:
        content = parsed_json(text)
    except ValueError as error:
        raise UnreadableError("is damaged: it is not valid JSON; export the calibrator again") from error
    if type(content) is not dict or content.get("format") != FORMAT:
        raise UnreadableError(f"is not a {FORMAT}: it names another format; pass a file that export wrote")
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise UnreadableError(f"is damaged: the version {quoted(version)} is invalid")
    if version > VERSION:
        raise UnreadableError(
            f"was written by a newer calibrant (version {quoted(version)} of the format; this one reads {VERSION}); "
            "upgrade calibrant"
        )
    expect(set(content) == KEYS, f"it must have the keys {sorted(KEYS)}")
    float_type = content["float_type"]
    expect(float_type in ("float32", "float64"), f"its float type is {quoted(float_type)}")
    try:
        graph = graph_from_plain(content["graph"], _array)
    except GraphError as error:
        raise UnreadableError(f"is damaged: {quoted(str(error))}") from error
    widths = (graph.n_columns, graph.n_outputs)
    expect(
        widths[0] == widths[1] or widths == (1, 2),
        "its graph must have a column per class, or one for two classes",
    )
    names = []
    for key, number in (("classes", widths[1]), ("columns", widths[0])):
        own = content[key]
        expect(
            type(own) is list
            and len(own) == number
            and all(type(name) is str for name in own)
            and len(set(own)) == len(own),
            f"{key} must be {number} different texts" if number > 1 else f"{key} must be one text",
        )
        names.append(tuple(own))
    probe = content["probe"]
    expect(
        type(probe) is dict and set(probe) == {"inputs", "outputs"}, "the probe must have inputs and outputs"
    )
    dtype = np.dtype(float_type)
    rows = [_array(probe[name]) for name in ("inputs", "outputs")]
    expect(
        all(row.dtype.kind == "f" for row in rows), "the probe must be rows of numbers with a decimal point"
    )
    checked_probe((rows[0].astype(dtype), rows[1]), widths[1], widths[0]).check_graph(graph, len(text))
    return Exportable(graph, names[0], names[1], dtype)


def _array(value: Any) -> AnyArray:
    """Return the array that JSON values encode; anything else fails the checks of the graph."""
    if type(value) is dict and set(value) == {"empty", "shape"}:
        shape = value["shape"]
        expect(
            value["empty"] in ("integers", "floats")
            and type(shape) is list
            and 1 <= len(shape) <= 2
            and all(type(length) is int and 0 <= length <= MAX_VALUES for length in shape)
            and 0 in shape,
            "an array without entries must say its kind and its shape",
        )
        return np.empty(shape, np.intp if value["empty"] == "integers" else np.float64)
    if type(value) is str and value in INFINITIES:
        return np.asarray(INFINITIES[value])
    expect(type(value) is list and len(value) > 0, f"{quoted(value)} is no array")
    rows = value if type(value[0]) is list else [value]
    kinds = {type(number) for row in rows for number in (row if type(row) is list else [None])}
    if kinds == {int}:
        try:
            array = np.array(rows, dtype=np.intp)
        except (OverflowError, ValueError):
            raise UnreadableError(
                "is damaged: an array has integers of many digits, or rows of several lengths"
            ) from None
    else:
        expect(kinds <= {float, str}, "an array must hold integers, or numbers with a decimal point")
        numbers = [[_number(number) for number in row] for row in rows] if str in kinds else rows
        expect(len({len(row) for row in rows}) == 1, "an array has rows of several lengths")
        array = np.array(numbers, dtype=np.float64)
    return array if rows is value else array[0]


def _number(value: Any) -> float:
    if type(value) is str:
        expect(value in INFINITIES, f"{quoted(value)} is no number")
        return INFINITIES[value]
    return float(value)


def _write(exportable: Exportable, path: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG001
    text = json.dumps(json_of(exportable), ensure_ascii=False, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def _run(path: Path, scores: NDArray[np.floating]) -> NDArray[np.floating]:
    loaded = load_json(path)
    return loaded.graph(scores.astype(loaded.dtype))


def _metadata(path: Path) -> dict[str, Any]:
    loaded = load_json(path)
    return {"space": loaded.graph.space.value, "classes": loaded.classes, "n_columns": loaded.graph.n_columns}


BACKEND = Backend("JSON", (".json",), "", _write, _run, _metadata)
