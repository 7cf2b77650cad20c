"""Graphs from damaged or hostile files are refused in one sentence."""

import copy

import numpy as np
import pytest

from calibrant import HistogramBinning, TemperatureScaling
from calibrant.graph import GraphError, MapGraph, Node
from calibrant.graph.curves import Piecewise
from calibrant.graph.elementwise import Affine
from calibrant.graph.plain import graph_from_plain, graph_to_plain
from calibrant.graph.rows import Dense


def plain_temperature():
    fitted = TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    return graph_to_plain(fitted.graph(), lambda array: array)


def refused(content, reason):
    with pytest.raises(GraphError, match=reason):
        graph_from_plain(content, lambda array: array)


@pytest.mark.parametrize(
    ("place", "key", "value", "reason"),
    [
        (1, "of", [9], "takes values that do not exist yet"),
        (1, "of", [2], "takes values that do not exist yet"),
        (1, "of", [-1], "takes values that do not exist yet"),
        (1, "of", [], "takes 1 values, not 0"),
        (1, "of", "0", "must list the values that it takes"),
        (1, "scale", np.array(np.nan), "not finite"),
        (1, "scale", float("inf"), "not finite"),
        (1, "scale", np.ones(3), "parameter of shape"),
        (1, "scale", np.array(["a"]), "must be an array of floats"),
        (1, "extra", 1, "must have the parameters"),
        (1, "operation", "opaque", "there is no operation"),
        (1, "operation", ["affine"], "there is no operation"),
        (0, "floor", 0.0, "not between 0 and 1"),
        (0, "floor", 10**400, "must be a number"),
        (3, "kept", "everything", "must be one of argmax, order"),
    ],
)
def test_an_operation_that_makes_no_sense(place, key, value, reason):
    content = copy.deepcopy(plain_temperature())
    content["operations"][place][key] = value
    refused(content, reason)


@pytest.mark.parametrize("key", ["columns", "space", "output_space", "operations"])
def test_a_graph_without_a_key_or_with_an_odd_value(key):
    content = plain_temperature()
    refused({name: value for name, value in content.items() if name != key}, "must have the keys")
    refused(content | {key: 1.5}, "must name its columns, its spaces and a list of operations")


def test_graphs_inside_of_graphs_are_limited():
    inner = plain_temperature()
    for _ in range(12):
        switch = {
            "operation": "switch",
            "of": [0, 0],
            "branches": [inner],
            "branch_of_column": np.array([0, 0]),
        }
        inner = {
            "columns": 2,
            "space": "probabilities",
            "output_space": "probabilities",
            "operations": [switch],
        }
    refused(inner, "must have the keys")


def test_knots_must_increase_within_every_column():
    fitted = HistogramBinning(n_bins=4).fit([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]] * 9, [0, 1, 1] * 9)
    graph = fitted.graph()
    piecewise = next(n.operation for n in graph.nodes if isinstance(n.operation, Piecewise))
    piecewise.check()
    knots = piecewise.knots[::-1].copy()
    reversed_knots = Piecewise(knots, piecewise.n_knots, piecewise.origins, piecewise.coefficients)
    with pytest.raises(GraphError, match="knots that do not increase"):
        reversed_knots.check()


def test_widths_must_fit():
    two, three = Affine(np.array([1.0, 2.0]), np.array(0.0)), Dense(np.ones((3, 3)), np.zeros(3))
    MapGraph(2, (Node(two, (0,)),)).check()
    with pytest.raises(GraphError, match="weights of shape"):
        MapGraph(2, (Node(two, (0,)), Node(three, (1,)))).check()
