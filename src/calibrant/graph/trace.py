"""Tracing: formulas on symbolic predictions are recorded as a map graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray
from calibrant.graph.columns import BoundGaps, Columns, Constant, Floor, Join, RestOfClasses, Restrict
from calibrant.graph.elementwise import (
    Affine,
    Arithmetic,
    ArithmeticName,
    Clip,
    Function,
    FunctionName,
    Log,
    Narrow,
    Widen,
)
from calibrant.graph.map_graph import MapGraph, Node
from calibrant.graph.operation import Kernel, Operation
from calibrant.graph.order import Kept, Restore
from calibrant.graph.rows import Dense, LogSoftmax, Mixture, Reduction, RowReduce, Softmax
from calibrant.space import Space

__all__ = ["Event", "Opaque", "Trace", "TracedPredictions", "Value", "parameter_names"]

# Larger arrays are not compared when common subexpressions are eliminated.
SMALL = 10_000

LARGEST_LOG_ODDS = -float(np.log(np.finfo(np.float64).tiny))


class Trace:
    """Recorded operations; the same operation on the same values is recorded once (common subexpressions)."""

    def __init__(self, n_columns: int) -> None:
        self.widths = [n_columns]
        self.wide = [False]
        self.nodes: list[Node] = []
        self.visited: list[tuple[Any, int]] = []
        self._known: dict[Any, int] = {}

    def visit(self, part: Any, version: int) -> None:
        """Note that the map depends on a part in a given version."""
        self.visited.append((part, version))

    @property
    def input(self) -> "Value":
        """The value that the map is applied to."""
        return Value(self, 0)

    def add(self, operation: Operation, *values: "Value") -> "Value":
        """Return the result of an operation on values."""
        sources = tuple(value.number for value in values)
        key = _key(operation, sources)
        if key is not None and key in self._known:
            return Value(self, self._known[key])
        self.widths.append(operation.width([self.widths[source] for source in sources]))
        self.wide.append(operation.is_wide([self.wide[source] for source in sources]))
        self.nodes.append(Node(operation, sources))
        if key is not None:
            self._known[key] = len(self.nodes)
        return Value(self, len(self.nodes))

    def graph(self, output: "Value", space: Space, output_space: Space) -> MapGraph:
        """Return the graph of a value, without operations that it does not depend on."""
        needed, pending = {0}, [output.number]
        while pending:
            if (number := pending.pop()) not in needed:
                needed.add(number)
                pending.extend(self.nodes[number - 1].sources)
        kept = sorted(needed)[1:]
        new = {0: 0} | {number: place for place, number in enumerate(kept, start=1)}
        nodes = tuple(
            Node(
                self.nodes[number - 1].operation,
                tuple(new[source] for source in self.nodes[number - 1].sources),
            )
            for number in kept
        )
        graph = MapGraph(self.widths[0], nodes, space, output_space)
        # Known already; otherwise a graph derives them from its operations.
        vars(graph)["widths"] = (self.widths[0], *(self.widths[number] for number in kept))
        vars(graph)["is_wide"] = (False, *(self.wide[number] for number in kept))
        return graph


@cache
def parameter_names(kind: type[Operation]) -> tuple[str, ...]:
    """Return the names of the parameters of an operation."""
    return tuple(each.name for each in fields(kind))


def _key(operation: Operation, sources: tuple[int, ...]) -> Any:
    parameters: list[Any] = []
    for name in parameter_names(type(operation)):
        parameter = getattr(operation, name)
        if isinstance(parameter, np.ndarray):
            if parameter.size > SMALL:
                return None
            parameter = (parameter.shape, parameter.tobytes())
        elif not isinstance(parameter, float | int | str | type(None)):
            return None
        parameters.append(parameter)
    return (type(operation), sources, *parameters)


@dataclass(frozen=True, eq=False)
class Value:
    """A value of a trace; arithmetic on it records operations.

    Numbers and arrays of one number per column are parameters; the other operand may be a value.
    """

    trace: Trace
    number: int

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.trace.widths[self.number]

    @property
    def is_wide(self) -> bool:
        """Whether the value is float64 regardless of the float type of the input."""
        return self.trace.wide[self.number]

    @property
    def constant_number(self) -> float | None:
        """The number that a single column holds in every row; None if it depends on the row."""
        operation = self.trace.nodes[self.number - 1].operation if self.number else None
        return float(operation.numbers[0]) if type(operation) is Constant and self.width == 1 else None

    def then(self, operation: Operation, *others: "Value") -> "Value":
        """Return the result of an operation on this value and others."""
        return self.trace.add(operation, self, *others)

    def affine(self, scale: Any = 1.0, shift: Any = 0.0) -> "Value":
        """Return ``scale * self + shift``, with numbers or one number per column."""
        operation = Affine(np.asarray(scale, dtype=np.float64), np.asarray(shift, dtype=np.float64))
        changes_nothing = operation.scale.size == operation.shift.size == 1 and (
            operation.scale.item() == 1 and operation.shift.item() == 0
        )
        if changes_nothing:
            return self
        if self.number and (operation.scale == 1).all():
            before, sources = self.trace.nodes[self.number - 1]
            if type(before) is Affine and not before.shift.any():
                # One operation instead of two, with the same bits.
                return Value(self.trace, sources[0]).then(Affine(before.scale, operation.shift))
        return self.then(operation)

    def __add__(self, other: Any) -> "Value":
        return self._with("add", other) if isinstance(other, Value) else self.affine(shift=other)

    def __radd__(self, other: Any) -> "Value":
        return self.affine(shift=other)

    def __sub__(self, other: Any) -> "Value":
        return (
            self._with("subtract", other)
            if isinstance(other, Value)
            else self.affine(shift=-np.asarray(other))
        )

    def __rsub__(self, other: Any) -> "Value":
        return self.affine(-1.0, other)

    def __mul__(self, other: Any) -> "Value":
        return self._with("multiply", other) if isinstance(other, Value) else self.affine(other)

    def __rmul__(self, other: Any) -> "Value":
        return self.affine(other)

    def __truediv__(self, other: "Value") -> "Value":
        return self._with("divide", other)

    def __neg__(self) -> "Value":
        return self.affine(-1.0)

    def _with(self, function: ArithmeticName, other: "Value") -> "Value":
        return self.then(Arithmetic(function), other)

    def minimum(self, other: "Value") -> "Value":
        """Return the smaller of two values, entry by entry."""
        return self._with("minimum", other)

    def maximum(self, other: "Value") -> "Value":
        """Return the larger of two values, entry by entry."""
        return self._with("maximum", other)

    def function(self, name: FunctionName) -> "Value":
        """Return a function of every entry."""
        return self.then(Function(name))

    def log(self, floor: float) -> "Value":
        """Return the logarithm of every entry, not below that of the floor."""
        return self.then(Log(floor))

    def clip(self, low: Any = -np.inf, high: Any = np.inf) -> "Value":
        """Return every entry clipped to a range."""
        return self.then(Clip(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)))

    def softmax(self) -> "Value":
        """Return the softmax of every row."""
        return self.then(Softmax())

    def log_softmax(self) -> "Value":
        """Return the logarithm of the softmax of every row."""
        return self.then(LogSoftmax())

    def row(self, reduction: Reduction) -> "Value":
        """Return the sum, mean or largest entry of every row, one column."""
        return self.then(RowReduce(reduction))

    def dense(self, weights: NDArray[np.floating], intercept: NDArray[np.floating] | None = None) -> "Value":
        """Return ``self @ weights + intercept``."""
        shift = np.zeros(weights.shape[1]) if intercept is None else intercept
        return self.then(Dense(np.asarray(weights, np.float64), np.asarray(shift, np.float64)))

    def network(self, layers: Sequence[tuple[FloatArray, FloatArray]], activation: FunctionName) -> "Value":
        """Return the outputs of a fully connected network, whose last layer is linear."""
        *hidden, (weights, intercept) = layers
        units = self
        for own_weights, own_intercept in hidden:
            units = units.dense(own_weights, own_intercept).function(activation)
        return units.dense(weights, intercept)

    def columns(self, columns: Sequence[int] | NDArray[np.intp]) -> "Value":
        """Return some columns."""
        wanted = np.asarray(columns, dtype=np.intp)
        return self if np.array_equal(wanted, np.arange(self.width)) else self.then(Columns(wanted))

    def joined(self, *others: "Value", columns: NDArray[np.intp] | None = None) -> "Value":
        """Return the columns of several values side by side; see :class:`~calibrant.graph.columns.Join`."""
        n_columns = sum(value.width for value in (self, *others))
        return self.then(Join(np.arange(n_columns) if columns is None else columns), *others)

    def constant(self, numbers: Any) -> "Value":
        """Return the same numbers in every row."""
        return self.then(Constant(np.atleast_1d(np.asarray(numbers, dtype=np.float64))))

    def mixed(self, others: Sequence["Value"], weights: NDArray[np.float64]) -> "Value":
        """Return a weighted sum of this value and others."""
        return self.then(Mixture(np.asarray(weights, dtype=np.float64)), *others)

    def restored(self, kept: Kept, reference: "Value") -> "Value":
        """Return this value with the arg-max, or the order, of another."""
        return self.then(Restore(kept), reference)

    @property
    def widened(self) -> "Value":
        """The value as float64."""
        return self if self.is_wide else self.then(Widen())

    def narrowed(self, *, keep_positive: bool = False) -> "Value":
        """Return the value in the float type of the input."""
        return self.then(Narrow(keep_positive)) if self.is_wide else self


@dataclass(frozen=True, eq=False)
class TracedPredictions:
    """Symbolic predictions: the counterpart of :class:`~calibrant.predictions.Predictions` in a trace.

    Attributes
    ----------
    raw : Value
        Scores, (n, K), before restoration of the arg-max or order.
    space : Space
        Whether scores are probabilities or logits.
    floor : float or None
        Lower bound on probabilities in logarithms; None if it depends on the rows, which logarithms do not allow.
    kept : {"argmax", "order"} or None
        Property that the scores share with ``reference`` in exact arithmetic.
    reference : Value or None
    """

    raw: Value
    space: Space
    floor: float | None = None
    kept: Kept | None = None
    reference: Value | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return self.raw.width

    @property
    def scores(self) -> Value:
        """Scores, (n, K), with restored arg-max or order."""
        return self._kept(self.raw)

    def _kept(self, value: Value) -> Value:
        return (
            value
            if self.kept is None or self.reference is None
            else value.restored(self.kept, self.reference)
        )

    @property
    def probabilities(self) -> Value:
        """Probabilities, (n, K)."""
        return self.scores if self.space is Space.PROBABILITIES else self._kept(self.raw.softmax())

    @property
    def log_probabilities(self) -> Value:
        """Logarithms of the probabilities, (n, K), at least that of the floor."""
        return self.scores.log_softmax() if self.space is Space.LOGITS else self.scores.log(self.least)

    @property
    def logits(self) -> Value:
        """Logits, or logarithms of probabilities."""
        return self.scores if self.space is Space.LOGITS else self.log_probabilities

    @property
    def least(self) -> float:
        """The floor; it must be known."""
        assert self.floor is not None, "a map begins with the floor of its calibrator"
        return self.floor

    def with_floor(self, floor: float) -> Self:
        """Return the same predictions with another floor."""
        return replace(self, floor=floor)

    @classmethod
    def of_event(cls, event: "Event") -> "TracedPredictions":
        """Return predictions of two classes: the complement, and the event."""
        assert event.rest is not None
        return cls(event.rest.joined(event.own), event.space, event.floor)

    def with_logits(self, logits: Value, kept: Kept | None = None) -> "TracedPredictions":
        """Return calibrated logits, with the arg-max or the order of these predictions if ``kept`` says so."""
        return TracedPredictions(logits, Space.LOGITS, kept=kept, reference=self.scores if kept else None)

    def with_probabilities(self, probabilities: Value, kept: Kept | None = None) -> "TracedPredictions":
        """Return calibrated probabilities, with the arg-max or the order of these predictions if ``kept`` says so."""
        return TracedPredictions(
            probabilities, Space.PROBABILITIES, kept=kept, reference=self.scores if kept else None
        )

    def without_zeros(self) -> "TracedPredictions":
        """Return predictions with smaller probabilities raised to the floor; the arg-max is preserved."""
        operation = BoundGaps() if self.space is Space.LOGITS else Floor(self.least)
        return TracedPredictions(self.scores.then(operation), self.space, self.floor)

    def restricted_to(self, columns: NDArray[np.intp]) -> "TracedPredictions":
        """Return the predictions for a subset of the classes, conditional on the class being among them."""
        operation = Columns(columns) if self.space is Space.LOGITS else Restrict(columns)
        return TracedPredictions(self.scores.then(operation), self.space, self.floor)

    @property
    def event(self) -> "Event":
        """The event that the true class is the second of two."""
        scores = self.scores
        return Event(self.space, self.least, scores.columns([0]), scores.columns([1]))

    @property
    def against_rest(self) -> "Event":
        """The K one-vs-rest events, one per column."""
        return Event(
            self.space, self.least, self.scores.then(RestOfClasses(self.space is Space.LOGITS)), self.scores
        )


@dataclass(frozen=True, eq=False)
class Event:
    """Symbolic predictions of events, one per column: scores of each event and of its complement.

    The complement has its own score, because one minus a probability near one loses digits. Results are float64.

    Attributes
    ----------
    space : Space
        Space of the scores.
    floor : float
        Lower bound on probabilities in logarithms.
    rest : Value or None
        Scores of the complement. None means a logit of zero, or one minus the probability.
    own : Value
        Scores of the event.
    """

    space: Space
    floor: float
    rest: Value | None
    own: Value

    @property
    def probability(self) -> Value:
        """Probability of the event."""
        return self.log_odds.function("sigmoid") if self.space is Space.LOGITS else self.own.widened

    @property
    def complement(self) -> Value:
        """Probability of the complement."""
        if self.space is Space.LOGITS:
            return (-self.log_odds).function("sigmoid")
        return 1 - self.own.widened if self.rest is None else self.rest.widened

    @property
    def given_probability(self) -> Value:
        """Probability of the event in its original float type, for comparison with edges of bins."""
        return self.own if self.space is Space.PROBABILITIES else self.probability

    @property
    def log_probability(self) -> Value:
        """Logarithm of the probability, at least that of the floor."""
        if self.space is Space.LOGITS:
            return self.log_odds.function("log-sigmoid")
        return self.own.widened.log(self.floor)

    @property
    def log_complement(self) -> Value:
        """Logarithm of the probability of the complement, at least that of the floor."""
        if self.space is Space.LOGITS:
            return (-self.log_odds).function("log-sigmoid")
        return self.complement.log(self.floor)

    @property
    def log_odds(self) -> Value:
        """Log-odds of the event."""
        if self.space is Space.LOGITS:
            return self.own.widened if self.rest is None else self.own.widened - self.rest.widened
        return self.log_probability - self.log_complement

    def with_log_odds(self, log_odds: Value) -> "Event":
        """Return calibrated events; log-odds stay within the range in which no float64 probability is zero."""
        return Event(Space.LOGITS, self.floor, None, log_odds.clip(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS))

    def with_probability(self, probability: Value, complement: Value | None = None) -> "Event":
        """Return calibrated events; the complement is one minus the probability if not given."""
        return Event(Space.PROBABILITIES, self.floor, complement, probability)

    def predictions(self) -> TracedPredictions:
        """Return the predictions of two classes, of which the event is the second."""
        if self.space is Space.LOGITS:
            logits = self.own.constant(0.0).widened.joined(self.log_odds).narrowed()
            return TracedPredictions(logits.then(BoundGaps()), Space.LOGITS)
        both = self.complement.joined(self.own.widened)
        # Zeros of a map stay; positive numbers do not underflow to zero in the float type.
        return TracedPredictions(both.narrowed(keep_positive=True), Space.PROBABILITIES)


@dataclass(frozen=True, eq=False)
class Opaque(Operation):
    """A function of all rows that is not a list of row operations, such as a search for nearest neighbours."""

    function: Callable[[FloatArray], FloatArray] = field(repr=False)
    reason: str

    name: ClassVar[str] = "opaque"
    needs_all_rows: ClassVar[bool] = True

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        return lambda out, x: self.function(x)  # noqa: ARG005
