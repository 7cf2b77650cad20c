"""SQL terms of every operation of a map graph."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from calibrant.export.sql.terms import (
    ONE,
    TINY,
    ZERO,
    Arithmetic,
    Query,
    Term,
    TermError,
    is_place,
    maximum,
    minimum,
    number,
    summed,
    text_of,
    when,
)
from calibrant.graph import MapGraph
from calibrant.graph.rows import Dense

__all__ = ["EMITTERS", "terms_of"]

Terms = list[Term]

Emitter = Callable[..., Terms]

EMITTERS: dict[str, Emitter] = {}
"""``emitter(operation, arithmetic, *values)`` by the name of the operation."""


def _emits(name: str) -> Callable[[Emitter], Emitter]:
    def register(emitter: Emitter) -> Emitter:
        EMITTERS[name] = emitter
        return emitter

    return register


def terms_of(graph: MapGraph, inputs: Terms, arithmetic: Arithmetic) -> Terms:
    """Return the output of a graph as one term per column, in the arithmetic of the float type of the input."""
    query = arithmetic.query
    n_uses = [0] * len(graph.widths)
    for node in graph.nodes:
        for source in node.sources:
            n_uses[source] += 1
    values: list[Terms] = [query.stored(inputs)]
    for place, (operation, sources) in enumerate(graph.nodes, start=1):
        emit = EMITTERS.get(operation.name)
        if emit is None:
            raise TermError(f"it has an operation that SQL cannot express ({operation.name})")
        kind, given = (
            "float64" if graph.is_wide[number] else arithmetic.kind for number in (place, sources[0])
        )
        terms = emit(operation, arithmetic.as_kind(kind, given), *[values[source] for source in sources])
        values.append(query.stored(terms) if n_uses[place] > 1 else terms)
    return values[-1]


@_emits("affine")
def _affine(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    (xs,) = values
    scales, shifts = (a.per_column(each, len(xs)) for each in (operation.scale, operation.shift))
    return [a.add(a.multiply(x, scale), shift) for x, scale, shift in zip(xs, scales, shifts, strict=True)]


@_emits("clip")
def _clip(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    (xs,) = values
    lows, highs = (np.broadcast_to(each, (len(xs),)).tolist() for each in (operation.low, operation.high))
    return [_clipped(a, x, low, high) for x, low, high in zip(xs, lows, highs, strict=True)]


def _clipped(a: Arithmetic, x: Term, low: float, high: float) -> Term:
    x = x if low == -np.inf else maximum(x, a.number(low))
    return x if high == np.inf else minimum(x, a.number(high))


@_emits("log")
def _log(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    floor, least = number(operation.floor), a.number(np.log(operation.floor))
    results = []
    for x in a.query.stored(values[0]):
        is_above = text_of("{} > {}", x, floor)
        # A rounded logarithm may be a column of its own, which is computed for zeros too.
        safe = a.query.named(when(is_above, x, ONE))
        results.append(when(is_above, maximum(a.log(safe), least), least))
    return results


def _decay(a: Arithmetic, x: Term) -> Term:
    """Return e^-|x|, named."""
    return a.query.named(a.as_kind("float64").exp(text_of("-ABS({})", x)))


def _sigmoid(a: Arithmetic, x: Term) -> Term:
    decay = _decay(a, x)
    return when(
        text_of("{} >= 0e0", x), text_of("1e0 / (1e0 + {})", decay), text_of("{} / (1e0 + {})", decay, decay)
    )


def _expm1(a: Arithmetic, x: Term) -> Term:
    """Return e^x - 1 of a term that is not positive, without loss of digits, after Kahan."""
    power = a.query.named(a.as_kind("float64").exp(x))
    ratio = text_of("({} - 1e0) * {} / LN({})", power, x, power)
    return text_of("CASE WHEN {} = 1e0 THEN {} WHEN {} < 1e-17 THEN -1e0 ELSE {} END", power, x, power, ratio)


def _tanh(a: Arithmetic, x: Term) -> Term:
    decay = a.query.named(a.as_kind("float64").exp(text_of("-2e0 * ABS({})", x)))
    size = text_of("(1e0 - {}) / (1e0 + {})", decay, decay)
    return when(text_of("{} >= 0e0", x), size, text_of("-({})", size))


FUNCTIONS: dict[str, Callable[[Arithmetic, Term], Term]] = {
    "exp": lambda a, x: a.as_kind("float64").exp(x),
    "sigmoid": _sigmoid,
    "log-sigmoid": lambda a, x: text_of("(LEAST({}, 0e0) - {})", x, a.as_kind("float64").log1p(_decay(a, x))),
    "softplus": lambda a, x: text_of("(GREATEST({}, 0e0) + {})", x, a.as_kind("float64").log1p(_decay(a, x))),
    "absolute": lambda a, x: text_of("ABS({})", x),  # noqa: ARG005
    "square": lambda a, x: text_of("({} * {})", x, x),  # noqa: ARG005
    "square-root": lambda a, x: text_of("SQRT({})", x),  # noqa: ARG005
    "relu": lambda a, x: text_of("GREATEST({}, 0e0)", x),  # noqa: ARG005
    "elu": lambda a, x: when(
        text_of("{} > 0e0", x), x, _expm1(a, a.query.named(text_of("LEAST({}, 0e0)", x)))
    ),
    "tanh": _tanh,
    "reciprocal": lambda a, x: text_of("(1e0 / {})", x),  # noqa: ARG005
}


@_emits("function")
def _function(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    function = FUNCTIONS[operation.function]
    return [a.rounded(function(a, x)) for x in a.query.stored(values[0])]


@_emits("arithmetic")
def _arithmetic(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    functions = {"minimum": minimum, "maximum": maximum}
    function = functions.get(operation.function) or getattr(a, operation.function)
    width = max(map(len, values))
    xs, ys = (a.query.stored(each) * width if len(each) < width else each for each in values)
    return [function(x, y) for x, y in zip(xs, ys, strict=True)]


@_emits("narrow")
def _narrow(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    if not operation.keep_positive:
        return [a.rounded(x) for x in values[0]]
    tiny = number(TINY[a.kind])
    return [
        a.rounded(when(text_of("{} = 0e0", x), ZERO, maximum(x, tiny))) for x in a.query.stored(values[0])
    ]


@_emits("softmax")
def _softmax(_: Any, a: Arithmetic, *values: Terms) -> Terms:
    powers = a.query.stored([a.exp(gap) for gap in _gaps(a, values[0])])
    total = a.query.named(a.total(powers))
    return [a.divide(power, total) for power in powers]


def _gaps(a: Arithmetic, xs: Terms) -> Terms:
    xs = a.query.stored(xs)
    top = a.query.named(a.query.largest(xs))
    return a.query.stored([a.subtract(x, top) for x in xs])


@_emits("log-softmax")
def _log_softmax(_: Any, a: Arithmetic, *values: Terms) -> Terms:
    gaps = _gaps(a, values[0])
    total = a.query.named(a.log(a.total([a.exp(gap) for gap in gaps])))
    return [a.subtract(gap, total) for gap in gaps]


@_emits("row-reduce")
def _row_reduce(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    (xs,) = values
    if operation.function == "max":
        return [a.query.largest(xs)]
    total = a.total(xs)
    return [a.divide(total, number(len(xs))) if operation.function == "mean" else total]


@_emits("dense")
def _dense(operation: Dense, a: Arithmetic, *values: Terms) -> Terms:
    xs = a.query.stored(values[0])
    result = []
    for weights, shift in zip(operation.weights.T, operation.intercept, strict=True):
        products = [text_of("{} * {}", x, a.number(weight)) for x, weight in zip(xs, weights, strict=True)]
        result.append(a.add(a.total(products), a.number(shift)))
    return result


@_emits("mixture")
def _mixture(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    weights = [a.number(weight) for weight in operation.weights]
    width = max(map(len, values))
    wide = [a.query.stored(each) * width if len(each) < width else each for each in values]
    result = []
    for entries in zip(*wide, strict=True):
        total = ZERO
        for weight, entry in zip(weights, entries, strict=True):
            total = a.add(total, a.multiply(entry, weight))
        result.append(total)
    return result


@_emits("normalise")
def _normalise(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    if operation.how == "shift":
        raise TermError("its rows are normalised by an iteration (normalisation 'shift')")
    wide = a.as_kind("float64")
    separate, fallback = (a.query.stored(each) for each in values)
    is_empty = text_of("{} = 0e0", a.query.named(a.query.largest(separate)))
    rows = a.query.stored([when(is_empty, f, x) for x, f in zip(separate, fallback, strict=True)])
    if operation.how == "project":
        sums, excesses = ZERO, []
        for place, x in enumerate(_descending(a.query, rows), start=1):
            sums = a.query.named(wide.add(sums, x))
            excesses.append(text_of(f"({{}} - 1e0) / {number(place).text}", sums))
        excess = a.query.named(a.query.largest(excesses))
        rows = a.query.stored([text_of("GREATEST({} - {}, 0e0)", x, excess) for x in rows])
    total = a.query.named(wide.total(rows))
    return [a.divide(x, total) for x in rows]


def _descending(query: Query, xs: Terms) -> Terms:
    """Return the terms in descending order, by Batcher's network of comparisons."""
    xs = query.stored(xs)
    for low, high in _network(len(xs)):
        first, second = xs[low], xs[high]
        xs[low], xs[high] = query.named(maximum(first, second)), query.named(minimum(first, second))
    return xs


def _network(size: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of merge exchange: Knuth, volume 3, section 5.2.2, algorithm M."""
    step = 1 << max((size - 1).bit_length() - 1, 0)
    p = step
    while p > 0:
        q, r, d = step, 0, p
        while True:
            yield from ((i, i + d) for i in range(size - d) if i & p == r)
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1


@_emits("sort-descending")
def _sort_descending(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    return _descending(a.query, values[0])[: operation.n_largest]


@_emits("unsort")
def _unsort(_: Any, a: Arithmetic, *values: Terms) -> Terms:
    sorted_values, reference = (a.query.stored(each) for each in values)
    result = []
    for column, own in enumerate(reference):
        before = [
            text_of(f"CASE WHEN {{}} {'>=' if other < column else '>'} {{}} THEN 1 ELSE 0 END", x, own)
            for other, x in enumerate(reference)
            if other != column
        ]
        place = a.query.named(summed(before)) if before else Term("0", is_atom=True)
        result.append(_chosen(place, sorted_values))
    return result


def _chosen(place: Term, terms: Sequence[Term]) -> Term:
    """Return the term of a given number."""
    cases = " ".join(f"WHEN {number} THEN {term.text}" for number, term in enumerate(terms[:-1]))
    columns = place.columns.union(*[term.columns for term in terms])
    return Term(f"CASE {place.text} {cases} ELSE {terms[-1].text} END", columns) if cases else terms[0]


@_emits("piecewise")
def _piecewise(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    xs = a.query.stored(values[0])
    compare = "<" if operation.closed == "left" else "<="
    knots = operation.knots.astype(a.given).astype(np.float64)
    stops = np.cumsum(operation.n_knots)
    is_shared = len(operation.n_knots) == 1
    result = []
    for column, x in enumerate(xs):
        curve = 0 if is_shared else column
        stop, count = int(stops[curve]), int(operation.n_knots[curve])
        first = stop - count + curve
        leaves = [_polynomial(operation, segment, x.text) for segment in range(first, first + count + 1)]
        own = knots[stop - count : stop]
        # Neighbours that are the same need no comparison; equal knots, as after rounding, leave the last segment.
        kept = [place for place in range(count) if leaves[place] != leaves[place + 1]]
        parts = [leaves[place] for place in kept] + [leaves[count]]
        result.append(Term(_searched(x.text, compare, own[kept].tolist(), parts), x.columns))
    return result


def _polynomial(operation: Any, segment: int, x: str) -> str:
    coefficients = operation.coefficients[:, segment].tolist()
    lower = -np.inf if operation.lower is None else float(operation.lower[segment])
    upper = np.inf if operation.upper is None else float(operation.upper[segment])
    while len(coefficients) > 1 and coefficients[-1] == 0:
        coefficients.pop()
    if len(coefficients) == 1:
        return number(min(max(coefficients[0], lower), upper)).text
    origin = float(operation.origins[segment])
    offset = x if origin == 0 else f"({x} - {number(origin).text})"
    text = number(coefficients[-1]).text
    for coefficient in coefficients[-2::-1]:
        text = (
            f"{text} * {offset}" if coefficient == 0 else f"({text} * {offset} + {number(coefficient).text})"
        )
    return _clipped(Arithmetic(Query(0)), Term(text), lower, upper).text


def _searched(x: str, compare: str, knots: list[float], leaves: list[str]) -> str:
    """Return a nested CASE that finds a segment by bisection."""
    if not knots:
        return leaves[0]
    middle = len(knots) // 2
    below = _searched(x, compare, knots[:middle], leaves[: middle + 1])
    above = _searched(x, compare, knots[middle + 1 :], leaves[middle + 1 :])
    return f"CASE WHEN {x} {compare} {number(knots[middle]).text} THEN {below} ELSE {above} END"


@_emits("ramps")
def _ramps(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    (xs,) = values
    knots, slopes = operation.knots.tolist(), [a.number(slope) for slope in operation.slopes]
    if not knots:
        return [a.multiply(x, slopes[0]) for x in xs]
    constant = a.number(operation.slopes[1:] @ operation.knots)
    result = []
    for x in a.query.stored(xs):
        bent = ZERO
        for slope, low, high in zip(slopes[1:], knots, [*knots[1:], np.inf], strict=True):
            bent = a.add(bent, a.multiply(_clipped(a, x, low, high), slope))
        first = a.multiply(minimum(a.subtract(x, a.number(knots[0])), ZERO), slopes[0])
        result.append(a.add(first, a.subtract(bent, constant)))
    return result


LOWEST = number(-np.finfo(np.float64).max)


def _rest_of_largest(a: Arithmetic, xs: Terms, logits: bool) -> tuple[Term, Term, Term]:
    """Return the arg-max, the largest entry, and the sum of the others (for logits its logarithm), as names."""
    index, top = a.query.argmax(xs)
    if not logits:
        others = [when(is_place(index, column), ZERO, x) for column, x in enumerate(xs)]
        return index, top, a.query.named(summed(others))
    others = a.query.stored([when(is_place(index, column), LOWEST, x) for column, x in enumerate(xs)])
    second = a.query.named(a.query.largest(others))
    powers = [
        when(is_place(index, column), ZERO, a.exp(text_of("{} - {}", x, second)))
        for column, x in enumerate(xs)
    ]
    return index, top, a.query.named(text_of("({} + LN({}))", second, summed(powers)))


@_emits("rest-of-classes")
def _rest_of_classes(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    xs = a.query.stored(values[0])
    index, top, rest = _rest_of_largest(a, xs, operation.logits)
    if not operation.logits:
        total = a.query.named(a.add(top, rest))
        return [when(is_place(index, column), rest, a.subtract(total, x)) for column, x in enumerate(xs)]
    gap = text_of("-ABS({} - {})", top, rest)
    total = a.query.named(text_of("({} + {})", maximum(top, rest), a.log1p(a.exp(gap))))
    result = []
    for column, x in enumerate(xs):
        share = a.exp(text_of("LEAST({} - {}, 0e0)", x, total))
        # The share of the largest may be one, of which there is no logarithm of the rest.
        share = a.query.named(when(is_place(index, column), ZERO, share))
        own = text_of("({} + {})", total, a.log1p(text_of("-{}", share)))
        result.append(when(is_place(index, column), rest, own))
    return result


@_emits("rest-of-largest")
def _rest_and_largest(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    _, top, rest = _rest_of_largest(a, a.query.stored(values[0]), operation.logits)
    return [rest, top]


@_emits("set-largest")
def _set_largest(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    (rest, confidence), xs = (a.query.stored(each) for each in values)
    index, _ = a.query.argmax(xs)
    if operation.logits:
        others = a.query.stored([when(is_place(index, column), LOWEST, x) for column, x in enumerate(xs)])
        top = a.query.named(a.query.largest(others))
        parts = [a.exp(text_of("{} - {}", x, top)) for x in xs]
    else:
        parts = [maximum(x, number(operation.floor)) for x in xs]
    parts = a.query.stored([when(is_place(index, column), ZERO, part) for column, part in enumerate(parts)])
    total = a.query.named(summed(parts))
    tiny = number(TINY["float64"])
    return [
        text_of(
            "CASE WHEN {} THEN {} WHEN {} > 0e0 THEN GREATEST({} / {} * {}, {}) ELSE 0e0 END",
            is_place(index, column), confidence, rest, part, total, rest, tiny,
        )
        for column, part in enumerate(parts)
    ]  # fmt: skip


def _restored(a: Arithmetic, values: Terms, reference: Terms) -> Terms:
    """Return values with the arg-max of the reference."""
    values = a.query.stored(values)
    wanted, _ = a.query.argmax(reference)
    first, top = a.query.argmax(values)
    return [
        text_of(
            f"CASE WHEN {{}} <> {column} THEN {{}} WHEN {{}} < {column} THEN {{}} ELSE {{}} END",
            wanted, x, first, a.above(top), top,
        )
        for column, x in enumerate(values)
    ]  # fmt: skip


@_emits("restore")
def _restore(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    own, reference = (a.query.stored(each) for each in values)
    if operation.kept == "order":
        # No smaller than any entry that the reference does not place above; equal where the reference is.
        own = [
            a.query.largest(
                [x]
                + [
                    text_of("CASE WHEN {} <= {} THEN {} ELSE {} END", r, reference[column], other, x)
                    for place, (r, other) in enumerate(zip(reference, own, strict=True))
                    if place != column
                ]
            )
            for column, x in enumerate(own)
        ]
    return _restored(a, own, reference)


@_emits("floor")
def _floor(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    xs = a.query.stored(values[0])
    least = number(max(operation.floor, TINY[a.kind]))
    smallest = a.query.named(a.query.smallest(xs))
    unchanged = (
        text_of("{} <> 0e0", smallest) if operation.only_zeros else text_of("{} >= {}", smallest, least)
    )
    raised = a.query.stored([maximum(x, a.number(max(operation.floor, TINY[a.kind]))) for x in xs])
    total = a.query.named(a.total(raised))
    restored = _restored(a, [a.divide(x, total) for x in raised], xs)
    return [when(unchanged, x, changed) for x, changed in zip(xs, restored, strict=True)]


@_emits("bound-gaps")
def _bound_gaps(_: Any, a: Arithmetic, *values: Terms) -> Terms:
    xs = a.query.stored(values[0])
    top, least = a.query.named(a.query.largest(xs)), a.number(np.log(TINY[a.kind]))
    smallest = a.query.named(a.query.smallest(xs))
    epsilon = number(float(np.finfo(a.kind).eps))
    bound = a.query.named(a.add(top, least))
    return [
        text_of(
            "CASE WHEN {} - {} >= {} THEN {} WHEN ABS({}) * {} > 1e-2 THEN GREATEST({}, {}) ELSE GREATEST({}, {}) END",
            smallest, top, least, x, top, epsilon, a.subtract(x, top), least, x, bound,
        )
        for x in xs
    ]  # fmt: skip


@_emits("restrict")
def _restrict(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    xs = a.query.stored([values[0][column] for column in operation.columns.tolist()])
    total = a.query.named(a.total(xs))
    uniform = a.number(1 / len(xs))
    return [when(text_of("{} > 0e0", total), a.divide(x, total), uniform) for x in xs]


@_emits("cumulative-sum")
def _cumulative_sum(_: Any, a: Arithmetic, *values: Terms) -> Terms:
    total, sums = ZERO, []
    for x in values[0]:
        total = a.query.named(a.add(total, x))
        sums.append(total)
    return sums


@_emits("first-of-least")
def _first_of_least(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    xs = a.query.stored(values[0])
    bound = a.query.named(a.add(a.query.smallest(xs), a.number(operation.tolerance)))
    index = a.query.first([text_of("{} <= {}", x, bound) for x in xs])
    return [when(is_place(index, column), ONE, ZERO) for column in range(len(xs))]


@_emits("switch")
def _switch(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    xs, selector = values
    xs = a.query.stored(xs)
    branches = [terms_of(branch, xs, a) for branch in operation.branches]
    index, _ = a.query.argmax(selector)
    numbers = operation.branch_of_column.tolist()
    if len(branches) == 1:
        return branches[0]
    branch = a.query.named(_chosen(index, [Term(str(each)) for each in numbers]))
    return [_chosen(branch, columns) for columns in zip(*branches, strict=True)]


@_emits("tree-means")
def _tree_means(operation: Any, a: Arithmetic, *values: Terms) -> Terms:
    xs = a.query.stored(values[0])
    # Compared as float64, whatever the float type of the value.
    thresholds = operation.thresholds.tolist()
    columns, children = operation.columns.tolist(), operation.children.tolist()

    def walked(place: int, first_split: int, leaves: list[float]) -> Term:
        if place < 0:
            return number(leaves[~place])
        split = first_split + place
        condition = text_of("{} < {}", xs[columns[split]], number(thresholds[split]))
        left, right = (walked(child, first_split, leaves) for child in children[split])
        return when(condition, left, right)

    means = []
    for leaves in operation.values.T.tolist():
        trees, first_split = [], 0
        for tree, n_splits in enumerate(operation.n_splits.tolist()):
            own = leaves[first_split + tree : first_split + tree + n_splits + 1]
            trees.append(a.query.named(walked(0 if n_splits else -1, first_split, own)))
            first_split += n_splits
        means.append(a.divide(summed(trees), number(len(trees))))
    return means


@_emits("columns")
def _columns(operation: Any, _: Arithmetic, *values: Terms) -> Terms:
    return [values[0][column] for column in operation.columns.tolist()]


@_emits("constant")
def _constant(operation: Any, a: Arithmetic, *_: Terms) -> Terms:
    return [a.number(each) for each in operation.numbers]


@_emits("join")
def _join(operation: Any, _: Arithmetic, *values: Terms) -> Terms:
    return [[term for value in values for term in value][column] for column in operation.columns.tolist()]


@_emits("widen")
def _widen(_: Any, __: Arithmetic, *values: Terms) -> Terms:
    return values[0]
