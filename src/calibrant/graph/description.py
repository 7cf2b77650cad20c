"""Descriptions: the fitted parameters of a map graph in words."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant.graph.columns import BoundGaps, Columns, Floor, Join, Restrict
from calibrant.graph.curves import Piecewise, Ramps
from calibrant.graph.elementwise import Affine, Arithmetic, Clip, Log, Narrow, Widen
from calibrant.graph.map_graph import MapGraph
from calibrant.graph.operation import Operation
from calibrant.graph.order import Restore
from calibrant.graph.rows import Dense, LogSoftmax, Mixture, Softmax
from calibrant.graph.switch import Switch
from calibrant.graph.trees import TreeMeans
from calibrant.presentation.sentences import counted
from calibrant.space import Space

__all__ = ["described"]

MOST_NAMED = 6  # classes that are listed one by one

LOGARITHMS = (Log, LogSoftmax)
LOGARITHMIC = (Affine, BoundGaps, Clip, Columns, Dense, Join, Narrow, Ramps, Restore, Widen)
UNFITTED = (BoundGaps, Clip, Floor, Narrow, Restore, Softmax, Widen)
ONE_COLUMN_EACH = (
    Affine,
    Arithmetic,
    BoundGaps,
    Clip,
    Floor,
    Log,
    LogSoftmax,
    Narrow,
    Piecewise,
    Ramps,
    Restore,
    Softmax,
    Widen,
)

Names = tuple[str, ...] | None

# Kind of a value: log-odds of events, one logit per class, or neither.
OTHER, LOG_ODDS, SCORES = range(3)


def described(graph: MapGraph, classes: Sequence[str]) -> list[str]:
    """Return one sentence per operation with fitted parameters, in the order of application.

    Parameters
    ----------
    graph : MapGraph
        A fitted map.
    classes : sequence of str
        Names of the columns of its input.

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> fitted = TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    >>> described(fitted.graph(), ["no", "yes"])
    ['Temperature 2: the classifier was over-confident.']
    """
    if all(isinstance(node.operation, UNFITTED) for node in graph.nodes):
        return ["The uncalibrated predictions are kept."]
    kinds = [SCORES if graph.space is Space.LOGITS else OTHER]
    known: list[Names] = [tuple(classes)]
    sentences = []
    for number, (operation, sources) in enumerate(graph.nodes, start=1):
        taken = [known[source] for source in sources]
        shown, partners = operation, _partners(graph, number)
        if isinstance(operation, Affine) and sources[0] in partners:  # x + f(x)
            shown, partners = Affine(operation.scale + 1, operation.shift), set()
        sentence = _sentence(shown, taken[0], kinds[sources[0]], graph.n_columns)
        is_term = partners and sentence is not None and isinstance(operation, Affine | Dense)
        sentences.append(
            f"Added to that: {sentence[0].lower()}{sentence[1:]}" if is_term and sentence else sentence
        )
        # A single column that is broadcast, such as the largest score, does not change the kind.
        widest = max(graph.widths[source] for source in sources)
        kinds.append(
            _kind(operation, [kinds[source] for source in sources if graph.widths[source] == widest])
        )
        known.append(_names(operation, taken))
    return [sentence for sentence in sentences if sentence is not None]


def _partners(graph: MapGraph, number: int) -> set[int]:
    """Return the values of the same width that a result is added to."""
    return {
        source
        for operation, sources in graph.nodes
        if isinstance(operation, Arithmetic) and operation.function == "add" and sources[-1] == number
        for source in sources[:-1]
        if graph.widths[source] == graph.widths[number]
    }


def _kind(operation: Operation, kinds: list[int]) -> int:
    """Return the kind of the result of an operation."""
    if isinstance(operation, LOGARITHMS):
        return SCORES
    if isinstance(operation, Arithmetic):
        if operation.function not in ("add", "subtract"):
            return OTHER
        # For example log-odds, the difference of two logarithms.
        return kinds[0] if len(kinds) == 1 else min(LOG_ODDS, *kinds)
    return kinds[0] if isinstance(operation, LOGARITHMIC) else OTHER


def _names(operation: Operation, taken: list[Names]) -> Names:
    """Return the class of every column of a result, or None if columns are not classes."""
    first = taken[0]
    if isinstance(operation, Columns | Restrict) and first is not None:
        return tuple(first[column] for column in operation.columns.tolist())
    if isinstance(operation, Join) and all(names is not None for names in taken):
        together = [name for names in taken if names is not None for name in names]
        return tuple(together[column] for column in operation.columns.tolist())
    if isinstance(operation, Dense) and first is not None and operation.weights.shape[1] == len(first):
        return first
    return first if isinstance(operation, ONE_COLUMN_EACH) else None


def _sentence(operation: Operation, names: Names, kind: int, n_columns: int) -> str | None:
    if isinstance(operation, Affine):
        return _affine(operation, names, kind, n_columns) if kind != OTHER and names is not None else None
    if isinstance(operation, Dense):
        return _matrix(operation, names) if kind != OTHER else _layer(operation)
    if isinstance(operation, Ramps):
        return _slopes(operation.slopes, len(operation.knots))
    if isinstance(operation, Piecewise):
        return _curves(operation)
    if isinstance(operation, Mixture):
        weights = ", ".join(f"{weight:.4g}" for weight in operation.weights.tolist())
        return f"Average of {counted(len(operation.weights), 'map')} with weights {weights}."
    if isinstance(operation, Switch):
        return f"{counted(len(operation.branches), 'map')}, chosen by the predicted class."
    if isinstance(operation, TreeMeans):
        n_leaves = len(operation.values)
        return f"Mean over {counted(len(operation.n_splits), 'tree')} with {n_leaves} bins in all."
    return None


def _affine(operation: Affine, names: tuple[str, ...], kind: int, n_columns: int) -> str | None:
    scale, shift = operation.scale, operation.shift
    if scale.size == 1 and n_columns == 2 and len(names) == 1:
        return f"Log-odds of {names[0]}: slope {scale.item():.4g}, intercept {shift.reshape(-1)[0]:.4g}."
    parts = []
    if scale.size > 1:
        parts.append(_per_class("Weight", scale, names))
    elif kind == SCORES and scale.item() > 0 and scale.item() != 1:
        parts.append(_temperature(1 / scale.item()))
    if shift.size > 1:
        parts.append(_per_class("Intercept", shift, names))
    return " ".join(parts) or None


def _temperature(temperature: float) -> str:
    if abs(temperature - 1) <= 1e-3:
        return f"Temperature {temperature:.4g}: the confidence of the classifier stays as it is."
    direction = "over-confident" if temperature > 1 else "under-confident"
    return f"Temperature {temperature:.4g}: the classifier was {direction}."


def _per_class(what: str, numbers: NDArray[np.float64], names: tuple[str, ...]) -> str:
    if len(names) <= MOST_NAMED:
        pairs = zip(names, numbers.tolist(), strict=True)
        return f"{what} of {', '.join(f'{name} {number:.4g}' for name, number in pairs)}."
    least, largest = int(numbers.argmin()), int(numbers.argmax())
    return f"{what} per class, from {numbers[least]:.4g} ({names[least]}) to {numbers[largest]:.4g} ({names[largest]})."


def _matrix(operation: Dense, names: Names) -> str:
    weights = operation.weights
    if names is None or weights.shape[0] != weights.shape[1]:
        return _layer(operation)
    diagonal, others = np.diag(weights), weights - np.diag(np.diag(weights))
    source, target = np.unravel_index(np.abs(others).argmax(), others.shape)
    sentence = (
        f"Matrix of {len(weights)} x {len(weights)} weights: diagonal from {diagonal.min():.4g} to {diagonal.max():.4g}, "
        f"largest other weight {others[source, target]:.4g} (score of {names[source]} for {names[target]})."
    )
    return (
        f"{sentence} {_per_class('Intercept', operation.intercept, names)}"
        if operation.intercept.any()
        else sentence
    )


def _layer(operation: Dense) -> str:
    return f"Layer of {operation.weights.shape[0]} x {operation.weights.shape[1]} weights."


def _slopes(slopes: NDArray[np.float64], n_knots: int) -> str:
    if n_knots == 0:
        return f"Slope {slopes[0]:.4g} for all classes."
    return (
        f"Piecewise-linear curve shared by all classes: {counted(n_knots, 'knot')}, slopes from {slopes.min():.4g} to "
        f"{slopes.max():.4g}."
    )


def _curves(operation: Piecewise) -> str:
    kind = {1: "step function", 2: "piecewise-linear curve"}.get(len(operation.coefficients), "smooth curve")
    pieces = len(operation.origins)
    if len(operation.n_knots) == 1:
        return f"One {kind} of {counted(pieces, 'piece')}."
    return f"{counted(len(operation.n_knots), kind)}, one for each class against the rest, of {pieces} pieces in all."
