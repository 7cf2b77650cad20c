"""Map graphs: a fitted calibrator as a short list of row operations, with a NumPy interpreter."""

from calibrant.graph import curves, switch, trees  # noqa: F401 (importing them registers their operations)
from calibrant.graph.map_graph import MapGraph, Node
from calibrant.graph.one_column import of_one_column, one_column
from calibrant.graph.operation import OPERATIONS, GraphError, Operation
from calibrant.graph.trace import Event, TracedPredictions, Value

__all__ = [
    "OPERATIONS",
    "Event",
    "GraphError",
    "MapGraph",
    "Node",
    "Operation",
    "TracedPredictions",
    "Value",
    "of_one_column",
    "one_column",
]
