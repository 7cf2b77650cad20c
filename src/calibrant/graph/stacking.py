"""Stacking: combine the maps of several events into one map with a column per event."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibrant.graph.columns import Columns
from calibrant.graph.elementwise import Widen
from calibrant.graph.map_graph import MapGraph
from calibrant.graph.operation import Operation
from calibrant.graph.trace import Event, Trace, Value, parameter_names
from calibrant.space import Space

__all__ = ["stacked_events"]


def stacked_events(events: Event, maps: Sequence[Callable[[Event], Event]]) -> Value:
    """Return the calibrated probability of every event, column j by ``maps[j]``, as float64.

    Maps that consist of the same operations are applied together, with one parameter per column. All others are
    applied column by column.
    """
    assert events.rest is not None
    graphs = [_graph_of(one, events.space, events.floor) for one in maps]
    groups: dict[Any, list[int]] = {}
    for column, graph in enumerate(graphs):
        groups.setdefault(_structure(graph), []).append(column)
    results, columns = [], []
    for members in groups.values():
        together = _together([graphs[column] for column in members], events, members)
        if together is not None:
            results.append(together)
            columns.extend(members)
            continue
        for column in members:
            pair = events.rest.columns([column]).joined(events.own.columns([column]))
            results.append(_replayed(graphs[column], pair))
            columns.append(column)
    if len(results) == 1:
        return results[0].columns(np.argsort(columns))
    return results[0].joined(*results[1:], columns=np.argsort(columns))


def _graph_of(calibrated: Callable[[Event], Event], space: Space, floor: float) -> MapGraph:
    trace = Trace(2)
    own = Event(space, floor, trace.input.columns([0]), trace.input.columns([1]))
    return trace.graph(calibrated(own).probability, space, Space.PROBABILITIES)


def _structure(graph: MapGraph) -> Any:
    """Return the structure of a graph; graphs with equal structure can be stacked."""
    return tuple(
        (
            type(node.operation),
            node.sources,
            tuple(
                value if isinstance(value, str | bool | type(None)) else None
                for value in (getattr(node.operation, name) for name in parameter_names(type(node.operation)))
            ),
            tuple(node.operation.columns.tolist()) if type(node.operation) is Columns else None,
        )
        for node in graph.nodes
    )


def _together(graphs: list[MapGraph], events: Event, members: list[int]) -> Value | None:
    assert events.rest is not None
    values: list[Value | None] = [None]
    sides = [events.rest, events.own]
    for number, (operation, sources) in enumerate(graphs[0].nodes):
        if sources == (0,) and type(operation) is Columns and len(operation.columns) == 1:
            values.append(sides[int(operation.columns[0])].columns(members))
            continue
        if type(operation) is Widen and (widened := values[sources[0]]) is not None and widened.is_wide:
            values.append(widened)
            continue
        parts: list[Operation] = [graph.nodes[number].operation for graph in graphs]
        taken = [values[source] for source in sources]
        stacked = type(operation).stacked(parts)
        if stacked is None or any(value is None for value in taken):
            return None
        first, *others = [value for value in taken if value is not None]
        values.append(first.then(stacked, *others))
    return values[-1]


def _replayed(graph: MapGraph, given: Value) -> Value:
    values = [given]
    for operation, sources in graph.nodes:
        first, *others = (values[source] for source in sources)
        values.append(first.then(operation, *others))
    return values[-1]
