"""Symbolic arrays: operations on them are recorded as nodes of an ONNX graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.export.arrays import WIDE, Arrays

__all__ = ["Nodes", "SymbolicArrays"]

INTEGER: np.dtype[Any] = np.dtype(np.int64)
TRUTH: np.dtype[Any] = np.dtype(np.bool_)

COLUMNS = 1  # the axis along a row


@dataclass(eq=False)
class Nodes:
    """A list of ONNX nodes: the model, or the body of a loop or branch."""

    # Operator, names of inputs, names of outputs, attributes; an attribute may be a :class:`Nodes`
    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]] = field(default_factory=list)
    inputs: list["Symbol"] = field(default_factory=list)  # For bodies
    outputs: list["Symbol"] = field(default_factory=list)
    # Whether the inputs start with a number and a condition and the outputs with a condition, all scalars
    is_loop: bool = False


@dataclass(frozen=True, eq=False)
class Symbol:
    """The result of a node; Python operators add nodes."""

    owner: "SymbolicArrays"
    name: str
    kind: np.dtype[Any]

    def _with(self, operator: str, other: Any, kind: np.dtype[Any] | None = None) -> "Symbol":
        return self.owner.emit(operator, [self, other], kind or self.kind)

    def __add__(self, other: Any) -> "Symbol":
        return self._with("Add", other)

    def __sub__(self, other: Any) -> "Symbol":
        return self._with("Sub", other)

    def __rsub__(self, other: float) -> "Symbol":
        return self.owner.number(other, self.kind) - self

    def __mul__(self, other: Any) -> "Symbol":
        return self._with("Mul", other)

    def __truediv__(self, other: Any) -> "Symbol":
        return self._with("Div", other)

    def __neg__(self) -> "Symbol":
        return self.owner.emit("Neg", [self], self.kind)

    def __lt__(self, other: Any) -> "Symbol":
        return self._with("Less", other, TRUTH)

    def __le__(self, other: Any) -> "Symbol":
        return self._with("LessOrEqual", other, TRUTH)

    def __gt__(self, other: Any) -> "Symbol":
        return self._with("Greater", other, TRUTH)

    def __ge__(self, other: Any) -> "Symbol":
        return self._with("GreaterOrEqual", other, TRUTH)

    def __eq__(self, other: object) -> Any:
        return self._with("Equal", other, TRUTH)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: "Symbol") -> "Symbol":
        return self._with("And", other, TRUTH)

    def __invert__(self) -> "Symbol":
        return self.owner.emit("Not", [self], TRUTH)


class SymbolicArrays(Arrays):
    """Primitives as ONNX operators, version 18 of the default domain and later.

    Attributes
    ----------
    main : Nodes
        All nodes, in the order in which they run.
    initializers : dict
        Fitted arrays and numbers by name.
    """

    def __init__(self, kind: np.dtype[Any], prefix: str = "") -> None:
        super().__init__(kind)
        self.main = Nodes()
        self.initializers: dict[str, NDArray[Any]] = {}
        self._prefix = prefix
        self._current = self.main
        self._known: dict[Any, str] = {}
        self._widths: dict[str, int] = {}
        self._count = 0

    # Building

    def symbol(self, name: str, kind: np.dtype[Any]) -> Symbol:
        """Return a symbol for a name that exists already."""
        return Symbol(self, name, kind)

    def _new_name(self) -> str:
        self._count += 1
        return f"{self._prefix}v{self._count}"

    def emit(self, operator: str, inputs: Sequence[Any], kind: np.dtype[Any], **attributes: Any) -> Symbol:
        """Add a node with one result; numbers among the inputs take the type of the first symbol."""
        return self.emit_all(operator, inputs, [kind], **attributes)[0]

    def emit_all(
        self, operator: str, inputs: Sequence[Any], kinds: Sequence[np.dtype[Any]], **attributes: Any
    ) -> list[Symbol]:
        """Add a node with several results."""
        first = next((each.kind for each in inputs if isinstance(each, Symbol) and each.kind != TRUTH), WIDE)
        taken = [each if isinstance(each, Symbol) else self.number(each, first) for each in inputs]
        results = [Symbol(self, self._new_name(), kind) for kind in kinds]
        node = (operator, [each.name for each in taken], [each.name for each in results], attributes)
        self._current.nodes.append(node)
        return results

    def number(self, value: float, kind: np.dtype[Any]) -> Symbol:
        """Return a single number."""
        return self._stored(np.asarray(value, dtype=kind), "number")

    def integers(self, values: Sequence[int]) -> Symbol:
        """Return a vector of integers, such as axes."""
        return self._stored(np.asarray(values, dtype=INTEGER), "integers")

    def _stored(self, array: NDArray[Any], name: str) -> Symbol:
        key = (array.dtype.str, array.shape, array.tobytes())
        found = self._known.get(key)
        if found is None:
            found = f"{self._prefix}{name}_c{len(self.initializers)}"
            self.initializers[found] = array
            self._known[key] = found
        return Symbol(self, found, array.dtype)

    def _body(self, inputs: Sequence[Symbol], make: Callable[[], Sequence[Symbol]]) -> Nodes:
        """Return the nodes that a function adds."""
        outer, body = self._current, Nodes(inputs=list(inputs))
        self._current = body
        try:
            # An output of a body must be a result of one of its nodes.
            body.outputs = [self.emit("Identity", [each], each.kind) for each in make()]
        finally:
            self._current = outer
        return body

    # Constants and types

    def constant(self, name: str, array: NDArray[Any], like: Symbol | None = None) -> Symbol:
        is_float = array.dtype.kind == "f"
        kind = (WIDE if like is None else like.kind) if is_float else INTEGER
        with np.errstate(over="ignore", under="ignore"):
            return self._stored(array.astype(kind), self.path(name))

    def numbers(self, name: str, array: NDArray[Any], like: Symbol) -> list[Symbol]:
        return [self.constant(name, number, like) for number in np.asarray(array, dtype=WIDE)]

    def kind_of(self, x: Symbol) -> np.dtype[Any]:
        return x.kind

    def cast(self, x: Symbol, kind: np.dtype[Any]) -> Symbol:
        return x if x.kind == kind else self.emit("Cast", [x], kind, to=kind)

    def width(self, x: Symbol) -> int:
        return self._widths[x.name]

    def with_width(self, x: Symbol, width: int) -> Symbol:
        self._widths[x.name] = width
        return x

    # Elementwise

    def function(self, name: str, x: Symbol) -> Symbol:
        if name == "log1p":
            # Kahan's formula, which compensates for the error of 1 + x.
            u = x + 1.0
            is_one = u == 1.0
            exact = self.emit("Log", [u], x.kind) * x / self.where(is_one, 1.0, u - 1.0)
            return self.where(is_one, x, exact)
        if name == "expm1":
            u = self.emit("Exp", [x], x.kind)
            is_small = (u > 0.5) & (u < 2.0) & ~(u == 1.0)
            safe = self.where(is_small, u, 2.0)
            exact = (safe - 1.0) * x / self.emit("Log", [safe], x.kind)
            return self.where(is_small, exact, self.where(u == 1.0, x, u - 1.0))
        if name == "sigmoid":
            # The operator Sigmoid of ONNX Runtime gives zero below about -18 (float32) and -37 (float64).
            power = self.emit("Exp", [-self.function("absolute", x)], x.kind)
            return self.where(x < 0.0, power, 1.0) / (power + 1.0)
        operator = {
            "exp": "Exp",
            "log": "Log",
            "absolute": "Abs",
            "square-root": "Sqrt",
            "tanh": "Tanh",
            "reciprocal": "Reciprocal",
        }[name]
        return self.emit(operator, [x], x.kind)

    def maximum(self, x: Symbol, y: Any) -> Symbol:
        return self.emit("Max", [x, y], x.kind)

    def minimum(self, x: Symbol, y: Any) -> Symbol:
        return self.emit("Min", [x, y], x.kind)

    def where(self, condition: Symbol, x: Any, y: Any) -> Symbol:
        return self.emit("Where", [condition, x, y], (x if isinstance(x, Symbol) else y).kind)

    def replaced(self, condition: Symbol, x: Symbol, y: Symbol) -> Symbol:
        return self.where(condition, x, y)

    # Rows

    def row(self, name: str, x: Symbol) -> Symbol:
        operator = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin"}[name]
        return self.emit(operator, [x, self.integers([COLUMNS])], x.kind, keepdims=1)

    def argmax(self, x: Symbol) -> Symbol:
        return self.emit("ArgMax", [x], INTEGER, axis=COLUMNS, keepdims=1, select_last_index=0)

    def softmax(self, x: Symbol) -> Symbol:
        return self.emit("Softmax", [x], x.kind, axis=COLUMNS)

    def log_softmax(self, x: Symbol) -> Symbol:
        return self.emit("LogSoftmax", [x], x.kind, axis=COLUMNS)

    def matmul(self, x: Symbol, weights: Symbol) -> Symbol:
        return self.emit("MatMul", [x, weights], x.kind)

    def cumulative_sum(self, x: Symbol) -> Symbol:
        return self.emit("CumSum", [x, self.number(COLUMNS, INTEGER)], x.kind)

    def mean_of_middle(self, x: Symbol) -> Symbol:
        return self.emit("ReduceMean", [x, self.integers([1])], x.kind, keepdims=0)

    # Columns and order

    def take(self, vector: Symbol, places: Symbol) -> Symbol:
        return self.emit("Gather", [vector, places], vector.kind, axis=0)

    def take_along(self, x: Symbol, columns: Symbol) -> Symbol:
        return self.emit("GatherElements", [x, columns], x.kind, axis=COLUMNS)

    def put_along(self, columns: Symbol, values: Symbol) -> Symbol:
        return self.emit("ScatterElements", [values, columns, values], values.kind, axis=COLUMNS)

    def columns(self, x: Symbol, columns: NDArray[np.intp]) -> Symbol:
        return self.emit("Gather", [x, self.integers(columns.tolist())], x.kind, axis=COLUMNS)

    def joined(self, values: Sequence[Symbol]) -> Symbol:
        return self.emit("Concat", values, values[0].kind, axis=COLUMNS)

    def order(self, x: Symbol, n_first: int, *, descending: bool) -> Symbol:
        """Return the columns in sorted order; the specification of TopK puts the first of equals first."""
        _, columns = self.emit_all(
            "TopK",
            [x, self.integers([n_first])],
            [x.kind, INTEGER],
            axis=COLUMNS,
            largest=int(descending),
            sorted=1,
        )
        return columns

    def search(
        self, x: Symbol, knots: NDArray[np.float64], n_knots: NDArray[np.intp], *, closed_left: bool
    ) -> Symbol:
        first = np.cumsum(n_knots) - n_knots
        if len(knots) == 0:
            return self.cast(x * 0.0, INTEGER) + self.constant("first_segments", np.arange(len(n_knots)))
        # One column per entry of n_knots; a shared curve has one, which counts for all.
        own = self.constant("knots", knots, x)
        low = self.constant("first_knots", first)
        size = self.constant("n_knots", n_knots)
        last = self.number(len(knots) - 1, INTEGER)
        two, one, none = (self.number(each, INTEGER) for each in (2, 1, 0))
        for _ in range(int(np.max(n_knots)).bit_length()):
            half = size / two
            middle = self.take(own, self.minimum(low + half, last))
            reached = (x >= middle) if closed_left else (x > middle)
            reached = (size > none) & reached
            low = low + self.where(reached, half + one, none)
            size = self.where(reached, size - half - one, half)
        return low + self.constant("columns_before", np.arange(len(n_knots)))

    def ladder(self, x: Symbol, rises: Symbol, n_columns: int) -> Symbol:
        """Return rows raised from left to right, by a scan over the columns; if there is anything to raise."""
        later = self.columns(x, np.arange(1, n_columns))
        earlier = self.columns(x, np.arange(n_columns - 1))
        wrong = self.where(rises, self.cast(later <= earlier, x.kind), self.cast(~(later == earlier), x.kind))
        any_wrong = self.emit("ReduceMax", [wrong], x.kind, keepdims=0) > 0.0

        def scanned() -> Sequence[Symbol]:
            below, own, must_rise = (self.symbol(self._new_name(), kind) for kind in (x.kind, x.kind, TRUTH))

            def step() -> Sequence[Symbol]:
                raised = self.where(must_rise, self.maximum(own, self.next_up(below)), below)
                return [raised, raised]

            body = self._body([below, own, must_rise], step)
            start = self.emit("Squeeze", [self.columns(x, np.zeros(1, np.intp)), self.integers([1])], x.kind)
            _, above = self.emit_all(
                "Scan",
                [start, later, rises],
                [x.kind, x.kind],
                body=body,
                num_scan_inputs=2,
                scan_input_axes=[COLUMNS, COLUMNS],
                scan_output_axes=[COLUMNS],
            )
            return [self.joined([self.columns(x, np.zeros(1, np.intp)), above])]

        branches = {"then_branch": self._body([], scanned), "else_branch": self._body([], lambda: [x])}
        return self.emit("If", [any_wrong], x.kind, **branches)

    # Iteration

    def detached(self, x: Symbol) -> Symbol:
        return x

    def iterated(
        self,
        step: Callable[[tuple[Symbol, ...]], tuple[tuple[Symbol, ...], Symbol]],
        state: tuple[Symbol, ...],
        most: int,
    ) -> tuple[Symbol, ...]:
        """Return the state after a loop, which ends where all errors are at rounding."""
        number, goes_on = self.symbol(self._new_name(), INTEGER), self.symbol(self._new_name(), TRUTH)
        inner = tuple(self.symbol(self._new_name(), each.kind) for each in state)

        def body() -> Sequence[Symbol]:
            following, errors = step(inner)
            largest = self.emit("ReduceMax", [self.function("absolute", errors)], errors.kind, keepdims=0)
            return [largest > 1e-15, *following]

        nodes = self._body([number, goes_on, *inner], body)
        nodes.is_loop = True
        results = self.emit_all(
            "Loop",
            [self.number(most, INTEGER), self._stored(np.asarray(True), "go"), *state],
            [each.kind for each in state],
            body=nodes,
        )
        return tuple(results)
