"""Formulas of all graph operations, on the primitives that ONNX and torch share."""

from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant.errors import ExportError
from calibrant.export.arrays import WIDE, Array, Arrays
from calibrant.graph import MapGraph
from calibrant.graph.columns import (
    BoundGaps,
    Columns,
    Constant,
    Floor,
    Join,
    RestOfClasses,
    RestOfLargest,
    Restrict,
    SetLargest,
)
from calibrant.graph.curves import Piecewise, Ramps
from calibrant.graph.elementwise import Affine, Arithmetic, Clip, Function, Log, Narrow, Widen
from calibrant.graph.order import CumulativeSum, FirstOfLeast, Restore, SortDescending, Unsort
from calibrant.graph.rows import CERTAIN, SPREAD, Dense, LogSoftmax, Mixture, Normalise, RowReduce, Softmax
from calibrant.graph.switch import Switch
from calibrant.graph.trees import TreeMeans
from calibrant.numerics.simplex import ROUNDING_OF_LOGITS
from calibrant.numerics.tree_walk import places_below

__all__ = ["FORMULAS", "applied"]

Formula = Callable[..., Array]

FORMULAS: dict[str, Formula] = {}
"""``formula(arrays, operation, *values)`` by the name of the operation."""

# The bracketed Newton method of "shift" reaches rounding in 31 steps on the worst of 50,000 rows with zeros and ones.
NEWTON_STEPS = 40


def _of(kind: type[Any]) -> Callable[[Formula], Formula]:
    def register(formula: Formula) -> Formula:
        FORMULAS[kind.name] = formula
        return formula

    return register


def applied(arrays: Arrays, graph: MapGraph, x: Array) -> Array:
    """Apply a graph to an array of scores of the float type ``arrays.kind``."""
    values = [arrays.with_width(x, graph.n_columns)]
    for number, (operation, sources) in enumerate(graph.nodes, start=1):
        formula = FORMULAS.get(operation.name)
        if formula is None:
            raise ExportError(
                f"the operation {operation.name!r} of this calibrator cannot be exported to this format; export it to JSON, "
                "or use another method, such as temperature scaling."
            )
        with arrays.scope(f"{operation.name.replace('-', '_')}_{number}"):
            result = formula(arrays, operation, *[values[source] for source in sources])
        result = arrays.cast(result, WIDE if graph.is_wide[number] else arrays.kind)
        values.append(arrays.with_width(result, graph.widths[number]))
    return values[-1]


def _common(arrays: Arrays, *values: Array) -> list[Array]:
    """Return values of one float type, float64 if one of them is."""
    if all(arrays.kind_of(value) == arrays.kind_of(values[0]) for value in values):
        return list(values)
    return [arrays.cast(value, WIDE) for value in values]


def _log1p_exp(arrays: Arrays, x: Array) -> Array:
    """Return log(1 + exp(-|x|))."""
    return arrays.function("log1p", arrays.function("exp", -arrays.function("absolute", x)))


# Elementwise


@_of(Affine)
def _affine(arrays: Arrays, operation: Affine, x: Array) -> Array:
    if (operation.scale != 1).any():
        x = x * arrays.constant("scale", operation.scale, x)
        if not operation.shift.any():
            return x
    return x + arrays.constant("shift", operation.shift, x)


@_of(Log)
def _log(arrays: Arrays, operation: Log, x: Array) -> Array:
    (least,) = arrays.numbers("least", np.log([operation.floor]), x)
    # The derivative of the logarithm at zero, times zero, would be NaN.
    is_zero = x <= 0
    y = arrays.maximum(arrays.function("log", arrays.where(is_zero, 1.0, x)), least)
    return arrays.where(is_zero, least, y)


@_of(Clip)
def _clip(arrays: Arrays, operation: Clip, x: Array) -> Array:
    if np.isfinite(operation.low).any():
        x = arrays.maximum(x, arrays.constant("low", operation.low, x))
    if np.isfinite(operation.high).any():
        x = arrays.minimum(x, arrays.constant("high", operation.high, x))
    return x


@_of(Function)
def _function(arrays: Arrays, operation: Function, x: Array) -> Array:
    match operation.function:
        case "log-sigmoid":
            return arrays.minimum(x, 0.0) - _log1p_exp(arrays, x)
        case "softplus":
            return arrays.maximum(x, 0.0) + _log1p_exp(arrays, x)
        case "square":
            return x * x
        case "relu":
            return arrays.maximum(x, 0.0)
        case "elu":
            return arrays.maximum(x, 0.0) + arrays.function("expm1", arrays.minimum(x, 0.0))
        case name:
            return arrays.function(name, x)


@_of(Arithmetic)
def _arithmetic(arrays: Arrays, operation: Arithmetic, x: Array, y: Array) -> Array:
    x, y = _common(arrays, x, y)
    match operation.function:
        case "add":
            return x + y
        case "subtract":
            return x - y
        case "multiply":
            return x * y
        case "divide":
            return x / y
        case "minimum":
            return arrays.minimum(x, y)
        case "maximum":
            return arrays.maximum(x, y)


@_of(Widen)
def _widen(arrays: Arrays, operation: Widen, x: Array) -> Array:  # noqa: ARG001
    return arrays.cast(x, WIDE)


@_of(Narrow)
def _narrow(arrays: Arrays, operation: Narrow, x: Array) -> Array:
    if operation.keep_positive:
        x = arrays.where(x == 0, x, arrays.maximum(x, float(np.finfo(arrays.kind).tiny)))
    return arrays.cast(x, arrays.kind)


@_of(Piecewise)
def _piecewise(arrays: Arrays, operation: Piecewise, x: Array) -> Array:
    segments = arrays.search(x, operation.knots, operation.n_knots, closed_left=operation.closed == "left")

    def of_segment(name: str, numbers: Any) -> Array:
        return arrays.take(arrays.constant(name, numbers), segments)

    last = len(operation.coefficients) - 1
    y = of_segment(f"coefficients_{last}", operation.coefficients[last])
    if last > 0:
        offsets = arrays.cast(x, WIDE) - of_segment("origins", operation.origins)
        for degree in range(last - 1, -1, -1):
            y = y * offsets + of_segment(f"coefficients_{degree}", operation.coefficients[degree])
        if operation.lower is not None:
            y = arrays.maximum(y, of_segment("lower", operation.lower))
        if operation.upper is not None:
            y = arrays.minimum(y, of_segment("upper", operation.upper))
    return y


@_of(Ramps)
def _ramps(arrays: Arrays, operation: Ramps, x: Array) -> Array:
    slopes = arrays.numbers("slopes", operation.slopes, x)
    if len(operation.knots) == 0:
        return x * slopes[0]
    knots = arrays.numbers("knots", operation.knots, x)
    (constant,) = arrays.numbers("constant", operation.slopes[1:] @ operation.knots[:, np.newaxis], x)
    bent = None
    for place, (slope, low) in enumerate(zip(slopes[1:], knots, strict=True)):
        segment = arrays.maximum(x, low)
        if place + 1 < len(knots):
            segment = arrays.minimum(segment, knots[place + 1])
        bent = segment * slope if bent is None else bent + segment * slope
    return arrays.minimum(x - knots[0], 0.0) * slopes[0] + (bent - constant)


# Rows


@_of(Softmax)
def _softmax(arrays: Arrays, operation: Softmax, x: Array) -> Array:  # noqa: ARG001
    return arrays.softmax(x)


@_of(LogSoftmax)
def _log_softmax(arrays: Arrays, operation: LogSoftmax, x: Array) -> Array:  # noqa: ARG001
    return arrays.log_softmax(x)


@_of(RowReduce)
def _row_reduce(arrays: Arrays, operation: RowReduce, x: Array) -> Array:
    if operation.function == "mean":
        return arrays.row("sum", x) / float(arrays.width(x))
    return arrays.row(operation.function, x)


@_of(Dense)
def _dense(arrays: Arrays, operation: Dense, x: Array) -> Array:
    product = arrays.matmul(x, arrays.constant("weights", operation.weights, x))
    return product + arrays.constant("intercept", operation.intercept, x)


@_of(Mixture)
def _mixture(arrays: Arrays, operation: Mixture, *values: Array) -> Array:
    values = tuple(_common(arrays, *values))
    weights = arrays.numbers("weights", operation.weights, values[0])
    total = values[0] * weights[0]
    for value, weight in zip(values[1:], weights[1:], strict=True):
        total = total + value * weight
    return total


@_of(Normalise)
def _normalise(arrays: Arrays, operation: Normalise, values: Array, fallback: Array) -> Array:
    n_columns = arrays.width(values)
    block = arrays.cast(values, WIDE)
    block = arrays.where(arrays.row("max", block) == 0, arrays.cast(fallback, WIDE), block)
    if operation.how == "shift":
        block = _shifted(arrays, block, n_columns)
    elif operation.how == "project":
        block = _projected(arrays, block, n_columns)
    block = block / arrays.row("sum", block)
    return arrays.cast(block, arrays.kind_of(values))


def _shifted(arrays: Arrays, block: Array, n_columns: int) -> Array:
    """See :class:`~calibrant.graph.rows.Normalise`: a bracketed Newton method, whose last step has a derivative."""
    is_one, is_zero = block >= 1, block <= 0
    inside = arrays.where(is_one, 0.5, arrays.where(is_zero, 0.5, block))
    odds = arrays.function("log", inside) - arrays.function("log1p", -inside)
    odds = arrays.minimum(arrays.where(is_one, CERTAIN, odds), CERTAIN)
    # Far below the log-odds of the smallest positive number.
    odds = arrays.where(is_zero, -1e4, odds)
    largest = arrays.row("max", odds)
    odds = arrays.maximum(odds - largest, -SPREAD)
    base = float(np.log(max(n_columns - 1, 1)))
    low = arrays.row("min", odds) + base
    high = low * 0.0 + base

    constant_odds = arrays.detached(odds)

    def newton(state: tuple[Array, ...]) -> tuple[tuple[Array, ...], Array]:
        shift, low, high = state
        shifted = arrays.function("sigmoid", constant_odds - shift)
        excess = arrays.row("sum", shifted) - 1.0
        above = excess > 0
        low, high = arrays.where(above, shift, low), arrays.where(above, high, shift)
        following = shift + excess / arrays.row("sum", shifted * (1.0 - shifted))
        inside = (following >= low) & (following <= high)
        return (arrays.where(inside, following, (low + high) * 0.5), low, high), excess

    start = arrays.maximum(arrays.minimum(-largest, high), low)
    state = (arrays.detached(start), arrays.detached(low), arrays.detached(high))
    shift, _, _ = arrays.iterated(newton, state, NEWTON_STEPS)
    # A step of length zero; by the implicit function theorem it has the derivative of the root.
    shifted = arrays.function("sigmoid", odds - shift)
    slope = arrays.maximum(arrays.row("sum", arrays.detached(shifted * (1.0 - shifted))), 1e-200)
    step = (arrays.row("sum", shifted) - 1.0) / slope
    shift = shift + (step - arrays.detached(step))
    return arrays.function("sigmoid", odds - shift)


def _projected(arrays: Arrays, block: Array, n_columns: int) -> Array:
    descending = arrays.take_along(block, arrays.order(block, n_columns, descending=True))
    excess = (arrays.cumulative_sum(descending) - 1.0) / arrays.constant(
        "places", np.arange(1.0, n_columns + 1)
    )
    # The condition holds for the first entries and no others: the last of them is looked up.
    positive = arrays.cast(descending > excess, WIDE)
    last = arrays.argmax(positive * arrays.constant("places", np.arange(1.0, n_columns + 1)))
    return arrays.maximum(block - arrays.take_along(excess, last), 0.0)


# Columns


@_of(Columns)
def _columns(arrays: Arrays, operation: Columns, x: Array) -> Array:
    return arrays.columns(x, operation.columns)


@_of(Join)
def _join(arrays: Arrays, operation: Join, *values: Array) -> Array:
    together = arrays.joined(_common(arrays, *values))
    in_order = np.array_equal(operation.columns, np.arange(len(operation.columns)))
    return together if in_order else arrays.columns(together, operation.columns)


@_of(Constant)
def _constant(arrays: Arrays, operation: Constant, x: Array) -> Array:
    first = arrays.columns(x, np.zeros(1, np.intp))
    # Zero, also for a first entry that is infinite.
    return arrays.where(first == first, 0.0, first) + arrays.constant("numbers", operation.numbers, x)


def _is_at(arrays: Arrays, columns: Array, n_columns: int) -> Array:
    """Return which entry of every row is in a given column."""
    return arrays.constant("columns", np.arange(n_columns)) == columns


def _rest_of_largest(arrays: Arrays, scores: Array, logits: bool) -> tuple[Array, Array, Array]:
    """Return where the largest entry is, the entry, and the sum of the others; of logits its logarithm."""
    is_largest = _is_at(arrays, arrays.argmax(scores), arrays.width(scores))
    block = arrays.cast(scores, WIDE)
    largest = arrays.row("max", block)
    if not logits:
        return is_largest, largest, arrays.row("sum", arrays.where(is_largest, 0.0, block))
    others = arrays.where(is_largest, -np.inf, block)
    second = arrays.row("max", others)
    rest = second + arrays.function("log", arrays.row("sum", arrays.function("exp", others - second)))
    return is_largest, largest, rest


@_of(RestOfLargest)
def _rest_and_largest(arrays: Arrays, operation: RestOfLargest, x: Array) -> Array:
    _, largest, rest = _rest_of_largest(arrays, x, operation.logits)
    return arrays.joined([rest, largest])


@_of(RestOfClasses)
def _rest_of_classes(arrays: Arrays, operation: RestOfClasses, x: Array) -> Array:
    is_largest, largest, rest = _rest_of_largest(arrays, x, operation.logits)
    block = arrays.cast(x, WIDE)
    if not operation.logits:
        return arrays.where(is_largest, rest, (largest + rest) - block)
    total = arrays.maximum(largest, rest) + _log1p_exp(arrays, largest - rest)
    share = arrays.where(is_largest, 0.0, arrays.function("exp", arrays.minimum(block - total, 0.0)))
    return arrays.where(is_largest, rest, total + arrays.function("log1p", -share))


@_of(SetLargest)
def _set_largest(arrays: Arrays, operation: SetLargest, both: Array, scores: Array) -> Array:
    is_largest = _is_at(arrays, arrays.argmax(scores), arrays.width(scores))
    block, both = arrays.cast(scores, WIDE), arrays.cast(both, WIDE)
    rest, confidence = (arrays.columns(both, np.array([column])) for column in (0, 1))
    if operation.logits:
        block = arrays.where(is_largest, -np.inf, block)
        block = arrays.function("exp", block - arrays.row("max", block))
    else:
        block = arrays.where(is_largest, 0.0, arrays.maximum(block, operation.floor))
    block = block / arrays.row("sum", block) * rest
    block = arrays.where(rest > 0, arrays.maximum(block, float(np.finfo(WIDE).tiny)), block)
    return arrays.where(is_largest, confidence, block)


@_of(Floor)
def _floor(arrays: Arrays, operation: Floor, x: Array) -> Array:
    least = max(operation.floor, float(np.finfo(arrays.kind_of(x)).tiny))
    smallest = arrays.row("min", x)
    raised = arrays.maximum(x, least)
    raised = _argmax_restored(arrays, raised / arrays.row("sum", raised), x)
    return arrays.where(smallest == 0 if operation.only_zeros else smallest < least, raised, x)


@_of(BoundGaps)
def _bound_gaps(arrays: Arrays, operation: BoundGaps, x: Array) -> Array:  # noqa: ARG001
    kind = np.finfo(arrays.kind_of(x))
    least = float(np.log(kind.tiny).astype(kind.dtype))
    tops = arrays.row("max", x)
    gaps = x - tops
    is_huge = arrays.function("absolute", tops) * float(kind.eps) > ROUNDING_OF_LOGITS
    raised = arrays.where(is_huge, arrays.maximum(gaps, least), arrays.maximum(x, tops + least))
    return arrays.where(arrays.row("min", gaps) < least, raised, x)


@_of(Restrict)
def _restrict(arrays: Arrays, operation: Restrict, x: Array) -> Array:
    chosen = arrays.columns(x, operation.columns)
    total = arrays.row("sum", chosen)
    is_empty = total <= 0
    shares = chosen / arrays.where(is_empty, 1.0, total)
    return arrays.where(is_empty, 1 / len(operation.columns), shares)


@_of(Switch)
def _switch(arrays: Arrays, operation: Switch, x: Array, selector: Array) -> Array:
    x = arrays.cast(x, WIDE)
    results = []
    for number, branch in enumerate(operation.branches):
        with arrays.scope(f"branch_{number}", WIDE):
            results.append(applied(arrays, branch, x))
    if len(results) == 1:
        return results[0]
    numbers = arrays.take(
        arrays.constant("branch_of_column", operation.branch_of_column), arrays.argmax(selector)
    )
    result = results[0]
    for number, other in enumerate(results[1:], start=1):
        result = arrays.where(numbers == number, other, result)
    return result


# Trees


@_of(TreeMeans)
def _tree_means(arrays: Arrays, operation: TreeMeans, x: Array) -> Array:
    """Return means of leaves over trees; all trees go down one level at a time, and leaves lead to themselves."""
    total, roots = len(operation.thresholds), operation.roots
    leaves = np.arange(total, total + len(operation.values))
    below = places_below(operation.n_splits, operation.children)
    following = np.concatenate([below, np.column_stack([leaves, leaves])])
    columns = arrays.constant("columns", np.append(operation.columns, np.zeros(len(leaves), np.intp)))
    thresholds = arrays.constant("thresholds", np.append(operation.thresholds, np.zeros(len(leaves))))
    left, right = (arrays.constant(name, following[:, side]) for side, name in enumerate(("left", "right")))
    block, places = arrays.cast(x, WIDE), arrays.argmax(x) * 0 + arrays.constant("roots", roots)
    reached = np.unique(roots)
    while (reached < total).any():
        is_left = arrays.take_along(block, arrays.take(columns, places)) < arrays.take(thresholds, places)
        places = arrays.where(is_left, arrays.take(left, places), arrays.take(right, places))
        reached = np.unique(following[reached])
    leaf = places - arrays.constant("n_splits", np.array(total))
    return arrays.mean_of_middle(arrays.take(arrays.constant("values", operation.values), leaf))


# Order


def _argmax_restored(arrays: Arrays, values: Array, reference: Array) -> Array:
    """See :func:`calibrant.numerics.row_order.restore_argmax`."""
    first, wanted = arrays.argmax(values), arrays.argmax(reference)
    largest = arrays.row("max", values)
    raised = arrays.where(first < wanted, arrays.next_up(largest), largest)
    is_lost = _is_at(arrays, wanted, arrays.width(reference)) & ~(first == wanted)
    return arrays.replaced(is_lost, raised, values)


@_of(Restore)
def _restore(arrays: Arrays, operation: Restore, values: Array, reference: Array) -> Array:
    if operation.kept == "argmax":
        return _argmax_restored(arrays, values, reference)
    n_columns = arrays.width(values)
    order = arrays.order(reference, n_columns, descending=False)
    in_order = arrays.take_along(reference, order)
    later, earlier = np.arange(1, n_columns), np.arange(n_columns - 1)
    rises = arrays.columns(in_order, later) > arrays.columns(in_order, earlier)
    raised = arrays.put_along(order, arrays.ladder(arrays.take_along(values, order), rises, n_columns))
    return arrays.replaced(~(raised == values), raised, values)


@_of(SortDescending)
def _sort_descending(arrays: Arrays, operation: SortDescending, x: Array) -> Array:
    return arrays.take_along(x, arrays.order(x, operation.n_largest, descending=True))


@_of(Unsort)
def _unsort(arrays: Arrays, operation: Unsort, values: Array, reference: Array) -> Array:  # noqa: ARG001
    order = arrays.order(reference, arrays.width(reference), descending=True)
    return arrays.put_along(order, values)


@_of(CumulativeSum)
def _cumulative_sum(arrays: Arrays, operation: CumulativeSum, x: Array) -> Array:  # noqa: ARG001
    return arrays.cumulative_sum(x)


@_of(FirstOfLeast)
def _first_of_least(arrays: Arrays, operation: FirstOfLeast, x: Array) -> Array:
    is_least = x <= arrays.row("min", x) + operation.tolerance
    first = arrays.argmax(arrays.cast(is_least, arrays.kind_of(x)))
    return arrays.cast(_is_at(arrays, first, arrays.width(x)), arrays.kind_of(x))
