"""Map graphs: what a fitted calibrator does to a row, as a short list of operations with a NumPy interpreter."""

from calibrant.graph import curves, switch, trees  # noqa: F401 (their operations are known once they are imported)
from calibrant.graph.map_graph import MapGraph, Node
from calibrant.graph.operation import OPERATIONS, GraphError, Operation
from calibrant.graph.trace import Event, TracedPredictions, Value

__all__ = ["OPERATIONS", "Event", "GraphError", "MapGraph", "Node", "Operation", "TracedPredictions", "Value"]
