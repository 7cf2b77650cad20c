"""Map graphs as plain data, for files and exports."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin

import numpy as np

from calibrant.arrays import AnyArray, IntArray, Vector
from calibrant.graph.map_graph import MapGraph, Node
from calibrant.graph.operation import OPERATIONS, GraphError, Operation
from calibrant.space import Space

__all__ = ["graph_from_plain", "graph_to_plain"]


MOST_NESTED = 8  # graphs inside of graphs

LARGEST_INTEGER = 2**53  # up to which floats hold every integer

KEYS = {"columns", "space", "output_space", "operations"}

# Not storable: a Python function.
UNSTORABLE = frozenset({"opaque"})


def graph_to_plain(graph: MapGraph, put: Callable[[AnyArray], Any]) -> dict[str, Any]:
    """Return a graph as JSON values; ``put`` encodes an array.

    >>> from calibrant.graph.elementwise import Clip
    >>> graph = MapGraph(2, (Node(Clip(np.array(0.0), np.array(1.0)), (0,)),))
    >>> graph_to_plain(graph, lambda array: array.tolist())["operations"]
    [{'operation': 'clip', 'of': [0], 'low': 0.0, 'high': 1.0}]
    """
    return {
        "columns": graph.n_columns,
        "space": graph.space.value,
        "output_space": graph.output_space.value,
        "operations": [
            {"operation": operation.name, "of": list(sources)}
            | {each.name: _plain(getattr(operation, each.name), put) for each in fields(operation)}
            for operation, sources in graph.nodes
        ],
    }


def _plain(parameter: Any, put: Callable[[AnyArray], Any]) -> Any:
    if isinstance(parameter, np.ndarray):
        # A single number needs no array; infinity, which means no bound, is not valid JSON.
        if parameter.ndim == 0 and np.isfinite(parameter):
            return float(parameter)
        return put(_compact(parameter) if parameter.dtype.kind in "iu" else parameter)
    if isinstance(parameter, tuple):
        return [graph_to_plain(part, put) for part in parameter]
    return parameter


def _compact(numbers: AnyArray) -> AnyArray:
    """Return integers in the shortest type that holds them."""
    if numbers.size == 0:
        return numbers
    kind = np.result_type(np.min_scalar_type(numbers.min()), np.min_scalar_type(numbers.max()))
    return numbers.astype(kind)


def graph_from_plain(content: Any, get: Callable[[Any], AnyArray], depth: int = 0) -> MapGraph:
    """Return the graph that JSON values describe, after all checks; ``get`` decodes an array."""
    if depth > MOST_NESTED or type(content) is not dict or set(content) != KEYS:
        raise GraphError(f"a graph must have the keys {sorted(KEYS)}")
    columns, operations = content["columns"], content["operations"]
    spaces = [content["space"], content["output_space"]]
    if (
        type(columns) is not int
        or type(operations) is not list
        or not all(type(space) is str and space in list(Space) for space in spaces)
    ):
        raise GraphError("a graph must name its columns, its spaces and a list of operations")
    nodes = tuple(_node(node, get, depth) for node in operations)
    graph = MapGraph(columns, nodes, Space(spaces[0]), Space(spaces[1]))
    graph.check()
    return graph


def _node(content: Any, get: Callable[[Any], AnyArray], depth: int) -> Node:
    name = content.get("operation") if type(content) is dict else None
    kind = OPERATIONS.get(name) if isinstance(name, str) and name not in UNSTORABLE else None
    if kind is None:
        raise GraphError(f"there is no operation {str(name)[:40]!r}")
    names = {each.name for each in fields(kind)}
    if set(content) != names | {"operation", "of"}:
        raise GraphError(f"{kind.name} must have the parameters {sorted(names)}")
    sources = content["of"]
    if type(sources) is not list or not all(type(source) is int for source in sources):
        raise GraphError(f"{kind.name} must list the values that it takes in 'of'")
    return Node(_operation(kind, content, get, depth), tuple(sources))


def _operation(
    kind: type[Operation], content: dict[str, Any], get: Callable[[Any], AnyArray], depth: int
) -> Operation:
    """Return an operation whose parameters have the types of its fields."""
    parameters: dict[str, Any] = {}
    for each in fields(kind):
        value, wanted, where = content[each.name], each.type, f"{each.name} of {kind.name}"
        if wanted in (Vector, Vector | None, IntArray):
            value = (
                None
                if value is None and wanted == Vector | None
                else _array(value, wanted == IntArray, get, where)
            )
        elif wanted is float:
            _expect(_is_number(value), f"{where} must be a number")
            value = float(value)
        elif wanted in (bool, int):
            _expect(
                type(value) is wanted,
                f"{where} must be {'true or false' if wanted is bool else 'an integer'}",
            )
        elif get_origin(wanted) is Literal:
            _expect(
                type(value) is str and value in get_args(wanted),
                f"{where} must be one of {', '.join(get_args(wanted))}",
            )
        else:
            _expect(type(value) is list, f"{where} must be a list of graphs")
            value = tuple(graph_from_plain(part, get, depth + 1) for part in value)
        parameters[each.name] = value
    return kind(**parameters)


def _array(value: Any, whole: bool, get: Callable[[Any], AnyArray], where: str) -> AnyArray:
    if _is_number(value) and not whole:
        return np.asarray(float(value))
    array = get(value)
    _expect(
        isinstance(array, np.ndarray) and array.dtype.kind in ("iu" if whole else "iuf"),
        f"{where} must be an array of {'integers' if whole else 'floats'}",
    )
    return array.astype(np.intp if whole else np.float64, copy=False)


def _is_number(value: Any) -> bool:
    """Return whether a JSON value is a float, or an integer in its place: other languages write 1 for 1.0."""
    return type(value) is float or (type(value) is int and abs(value) <= LARGEST_INTEGER)


def _expect(condition: bool, complaint: str) -> None:
    if not condition:
        raise GraphError(complaint)
