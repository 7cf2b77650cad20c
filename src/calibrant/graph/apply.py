"""Evaluation of traced formulas on arrays of predictions."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray
from calibrant.errors import NoGraphError
from calibrant.graph.columns import BoundGaps, Floor
from calibrant.graph.curves import Piecewise, Ramps
from calibrant.graph.elementwise import Affine, Arithmetic, Clip, Function, Log, Narrow, Widen
from calibrant.graph.map_graph import MapGraph
from calibrant.graph.operation import Operation
from calibrant.graph.order import Restore
from calibrant.graph.rows import LogSoftmax
from calibrant.graph.trace import Event, Trace, TracedPredictions, Value
from calibrant.numerics.reductions import row_maxima, row_sums
from calibrant.numerics.row_blocks import BLOCK_BYTES
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["computed_columns", "evaluated", "evaluated_columns", "mapped", "score_curves"]


def mapped(
    formula: Callable[[TracedPredictions], TracedPredictions], predictions: Predictions
) -> Predictions:
    """Apply a formula on symbolic predictions to given predictions.

    >>> given = Predictions.from_logits([[0.0, 2.0]])
    >>> mapped(lambda traced: traced.with_logits(traced.logits * 0.5), given).scores
    array([[0., 1.]])
    """
    trace = Trace(predictions.n_classes)
    result = formula(TracedPredictions(trace.input, predictions.space, predictions.floor))
    graph = trace.graph(result.scores.narrowed(), predictions.space, result.space)
    return Predictions(graph(predictions.scores), result.space, predictions.classes, result.floor)


def evaluated(formula: Callable[[TracedPredictions], Value], predictions: Predictions) -> NDArray[Any]:
    """Evaluate a formula for every row, (n, columns); float64 if the formula widens."""
    trace = Trace(predictions.n_classes)
    value = formula(TracedPredictions(trace.input, predictions.space, predictions.floor))
    graph = trace.graph(value, predictions.space, Space.LOGITS)
    return graph(predictions.scores)


def evaluated_columns(
    formula: Callable[[Event], list[Value]], predictions: Predictions
) -> NDArray[np.float64]:
    """Evaluate several formulas of one event, (n, formulas), stored column by column.

    The same function is traced once for many events. One that is used once, such as that of a single fit, is not compiled.
    """
    known = _event_columns(formula, predictions.space, predictions.floor)
    if not known.is_used and predictions.n_rows * 8 <= BLOCK_BYTES:
        known.is_used = True
        return computed_columns(known.of_scores, predictions.scores)
    by_column = np.empty((known.graph.n_outputs, predictions.n_rows)).T
    known.graph(predictions.scores, by_column)
    return by_column


@dataclass(eq=False)
class _EventColumns:
    """Formulas of one event, and whether they were used before."""

    formula: Callable[[Event], list[Value]]
    space: Space
    floor: float
    is_used: bool = False

    def of_scores(self, scores: Value) -> list[Value]:
        return self.formula(TracedPredictions(scores, self.space, self.floor).event)

    @cached_property
    def graph(self) -> MapGraph:
        trace = Trace(2)
        first, *others = self.of_scores(trace.input)
        return trace.graph(first.joined(*others) if others else first, self.space, Space.LOGITS)


_event_columns = lru_cache(maxsize=32)(_EventColumns)


def computed_columns(formula: Callable[[Value], list[Value]], rows: FloatArray) -> NDArray[np.float64]:
    """Compute values of one column while they are traced, (n, values), stored column by column; for few rows.

    >>> computed_columns(lambda x: [x * 2.0, x + 1.0], np.array([[3.0]]))
    array([[6., 4.]])
    """
    trace = _Computation(rows)
    with np.errstate(all="ignore"):
        values = formula(trace.input)
    by_column = np.empty((len(values), len(rows)))
    for column, value in zip(by_column, values, strict=True):
        column[:] = trace.results[value.number][:, 0]
    return by_column.T


class _Computation(Trace):
    """A trace that computes the result of every operation at once."""

    def __init__(self, rows: FloatArray) -> None:
        super().__init__(rows.shape[1])
        self.results = [np.asfortranarray(rows)]

    def add(self, operation: Operation, *values: Value) -> Value:
        result = super().add(operation, *values)
        if result.number == len(self.results):
            kind = np.dtype(np.float64) if result.is_wide else self.results[0].dtype
            kernel = operation.kernel(kind)
            self.results.append(kernel(None, *[self.results[value.number] for value in values]))
        return result


ELEMENTWISE = (Affine, Arithmetic, Clip, Function, Log, Narrow, Piecewise, Ramps, Widen)
UNCHANGED = (BoundGaps, Floor, Restore)


def score_curves(
    formula: Callable[[TracedPredictions], TracedPredictions], rows: Predictions, places: FloatArray
) -> FloatArray:
    """Return the calibrated logits of single scores, with all sums over a row taken from given rows, (n, m).

    The curve of a row shows the calibrated logit of one class as a function of its score, with the normalisation of the row
    held fixed. Terms that belong to single classes are omitted. Raises ``NoGraphError`` if no part of the map is a function
    of single scores that all classes share.
    """
    trace = Trace(rows.n_classes)
    result = formula(TracedPredictions(trace.input, Space.LOGITS, rows.floor))
    graph = trace.graph(result.raw, Space.LOGITS, result.space)
    probes = _probed(graph, rows.scores.astype(np.float64), np.asarray(places, dtype=np.float64))
    if probes is None or result.space is not Space.LOGITS:
        raise NoGraphError("the map has no function of single scores that all classes share")
    return probes


def _probed(graph: MapGraph, scores: FloatArray, places: FloatArray) -> FloatArray | None:
    """Apply a graph to rows and, in parallel, to single scores."""
    values: list[Any] = [scores]
    probes: list[FloatArray | None] = [np.broadcast_to(places, (len(scores), len(places)))]
    wide = np.dtype(np.float64)
    for operation, sources in graph.nodes:
        values.append(operation.kernel(wide)(None, *[values[source] for source in sources]))
        probes.append(
            _probe_of(operation, [values[source] for source in sources], [probes[s] for s in sources])
        )
    return probes[-1]


def _probe_of(operation: Operation, values: list[FloatArray], probes: list[FloatArray | None]) -> Any:
    if isinstance(operation, Arithmetic):
        return _arithmetic(operation, values, probes)
    probe = probes[0]
    if probe is None:
        return None
    if isinstance(operation, UNCHANGED):
        return probe
    if isinstance(operation, LogSoftmax):
        tops = row_maxima(values[0])[:, np.newaxis]
        normalised: FloatArray = probe - tops - np.log(row_sums(np.exp(values[0] - tops)))[:, np.newaxis]
        return normalised
    if operation.name == "softmax":
        tops = row_maxima(values[0])[:, np.newaxis]
        shares: FloatArray = np.exp(probe - tops) / row_sums(np.exp(values[0] - tops))[:, np.newaxis]
        return shares
    if isinstance(operation, ELEMENTWISE) and _is_shared(operation):
        return operation.kernel(np.dtype(np.float64))(None, probe)
    return None


def _arithmetic(operation: Arithmetic, values: list[FloatArray], probes: list[FloatArray | None]) -> Any:
    first, second = (
        probe if probe is not None else value if value.shape[1] == 1 else None
        for value, probe in zip(values, probes, strict=True)
    )
    if probes[0] is None and probes[1] is None:
        return None
    if first is None or second is None:
        # Terms of single classes are omitted from sums.
        return (first if second is None else second) if operation.function == "add" else None
    return operation.kernel(np.dtype(np.float64))(None, first, second)


def _is_shared(operation: Operation) -> bool:
    """Return whether all columns have the same parameters."""
    parameters = [getattr(operation, name, None) for name in ("scale", "shift", "low", "high")]
    if any(isinstance(parameter, np.ndarray) and parameter.size > 1 for parameter in parameters):
        return False
    return not isinstance(operation, Piecewise) or len(operation.n_knots) == 1
