"""Map graphs: a fitted calibrator as a short list of row operations, with a NumPy interpreter."""

import numpy as np

from calibrant.arrays import FloatArray
from calibrant.graph import curves, switch, trees  # noqa: F401 (importing them registers their operations)
from calibrant.graph.columns import Constant, Join
from calibrant.graph.elementwise import Affine
from calibrant.graph.map_graph import MapGraph, Node
from calibrant.graph.operation import OPERATIONS, GraphError, Operation
from calibrant.graph.trace import Event, TracedPredictions, Value
from calibrant.space import Space

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


def of_one_column(graph: MapGraph) -> MapGraph:
    """Return the map of one column: the probability p of the second class as (1 - p, p), a log-odds z as (0, z).

    >>> from calibrant import TemperatureScaling
    >>> graph = of_one_column(TemperatureScaling().fit([0.1] * 4, [0, 0, 0, 1]).graph())
    >>> graph.n_columns, graph([[0.9]])
    (1, array([[0.25, 0.75]]))
    """
    assert graph.n_columns == 2
    other = (
        Affine(np.array(-1.0), np.array(1.0)) if graph.space is Space.PROBABILITIES else Constant(np.zeros(1))
    )
    pair = (Node(other, (0,)), Node(Join(np.array([0, 1])), (1, 0)))
    rest = (Node(operation, tuple(source + 2 for source in sources)) for operation, sources in graph.nodes)
    return MapGraph(1, (*pair, *rest), graph.space, graph.output_space)


def one_column(rows: FloatArray, space: Space) -> FloatArray:
    """Return the score of the second class for rows of two: a probability, or a log-odds.

    >>> one_column(np.array([[0.2, 1.5]]), Space.LOGITS)
    array([[1.3]])
    """
    second: FloatArray = rows[:, 1:]
    return second if space is Space.PROBABILITIES else second - rows[:, :1]
