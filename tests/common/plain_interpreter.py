"""A second interpreter of graphs: plain Python, one row at a time, from the JSON that files hold."""

import math
from bisect import bisect_left, bisect_right
from itertools import pairwise

TINY = 2.0**-1022


def run(graph, row):
    """Return the output for one row, with the arrays of the graph as lists."""
    values = [list(row)]
    for node in graph["operations"]:
        taken = [values[source] for source in node["of"]]
        values.append(OPERATIONS[node["operation"]](node, *taken))
    return values[-1]


def broadcast(numbers, width):
    if not isinstance(numbers, list):
        return [numbers] * width
    return numbers * width if len(numbers) == 1 else numbers


def affine(node, x):
    scale, shift = broadcast(node["scale"], len(x)), broadcast(node["shift"], len(x))
    return [a * each + b for a, each, b in zip(scale, x, shift, strict=True)]


def clip(node, x):
    low, high = broadcast(node["low"], len(x)), broadcast(node["high"], len(x))
    return [min(max(each, a), b) for each, a, b in zip(x, low, high, strict=True)]


def log(node, x):
    least = math.log(node["floor"])
    return [max(math.log(each), least) if each > 0 else least for each in x]


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else math.exp(x)


FUNCTIONS = {
    "exp": math.exp,
    "sigmoid": sigmoid,
    "log-sigmoid": lambda x: -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x)),
    "softplus": lambda x: x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x)),
    "absolute": abs,
    "square": lambda x: x * x,
    "square-root": math.sqrt,
    "relu": lambda x: max(x, 0.0),
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "tanh": math.tanh,
    "reciprocal": lambda x: 1 / x,
}

ARITHMETIC = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "minimum": min,
    "maximum": max,
}


def arithmetic(node, x, y):
    width = max(len(x), len(y))
    pairs = zip(broadcast(x, width), broadcast(y, width), strict=True)
    return [ARITHMETIC[node["function"]](a, b) for a, b in pairs]


def softmax(node, x):
    powers = [math.exp(each - max(x)) for each in x]
    return [power / sum(powers) for power in powers]


def log_softmax(node, x):
    total = max(x) + math.log(sum(math.exp(each - max(x)) for each in x))
    return [each - total for each in x]


def row_reduce(node, x):
    return [{"sum": sum(x), "mean": sum(x) / len(x), "max": max(x)}[node["function"]]]


def dense(node, x):
    columns = zip(*node["weights"], strict=True)
    return [
        sum(a * w for a, w in zip(x, column, strict=True)) + b
        for column, b in zip(columns, node["intercept"], strict=True)
    ]


def mixture(node, *values):
    return [
        sum(w * each for w, each in zip(node["weights"], entries, strict=True))
        for entries in zip(*values, strict=True)
    ]


def normalise(node, separate, fallback):
    row = separate if max(separate) > 0 else fallback
    if node["how"] == "divide":
        return [each / sum(row) for each in row]
    if node["how"] == "project":
        return by_bisection(row, lambda each, shift: max(each - shift, 0.0), max(row) - 1, max(row))
    # Log-odds of a one are 40, and none lies more than 80 below the largest.
    odds = [40.0 if p >= 1 else -math.inf if p <= 0 else min(math.log(p) - math.log1p(-p), 40.0) for p in row]
    odds = [max(each, max(odds) - 80.0) for each in odds]
    return by_bisection(odds, lambda each, shift: sigmoid(each - shift), min(odds) - 50, max(odds) + 50)


def by_bisection(row, shifted, low, high):
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(shifted(each, middle) for each in row) > 1 else (low, middle)
    result = [shifted(each, low) for each in row]
    return [each / sum(result) for each in result]


def piecewise(node, x):
    counts = broadcast(node["n_knots"], len(x))
    shared = len(node["n_knots"]) == 1
    result, first_knot, first_segment = [], 0, 0
    search = bisect_right if node["closed"] == "left" else bisect_left
    for each, count in zip(x, counts, strict=True):
        knots = node["knots"][first_knot : first_knot + count]
        segment = first_segment + search(knots, each)
        offset = each - node["origins"][segment]
        y = sum(
            row[segment] * offset**degree for degree, row in enumerate(node["coefficients"]) if row[segment]
        )
        y = y if node["lower"] is None else max(y, node["lower"][segment])
        result.append(y if node["upper"] is None else min(y, node["upper"][segment]))
        if not shared:
            first_knot, first_segment = first_knot + count, first_segment + count + 1
    return result


def ramps(node, x):
    knots, slopes = node["knots"], node["slopes"]
    if not knots:
        return [slopes[0] * each for each in x]
    ends = [*knots[1:], math.inf]
    return [
        slopes[0] * min(each - knots[0], 0.0)
        + sum(s * (min(max(each, a), b) - a) for s, a, b in zip(slopes[1:], knots, ends, strict=True))
        for each in x
    ]


def rest_of_classes(node, x):
    result = []
    for column in range(len(x)):
        others = x[:column] + x[column + 1 :]
        result.append(log_sum_exp(others) if node["logits"] else sum(others))
    return result


def log_sum_exp(x):
    return max(x) + math.log(sum(math.exp(each - max(x)) for each in x))


def rest_of_largest(node, x):
    place = x.index(max(x))
    return [rest_of_classes(node, x)[place], x[place]]


def floor(node, x):
    least = max(node["floor"], TINY)
    if (0.0 not in x) if node["only_zeros"] else min(x) >= least:
        return x
    raised = [max(each, least) for each in x]
    return restore({"kept": "argmax"}, [each / sum(raised) for each in raised], x)


def bound_gaps(node, x):
    least = math.log(TINY)
    if min(x) - max(x) >= least:
        return x
    if abs(max(x)) * 2.0**-52 > 0.01:
        return [max(each - max(x), least) for each in x]
    return [max(each, max(x) + least) for each in x]


def restrict(node, x):
    chosen = [x[column] for column in node["columns"]]
    return [each / sum(chosen) if sum(chosen) > 0 else 1 / len(chosen) for each in chosen]


def set_largest(node, both, scores):
    place = scores.index(max(scores))
    others = [None if column == place else each for column, each in enumerate(scores)]
    if node["logits"]:
        top = max(each for each in others if each is not None)
        powers = [0.0 if each is None else math.exp(each - top) for each in others]
    else:
        powers = [0.0 if each is None else max(each, node["floor"]) for each in others]
    rest, confidence = both
    shared = [max(rest * each / sum(powers), TINY) if rest > 0 else 0.0 for each in powers]
    shared[place] = confidence
    return shared


def switch(node, x, selector):
    return run(node["branches"][node["branch_of_column"][selector.index(max(selector))]], x)


def restore(node, values, reference):
    result = list(values)
    if node["kept"] == "argmax":
        wanted, first = reference.index(max(reference)), values.index(max(values))
        if wanted != first:
            result[wanted] = math.nextafter(values[first], math.inf) if first < wanted else values[first]
        return result
    order = sorted(range(len(values)), key=reference.__getitem__)
    for below, above in pairwise(order):
        if reference[above] == reference[below]:
            result[above] = result[below]
        elif result[above] <= result[below]:
            result[above] = math.nextafter(result[below], math.inf)
    return result


def unsort(node, values, reference):
    result = [0.0] * len(values)
    order = sorted(range(len(reference)), key=lambda column: (-reference[column], column))
    for place, column in enumerate(order):
        result[column] = values[place]
    return result


def cumulative_sum(node, x):
    return [sum(x[: place + 1]) for place in range(len(x))]


def argmin_within_rounding(node, x):
    chosen = next(place for place, each in enumerate(x) if each <= min(x) + node["tolerance"])
    return [float(place == chosen) for place in range(len(x))]


def tree_means(node, x):
    total, first_split, first_leaf = None, 0, 0
    for count in node["n_splits"]:
        at = 0 if count else -1
        while at >= 0:
            split = first_split + at
            goes_right = x[node["columns"][split]] >= node["thresholds"][split]
            at = node["children"][split][goes_right]
        leaf = node["values"][first_leaf - 1 - at]
        total = leaf if total is None else [a + b for a, b in zip(total, leaf, strict=True)]
        first_split, first_leaf = first_split + count, first_leaf + count + 1
    return [each / len(node["n_splits"]) for each in total]


def join(node, *values):
    together = [each for value in values for each in value]
    return [together[column] for column in node["columns"]]


OPERATIONS = {
    "affine": affine,
    "arithmetic": arithmetic,
    "bound-gaps": bound_gaps,
    "clip": clip,
    "columns": lambda node, x: [x[column] for column in node["columns"]],
    "constant": lambda node, x: list(node["numbers"]),  # noqa: ARG005
    "cumulative-sum": cumulative_sum,
    "dense": dense,
    "first-of-least": argmin_within_rounding,
    "floor": floor,
    "function": lambda node, x: [FUNCTIONS[node["function"]](each) for each in x],
    "join": join,
    "log": log,
    "log-softmax": log_softmax,
    "mixture": mixture,
    "narrow": lambda node, x: [max(each, TINY) if node["keep_positive"] and each > 0 else each for each in x],
    "normalise": normalise,
    "piecewise": piecewise,
    "ramps": ramps,
    "rest-of-classes": rest_of_classes,
    "rest-of-largest": rest_of_largest,
    "restore": restore,
    "restrict": restrict,
    "row-reduce": row_reduce,
    "set-largest": set_largest,
    "softmax": softmax,
    "sort-descending": lambda node, x: sorted(x, reverse=True)[: node["n_largest"]],
    "switch": switch,
    "tree-means": tree_means,
    "unsort": unsort,
    "widen": lambda node, x: x,  # noqa: ARG005
}
