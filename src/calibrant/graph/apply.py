"""Formulas on symbolic predictions, applied to predictions at hand."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.graph.map_graph import MapGraph
from calibrant.graph.trace import Event, Trace, TracedPredictions, Value
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["evaluated", "evaluated_columns", "mapped"]


def mapped(
    formula: Callable[[TracedPredictions], TracedPredictions], predictions: Predictions
) -> Predictions:
    """Return what a formula makes of predictions.

    >>> given = Predictions.from_logits([[0.0, 2.0]])
    >>> mapped(lambda traced: traced.with_logits(traced.logits * 0.5), given).scores
    array([[0., 1.]])
    """
    trace = Trace(predictions.n_classes)
    result = formula(TracedPredictions(trace.input, predictions.space, predictions.floor))
    graph = trace.graph(result.scores.narrowed(), predictions.space, result.space)
    return Predictions(graph(predictions.scores), result.space, predictions.classes, result.floor)


def evaluated(formula: Callable[[TracedPredictions], Value], predictions: Predictions) -> NDArray[Any]:
    """Return the numbers of a formula for every row, (n, columns); float64 where the formula widens them."""
    trace = Trace(predictions.n_classes)
    value = formula(TracedPredictions(trace.input, predictions.space, predictions.floor))
    graph = trace.graph(value, predictions.space, Space.LOGITS)
    return graph(predictions.scores)


def evaluated_columns(
    formula: Callable[[Event], list[Value]], predictions: Predictions
) -> NDArray[np.float64]:
    """Return the numbers of several formulas of one event, (n, formulas), stored column by column.

    What a formula comes to is kept: one that is the same function for many events is traced once.
    """
    graph = _columns_graph(formula, predictions.space, predictions.floor)
    by_column = np.empty((graph.n_outputs, predictions.n_rows)).T
    graph(predictions.scores, by_column)
    return by_column


@lru_cache(maxsize=32)
def _columns_graph(formula: Callable[[Event], list[Value]], space: Space, floor: float) -> MapGraph:
    trace = Trace(2)
    first, *others = formula(TracedPredictions(trace.input, space, floor).event)
    return trace.graph(first.joined(*others) if others else first, space, Space.LOGITS)
