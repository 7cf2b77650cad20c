"""Parity: the difference between an exported file and the fitted calibrator on test rows."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.arrays import FloatArray, Vector
from calibrant.calibrator import Calibrator
from calibrant.errors import ExportError, FileFormatError, MissingExtraError
from calibrant.export.backend import Backend, backend_for
from calibrant.graph import MapGraph, of_one_column, one_column
from calibrant.graph.curves import Piecewise, Ramps
from calibrant.graph.operation import Operation
from calibrant.graph.switch import Switch
from calibrant.graph.trees import TreeMeans
from calibrant.numerics.simplex import softmax
from calibrant.persistence.schema import quoted
from calibrant.persistence.validation import probe_inputs
from calibrant.space import Space

__all__ = ["Parity", "compared", "measured", "parity_rows", "rounding_errors", "verify"]

TOLERANCES = {"float32": 1e-6, "float64": 1e-12}
"""Tolerances on probabilities."""

ROUNDING = 4.0
"""Tolerance as a multiple of the rounding error of a row, for steep maps and huge weights."""


@dataclass(frozen=True)
class Parity:
    """Difference between an exported file and the calibrator on test rows.

    The rows depend on the graph only: the probe rows of files, zeros, ties, saturated and random scores, and rows in every
    segment of curves and trees. The tolerance of a row is 1e-12 in float64 and 1e-6 in float32, or four times the rounding
    error of the row if that is larger.

    Attributes
    ----------
    backend : str
        Export format.
    dtype : str
        Float type of the file.
    n_rows : int
        Number of rows compared.
    largest_difference : float
        Largest absolute difference of two probabilities, in the row in which it is largest relative to the tolerance.
    tolerance : float
        Tolerance of that row.
    same_argmax : bool
        Whether the predicted classes are equal, except for ties up to rounding.
    """

    backend: str
    dtype: str
    n_rows: int
    largest_difference: float
    tolerance: float
    same_argmax: bool

    @property
    def holds(self) -> bool:
        """Whether all differences are within their tolerances."""
        return self.same_argmax and self.largest_difference <= self.tolerance

    def __str__(self) -> str:
        classes = "same predicted classes" if self.same_argmax else "different predicted classes"
        return (
            f"largest difference {self.largest_difference:.2g} (tolerance {self.tolerance:.2g}) on "
            f"{self.n_rows} test rows in {self.dtype}, {classes}"
        )


def verify(path: str | os.PathLike[str], calibrator: Calibrator) -> Parity:
    """Compare an exported file with the fitted calibrator, on test rows.

    Parameters
    ----------
    path : path-like
        The exported file.
    calibrator : Calibrator
        Fitted, or loaded.

    Returns
    -------
    Parity
        Largest difference, and the tolerance.

    Raises
    ------
    ExportError
        If the two differ.
    FileFormatError
        If the file is damaged, or is not an export.
    MissingExtraError
        If the runtime of the format is not installed.
    """
    path = Path(os.fsdecode(path))
    backend = backend_for(path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise FileFormatError(f"{path} is not a regular file; give the file that was exported.")
    graph = None
    if backend.metadata is not None:
        try:
            told = backend.metadata(path)
        except (MissingExtraError, FileFormatError):
            raise
        except Exception as error:
            raise _unusable(path, backend, error) from error
        known = [str(label) for label in calibrator.classes_.tolist()]
        if list(told["classes"]) != known:
            raise ExportError(
                f"{path} is for the classes {quoted(list(told['classes']))}, but the calibrator is for "
                f"{quoted(known)}; compare it with the calibrator that it was exported from."
            )
        graph = calibrator.graph(str(told["space"]))
        if told.get("n_columns") == 1 and len(known) == 2:
            graph = of_one_column(graph)
    parity = measured(path, backend, calibrator.graph() if graph is None else graph)
    if not parity.holds:
        raise ExportError(
            f"{path} differs from the calibrator: {parity}; export the calibrator again, or compare the file with the "
            "calibrator that it was exported from."
        )
    return parity


def measured(path: Path, backend: Backend, graph: MapGraph) -> Parity:
    """Return the difference between a file and a graph on test rows."""
    if backend.run is None:
        raise ExportError(f"calibrant cannot run {backend.name} files; apply {path.name} in its own system.")
    rows = parity_rows(graph)
    try:
        found = np.asarray(backend.run(path, rows))
    except (MissingExtraError, FileFormatError):
        raise
    except Exception as error:
        raise _unusable(path, backend, error) from error
    if found.shape != (len(rows), graph.n_outputs) or found.dtype.name not in TOLERANCES:
        raise FileFormatError(
            f"{path} returns {found.dtype} of shape {found.shape} for scores of shape {rows.shape}, which are no probabilities; "
            "export the calibrator again."
        )
    return compared(backend.name, graph, rows.astype(found.dtype), found)


def compared(name: str, graph: MapGraph, rows: NDArray[Any], found: NDArray[np.floating]) -> Parity:
    """Return the difference between the results of a file for some rows and those of a graph."""
    expected = graph(rows)
    with np.errstate(invalid="ignore"):
        differences = np.abs(found.astype(np.float64) - expected).max(axis=1)
    differences = np.where(np.isnan(differences), np.inf, differences)
    rounding = ROUNDING * rounding_errors(graph, rows, expected)
    allowed = np.maximum(TOLERANCES[rows.dtype.name], rounding)
    worst = int(np.argmax(differences / allowed))
    # The first of equal probabilities, as rounding leaves them.
    chosen = np.take_along_axis(expected, found.argmax(axis=1)[:, np.newaxis], axis=1)[:, 0]
    behind = expected.max(axis=1).astype(np.float64) - chosen
    return Parity(
        name,
        found.dtype.name,
        len(rows),
        float(differences[worst]),
        float(allowed[worst]),
        bool((behind <= np.maximum(8 * np.finfo(rows.dtype).eps, rounding)).all()),
    )


def _unusable(path: Path, backend: Backend, error: Exception) -> FileFormatError:
    return FileFormatError(
        f"{path} is no valid {backend.name} export ({type(error).__name__}: {quoted(str(error))}); "
        "export the calibrator again."
    )


MOST_ROWS = 1500
MOST_ENTRIES = 60_000
"""Maximum number of rows between knots, and of their entries."""

MOST_IN_TREES = 200
"""Maximum number of rows between thresholds of trees, of which there are thousands."""

RANDOM_ROWS = 300
SCALES = (0.3, 1.0, 3.0, 8.0)

GRID = np.linspace(-60.0, 40.0, 201)
"""Log-odds of one class, the grid that brackets the places between two knots."""

MOST_GRID = 3_000_000
"""Maximum number of entries of all rows of such searches."""

GENERAL = 3
"""Classes whose log-odds are searched for the knots of all columns; those of other classes for their own column."""

HALVINGS = 24

NEAR = 0.02
"""Distance of rows from a knot, as a fraction of the segment."""

DRAWS = 6

GOLDEN = (1 + np.sqrt(5)) / 2

WIDE = np.dtype(np.float64)


def parity_rows(graph: MapGraph) -> FloatArray:
    """Return the test rows of a graph, in float64; deterministic.

    They are the probe rows of files, zeros, ties and saturated scores, random rows, and rows in every segment of the
    piecewise functions and trees of the graph: in the middle, and near both ends.

    >>> from calibrant import IsotonicCalibration
    >>> fitted = IsotonicCalibration().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
    >>> parity_rows(fitted.graph()).shape[1]
    2
    """
    n_columns, space = max(graph.n_columns, 2), graph.space
    rows = np.vstack([make(n_columns, space) for make in (probe_inputs, _hard_rows, _random_rows)])
    if graph.n_columns == 1:
        rows = one_column(rows, space)
    return np.vstack([rows, _rows_between_knots(graph)]).astype(np.float64)


def _hard_rows(n_columns: int, space: Space) -> FloatArray:
    if space is Space.LOGITS:
        rows = np.zeros((8, n_columns))
        rows[0, 0], rows[1, -1], rows[2, 0], rows[3, -1] = 800.0, -1e5, 1e9, -740.0
        rows[4, :2], rows[5, :2], rows[6, -1] = 30.0, 0.7, 1e-7
        return rows
    even = np.full(n_columns, 1 / n_columns)
    close = even.copy()
    close[-1] = np.nextafter(close[-1], 1)
    tiny = np.full(n_columns, 1e-30)
    tiny[-1] = 1.0
    tied = np.zeros(n_columns)
    tied[:2] = 1 / min(n_columns, 2)
    return np.vstack([np.eye(n_columns)[[0, -1]], even, close, tiny, tied])


def _random_rows(n_columns: int, space: Space) -> FloatArray:
    n_rows = int(np.clip(MOST_ENTRIES // n_columns, 20, RANDOM_ROWS))
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(n_rows, n_columns)) * np.resize(SCALES, n_rows)[:, np.newaxis]
    return logits if space is Space.LOGITS else softmax(logits)


# Between knots


@dataclass(frozen=True, eq=False)
class _Targets:
    """Places between two knots: the operation, the column of its value (-1 for any), and the wanted number."""

    site: NDArray[np.intp]
    column: NDArray[np.intp]
    wanted: Vector


@dataclass(frozen=True, eq=False)
class _Brackets:
    """Brackets of targets: two log-odds of one class with values on both sides of the wanted number."""

    target: NDArray[np.intp]
    column: NDArray[np.intp]
    first_class: NDArray[np.intp]
    pattern: NDArray[np.intp]
    low: Vector
    high: Vector
    is_below: NDArray[np.bool_]


def _rows_between_knots(graph: MapGraph) -> FloatArray:
    """Return rows whose values lie between two knots, found by bisection of the log-odds of one class."""
    targets = _targets(graph)
    brackets = _bracketed(graph, targets)
    if len(brackets.target) == 0:
        return np.empty((0, graph.n_columns))
    sites, wanted = targets.site[brackets.target], targets.wanted[brackets.target]
    low, high = brackets.low, brackets.high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        seen: list[FloatArray] = []
        _run(graph, _on_line(middle, brackets.first_class, brackets.pattern, graph), WIDE, seen=seen)
        value = np.empty(len(sites))
        for site in np.unique(sites).tolist():
            own = sites == site
            value[own] = seen[site][own, brackets.column[own]]
        is_low = (value < wanted) == brackets.is_below
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return _on_line((low + high) / 2, brackets.first_class, brackets.pattern, graph)


def _targets(graph: MapGraph) -> _Targets:
    """Return the middles of all segments, then places near the knots; a subset if there are too many."""
    found: list[tuple[list[Any], list[Any]]] = []
    for site, operation in enumerate(_with_knots(graph)):
        for column, knots in _knots_of(operation):
            middles, near = _between(knots)
            found.append(
                ([(site, column, each) for each in middles], [(site, column, each) for each in near])
            )
    most = int(np.clip(MOST_ENTRIES // graph.n_columns, 50, MOST_ROWS))
    if any(isinstance(operation, TreeMeans) for operation in _with_knots(graph)):
        most = min(most, MOST_IN_TREES)
    middles = _some([each for own, _ in found for each in own], most)
    near = _some([each for _, own in found for each in own], most - len(middles))
    table = np.array([*middles, *near], dtype=np.float64).reshape(-1, 3)
    return _Targets(table[:, 0].astype(np.intp), table[:, 1].astype(np.intp), table[:, 2])


def _some(places: list[Any], most: int) -> list[Any]:
    if len(places) <= most:
        return places
    return [places[place] for place in np.linspace(0, len(places) - 1, most).astype(int).tolist()]


def _between(knots: Vector) -> tuple[list[float], list[float]]:
    """Return the middles of all segments, and places near all knots on both sides.

    >>> _between(np.array([0.0, 1.0, 3.0]))[0]
    [-0.3, 0.5, 2.0, 3.9]
    """
    if len(knots) == 0:
        return [], []
    widths = np.diff(knots)
    outside = [max(0.3 * abs(float(knot)), 0.3 * float(widths.min(initial=1.0))) for knot in knots[[0, -1]]]
    middles = [knots[0] - outside[0], *(knots[:-1] + widths / 2), knots[-1] + outside[1]]
    below = knots - NEAR * np.append(outside[0], widths)
    above = knots + NEAR * np.append(widths, outside[1])
    return [float(each) for each in middles], np.column_stack([below, above]).ravel().tolist()


def _with_knots(graph: MapGraph) -> Iterator[Operation]:
    """Return the operations with knots, those of branches too, in the order in which :func:`_run` sees them."""
    for operation, _ in graph.nodes:
        if isinstance(operation, Switch):
            for branch in operation.branches:
                yield from _with_knots(branch)
        elif isinstance(operation, Piecewise | Ramps | TreeMeans):
            yield operation


def _knots_of(operation: Operation) -> Iterator[tuple[int, Vector]]:
    """Return columns, -1 for any, with their knots in increasing order."""
    if isinstance(operation, Piecewise):
        parts = np.split(operation.knots, np.cumsum(operation.n_knots)[:-1])
        yield from enumerate(parts) if len(parts) > 1 else [(-1, parts[0])]
    elif isinstance(operation, Ramps):
        yield -1, operation.knots
    elif isinstance(operation, TreeMeans):
        for column in np.unique(operation.columns).tolist():
            yield column, np.unique(operation.thresholds[operation.columns == column])


def _bracketed(graph: MapGraph, targets: _Targets) -> _Brackets:
    """Bracket targets between neighbouring log-odds of one class, for one class after the other."""
    n_columns = graph.n_columns
    is_open = np.ones(len(targets.site), dtype=bool)
    found: list[tuple[Any, ...]] = []
    patterns = (0,) if n_columns <= 2 else (0, 1)
    lines = [(line, pattern) for line in range(n_columns) for pattern in patterns]
    for line, pattern in lines[: max(2, MOST_GRID // (len(GRID) * n_columns))]:
        seen: list[FloatArray] = []
        where = np.full(len(GRID), line), np.full(len(GRID), pattern)
        if not is_open.any():
            break
        _run(graph, _on_line(GRID, *where, graph), WIDE, seen=seen)
        for site, value in enumerate(seen):
            for column in np.unique(targets.column[is_open & (targets.site == site)]).tolist():
                own_column = min(line, value.shape[1] - 1) if column < 0 else column
                if own_column != line and line >= GENERAL:
                    continue
                chosen = np.flatnonzero(is_open & (targets.site == site) & (targets.column == column))
                below = value[:, [own_column]] < targets.wanted[chosen]
                crossed = (below[1:] != below[:-1]) & np.isfinite(value[1:] + value[:-1])[:, [own_column]]
                hit, first = crossed.any(axis=0), crossed.argmax(axis=0)
                is_open[chosen[hit]] = False
                found.extend(
                    (target, own_column, line, pattern, GRID[place], GRID[place + 1], below[place, number])
                    for target, place, number in zip(
                        chosen[hit], first[hit], np.flatnonzero(hit), strict=True
                    )
                )
    table = np.array(found, dtype=np.float64).reshape(-1, 7).T
    integers = table[:4].astype(np.intp)
    return _Brackets(integers[0], integers[1], integers[2], integers[3], table[4], table[5], table[6] > 0)


def _on_line(
    log_odds: Vector, first_class: NDArray[np.intp], pattern: NDArray[np.intp], graph: MapGraph
) -> FloatArray:
    """Return rows with given log-odds of one class; the others share the rest in one of two patterns."""
    n_columns = graph.n_columns
    if n_columns == 1:
        single = log_odds if graph.space is Space.LOGITS else expit(log_odds)
        return single[:, np.newaxis]
    places = (np.arange(n_columns) - first_class[:, np.newaxis]) % n_columns  # 0 for the class itself
    uneven = softmax(2.0 * np.modf(np.arange(1, n_columns) * GOLDEN)[0][np.newaxis])[0]
    shares = np.stack([uneven, 0.1 * uneven + 0.9 * (np.arange(1, n_columns) == 1)])
    rest = np.concatenate([np.ones((2, 1)), shares / shares.sum(axis=1, keepdims=True)], axis=1)
    weights = rest[pattern[:, np.newaxis], places]
    is_first = places == 0
    if graph.space is Space.LOGITS:
        return np.where(is_first, log_odds[:, np.newaxis], np.log(weights)) + 0.3
    up, down = (expit(sign * log_odds)[:, np.newaxis] for sign in (1, -1))
    rows: FloatArray = np.where(is_first, up, down * weights)
    return rows


# Rounding


def rounding_errors(graph: MapGraph, rows: FloatArray, expected: FloatArray) -> Vector:
    """Estimate the rounding error of each row, (n,), by Monte Carlo arithmetic.

    Inputs and results of operations are perturbed by a few units in the last place, in random directions. Equal numbers are
    perturbed equally, because programs for the same formulas preserve ties. In float32, the distance to float64 counts too.
    """
    kind = rows.dtype
    errors = np.zeros(len(rows))
    with np.errstate(all="ignore"):
        if kind != WIDE:
            errors = np.abs(graph(rows.astype(WIDE)) - expected).max(axis=1)
        for draw in range(DRAWS):
            moved = _moved(rows, draw, 4) if draw % 2 else rows
            if draw % 2 and graph.space is Space.LOGITS:
                moved = moved + rows.dtype.type(4 * np.finfo(kind).eps) * _directions(rows, draw)
            result = _run(graph, moved.astype(kind), kind, draw=draw)
            errors = np.fmax(errors, np.abs(result.astype(WIDE) - expected).max(axis=1))
    return errors


def _directions(x: FloatArray, draw: int) -> FloatArray:
    """Return -1, 0 or 1 for every number, the same for equal numbers."""
    bits = np.ascontiguousarray(x, dtype=WIDE).view(np.uint64)
    factor = np.uint64((0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1A * draw) % 2**64)  # odd
    mixed = (bits ^ (bits >> np.uint64(29))) * factor
    signs: FloatArray = ((mixed >> np.uint64(40)) % np.uint64(3)).astype(x.dtype) - x.dtype.type(1)
    return signs


def _moved(x: FloatArray, draw: int, units: int) -> FloatArray:
    if x.dtype.kind != "f":
        return x
    step = x.dtype.type(units * np.finfo(x.dtype).eps)
    return x + x * step * _directions(x, draw)


def _run(
    graph: MapGraph,
    rows: FloatArray,
    kind: np.dtype[Any],
    *,
    draw: int | None = None,
    seen: list[FloatArray] | None = None,
) -> FloatArray:
    """Apply a graph operation by operation, with results perturbed by the random draw of a given number.

    Arguments of operations with knots are appended to ``seen``, with NaN in rows that a branch does not receive.
    """
    values = [rows]
    with np.errstate(all="ignore"):
        for number, (operation, sources) in enumerate(graph.nodes, start=1):
            given = [values[source] for source in sources]
            if isinstance(operation, Switch):
                result = _run_switch(operation, given[0], given[1], draw, seen)
            else:
                if seen is not None and isinstance(operation, Piecewise | Ramps | TreeMeans):
                    seen.append(given[0])
                result = operation.kernel(WIDE if graph.is_wide[number] else kind)(None, *given)
            if draw is not None and operation.rounds:
                result = _moved(result, draw + number, 2)
            values.append(result)
    return values[-1]


def _run_switch(
    operation: Switch, x: FloatArray, selector: FloatArray, draw: int | None, seen: list[FloatArray] | None
) -> FloatArray:
    numbers = operation.branch_of_column[selector.argmax(axis=1)]
    result = np.empty((len(x), operation.branches[0].n_outputs))
    for number, branch in enumerate(operation.branches):
        chosen = np.flatnonzero(numbers == number)
        inside: list[FloatArray] | None = None if seen is None else []
        if len(chosen):
            result[chosen] = _run(branch, x[chosen].astype(WIDE), WIDE, draw=draw, seen=inside)
        if seen is None:
            continue
        for place, width in enumerate(_widths(branch)):
            value = np.full((len(x), width), np.nan)
            if inside:
                value[chosen] = inside[place]
            seen.append(value)
    return result


def _widths(graph: MapGraph) -> Iterator[int]:
    """Return the widths of the values that operations with knots compare."""
    for operation, sources in graph.nodes:
        if isinstance(operation, Switch):
            for branch in operation.branches:
                yield from _widths(branch)
        elif isinstance(operation, Piecewise | Ramps | TreeMeans):
            yield graph.widths[sources[0]]
