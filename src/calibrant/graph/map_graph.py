"""MapGraph: the fitted map of a calibrator as a list of row operations, and the NumPy program that runs it."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import repeat
from typing import Any, Literal, NamedTuple, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import FloatArray
from calibrant.errors import ParameterError, PredictionError
from calibrant.graph.elementwise import Affine, Clip, Log, Narrow, Widen
from calibrant.graph.operation import GraphError, Kernel, Operation
from calibrant.graph.order import Restore
from calibrant.graph.rows import LogSoftmax, Softmax, softmax_with_argmax
from calibrant.numerics.reductions import NARROW
from calibrant.numerics.row_blocks import BLOCK_BYTES, BlockSums
from calibrant.space import Space

__all__ = ["MapGraph", "Node"]

MOST_NODES = 100_000  # of a graph from a file
MOST_COLUMNS = 10_000_000  # of all its values together


class Node(NamedTuple):
    """An operation and the numbers of its arguments: 0 is the input, i + 1 the result of node i."""

    operation: Operation
    sources: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MapGraph:
    """A map from scores to calibrated scores, row by row: operations in the order in which they are applied.

    A graph is acyclic: an operation takes the input and results of earlier operations. The last result is the output.
    Call the graph on an array of scores to apply it.

    Attributes
    ----------
    n_columns : int
        Number of columns of the input.
    nodes : tuple of Node
        Operations with the numbers of their arguments.
    space : Space
        Whether the input must be probabilities or logits.
    output_space : Space
        Space of the output.

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> graph = TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1]).graph()
    >>> print(graph)
    probabilities, 2 columns
      1  log(floor=1.17549e-38) of the input
      2  affine(scale=0.5, shift=0) of 1
      3  softmax() of 2
      4  restore(kept='argmax') of 3, the input
    probabilities, 2 columns
    >>> graph(np.array([[0.9, 0.1]]))
    array([[0.75, 0.25]])
    """

    n_columns: int
    nodes: tuple[Node, ...]
    space: Space = Space.PROBABILITIES
    output_space: Space = Space.PROBABILITIES

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Widths of all values, the input first; raises :class:`GraphError` if operations do not fit."""
        widths = [self.n_columns]
        for node in self.nodes:
            widths.append(node.operation.width([widths[source] for source in node.sources]))
        return tuple(widths)

    @cached_property
    def is_wide(self) -> tuple[bool, ...]:
        """Whether each value is float64 regardless of the float type of the input."""
        wide = [False]
        for node in self.nodes:
            wide.append(node.operation.is_wide([wide[source] for source in node.sources]))
        return tuple(wide)

    @property
    def n_outputs(self) -> int:
        """Number of columns of the output."""
        return self.widths[-1]

    def __call__(self, scores: ArrayLike, out: FloatArray | None = None) -> FloatArray:
        """Apply the map to the rows of a matrix of scores.

        Parameters
        ----------
        scores : array-like of shape (n, n_columns)
            In the space of the graph; values are not checked. float32 and float64 are computed in their own type, float16
            in float32, integers in float64.
        out : ndarray, optional
            Array for the result, of its shape and float type; it must not overlap with ``scores``.
        """
        if not (
            type(scores) is np.ndarray
            and scores.dtype.char in "fd"
            and scores.dtype.isnative
            and scores.ndim == 2
            and scores.shape[1] == self.n_columns
        ):
            scores = _as_scores(scores, self.n_columns)
        return self.program(scores.dtype).run(scores, out)

    def largest(self, scores: FloatArray) -> NDArray[np.intp]:
        """Return the arg-max of the output for every row of parsed scores, (n,), without storing the output."""
        return self.program(scores.dtype).largest(scores)

    def program(self, kind: np.dtype[Any]) -> "Program":
        """Return the NumPy program of the graph for a float type; compiled once."""
        program = self._programs.get(kind.char)
        if program is None:
            with np.errstate(all="ignore"):  # a parameter may be beyond the range of float32
                program = self._programs[kind.char] = Program.of(self, kind)
        return program

    def __getstate__(self) -> dict[str, Any]:
        """Return the graph without compiled programs, whose functions cannot be pickled."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _programs(self) -> dict[str, "Program"]:
        return {}

    def check(self) -> None:
        """Raise :class:`GraphError` unless all operations fit each other and have valid, finite parameters."""
        if not self.n_columns >= 1 or len(self.nodes) > MOST_NODES:
            raise GraphError("a graph needs columns, and no more than 100,000 operations")
        widths = [self.n_columns]
        for number, node in enumerate(self.nodes, start=1):
            try:
                with np.errstate(all="ignore"):
                    widths.append(_checked_width(node.operation, node.sources, widths))
            except GraphError as error:
                raise GraphError(f"operation {number} of the graph: {error}") from None
            except Exception as error:
                raise GraphError(
                    f"operation {number} of the graph: {node.operation.name} has parameters that do not fit each other "
                    f"({type(error).__name__})"
                ) from error
        if sum(widths) > MOST_COLUMNS:
            raise GraphError(f"a graph may have {MOST_COLUMNS} columns in all at the most")

    def __str__(self) -> str:
        def named(source: int) -> str:
            return "the input" if source == 0 else str(source)

        lines = [f"{self.space.value}, {_columns(self.n_columns)}"]
        for number, (operation, sources) in enumerate(self.nodes, start=1):
            lines.append(f"{number:3d}  {operation.described()} of {', '.join(map(named, sources))}")
        lines.append(f"{self.output_space.value}, {_columns(self.n_outputs)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"MapGraph({_columns(self.n_columns)} of {self.space.value}, {len(self.nodes)} operations, "
            f"{self.output_space.value})"
        )


def _as_scores(scores: ArrayLike, n_columns: int) -> FloatArray:
    """Return a matrix of float32 or float64."""
    try:
        matrix = np.asarray(scores)
    except ValueError as error:
        raise PredictionError(
            "scores must form a rectangular table, but rows differ in length; "
            f"pass {_columns(n_columns)} in every row."
        ) from error
    if matrix.dtype.kind not in "fiub":
        raise PredictionError(f"scores must be real numbers, not {matrix.dtype}; convert them first.")
    if matrix.ndim != 2 or matrix.shape[1] != n_columns:
        advice = (
            "pass X[None, :] for a single row" if matrix.shape == (n_columns,) else "pass one row per line"
        )
        raise PredictionError(
            f"scores must be rows of {_columns(n_columns)}, but have shape {matrix.shape}; {advice}."
        )
    single = matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 4
    return matrix.astype(np.float32 if single else np.float64, copy=False)


def _columns(number: int) -> str:
    return "1 column" if number == 1 else f"{number} columns"


def _checked_width(operation: Operation, sources: Sequence[int], widths: Sequence[int]) -> int:
    """Return the width of a result; raises :class:`GraphError` unless parameters and arguments are valid."""
    if operation.n_values is not None and len(sources) != operation.n_values:
        raise GraphError(f"{operation.name} takes {operation.n_values} values, not {len(sources)}")
    if not sources or not all(0 <= source < len(widths) for source in sources):
        raise GraphError(f"{operation.name} takes values that do not exist yet")
    for field in fields(operation):
        parameter = getattr(operation, field.name)
        if isinstance(parameter, np.ndarray):
            axes = operation.axes.get(field.name, (1,))
            if parameter.ndim not in axes:
                raise GraphError(
                    f"{field.name} of {operation.name} must have {' or '.join(map(str, axes))} axes, not {parameter.ndim}"
                )
            if not _is_sound(parameter, field.name):
                raise GraphError(f"{operation.name} has numbers in {field.name} that are not finite")
        if get_origin(field.type) is Literal and parameter not in get_args(field.type):
            raise GraphError(
                f"{field.name} of {operation.name} must be one of {', '.join(get_args(field.type))}, not {parameter!r}"
            )
        if isinstance(parameter, float) and not np.isfinite(parameter):
            raise GraphError(f"{operation.name} has {field.name} = {parameter}")
        for part in parameter if isinstance(parameter, tuple) else ():
            if isinstance(part, MapGraph):
                part.check()
    # Checks may rely on shapes, which the width has validated.
    width = operation.width([widths[source] for source in sources])
    operation.check()
    if width < 1:
        raise GraphError(f"{operation.name} has a result without columns")
    return width


def _is_sound(parameter: NDArray[Any], name: str) -> bool:
    if parameter.dtype.kind not in "fiu":
        return False
    # An infinite bound means no bound.
    unbounded = name in ("low", "high", "lower", "upper")
    return not np.isnan(parameter).any() if unbounded else bool(np.isfinite(parameter).all())


# In smaller blocks, the overhead of matrix products dominates.
PRODUCT_ROWS = 256

# From this number of rows on, narrow blocks are stored column by column.
MANY_ROWS = 32

NOWHERE, OUTPUT = -1, -2

# Of one array that a thread keeps for the intermediate results of later blocks.
MOST_KEPT_BYTES = 2 * BLOCK_BYTES


class Step(NamedTuple):
    """One kernel with its arguments and its target.

    ``target`` is the number of the value whose array is overwritten, :data:`OUTPUT`, or :data:`NOWHERE` for another array.
    """

    kernel: Kernel
    first: int
    others: tuple[int, ...]
    target: int
    result: int


class Place(NamedTuple):
    """Where a result is in the workspace, with its width and float type."""

    number: int
    width: int
    kind: np.dtype[Any]


class _Workspace(threading.local):
    """Arrays of a thread for the intermediate results of one block after another, since fresh memory takes longer to write to."""

    def __init__(self) -> None:
        self.is_taken = False
        self._arrays: list[NDArray[np.float64]] = []

    def array(
        self, place: int, n_rows: int, width: int, kind: np.dtype[Any], *, by_columns: bool
    ) -> FloatArray:
        """Return a matrix that shares memory with all others of this place."""
        size = n_rows * width
        while len(self._arrays) <= place:
            self._arrays.append(np.empty(0))
        if len(self._arrays[place]) < size:
            self._arrays[place] = np.empty(size)
        numbers = self._arrays[place].view(kind)[:size]
        return numbers.reshape(width, n_rows).T if by_columns else numbers.reshape(n_rows, width)


_WORKSPACE = _Workspace()


@dataclass(frozen=True, eq=False)
class Program:
    """Compiled graph for one float type of the input: kernels, with the arrays that they overwrite.

    A result overwrites a value that is not needed any more, if the kernel allows it; the last results are written into the
    output. Memory beyond input and output is a few blocks per thread.

    Narrow blocks are stored column by column, so that all operations run over long contiguous vectors.
    """

    steps: tuple[Step, ...]
    places: tuple[Place | None, ...]
    output: int
    n_values: int
    n_outputs: int
    kind: np.dtype[Any]
    widest: int
    min_rows: int
    in_one_block: bool
    by_columns: bool

    @classmethod
    def of(cls, graph: MapGraph, kind: np.dtype[Any]) -> "Program":
        """Compile a graph."""
        widths, wide = graph.widths, graph.is_wide
        wide_kind = np.dtype(np.float64)
        kinds = [wide_kind if each else kind for each in wide]
        # Values that share the array of another one, or may do so.
        same = list(range(len(widths)))
        for number, (operation, sources) in enumerate(graph.nodes, start=1):
            if _changes_nothing(operation, kinds[number], kinds[sources[0]]):
                same[number] = same[sources[0]]
        needed = _needed(graph)
        fused = _softmaxes_with_argmax(graph, same)
        taken: list[tuple[int, ...]] = [()] + [
            tuple(same[source] for source in fused.get(number, node.sources))
            for number, node in enumerate(graph.nodes, start=1)
        ]
        computed = [number for number in needed if same[number] == number]
        shares = list(range(len(widths)))
        last_use = [0] * len(widths)
        for number in computed:
            if graph.nodes[number - 1].operation.may_return_its_value:
                shares[number] = shares[taken[number][0]]
            for source in taken[number]:
                last_use[shares[source]] = number
        output = same[len(graph.nodes)]
        last_use[shares[output]] = len(widths)  # the output is needed to the end
        targets = _targets(graph, computed, taken, shares, last_use, kinds, output)
        numbers = _places(graph, computed, shares, last_use, targets)
        places = tuple(
            Place(numbers[number], widths[number], kinds[number]) if number in numbers else None
            for number in computed
        )
        steps = tuple(
            Step(
                softmax_with_argmax
                if number in fused
                else graph.nodes[number - 1].operation.kernel(kinds[number]),
                taken[number][0],
                taken[number][1:],
                targets[number],
                number,
            )
            for number in computed
        )
        return cls(
            steps,
            places,
            output,
            len(widths),
            graph.n_outputs,
            kinds[-1],
            max((*widths, *(node.operation.n_scratch for node in graph.nodes))),
            max((PRODUCT_ROWS for node in graph.nodes if node.operation.name == "dense"), default=1),
            any(node.operation.needs_all_rows for node in graph.nodes),
            max(widths) <= NARROW,
        )

    def run(self, scores: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return the output for scores (n, columns), in ``out`` if given."""
        shape = (len(scores), self.n_outputs)
        if out is None:
            out = np.empty(shape, self.kind)
        else:
            _check_out(out, shape, self.kind, scores)
        if len(scores):
            with np.errstate(all="ignore"):
                self._run(scores, out)
        return out

    def largest(self, scores: FloatArray) -> NDArray[np.intp]:
        """Return the arg-max of every row of the output (the first of equals), (n,)."""
        columns = np.empty(len(scores), np.intp)

        def run(rows: slice) -> int:
            block = scores[rows]
            out = np.empty((len(block), self.n_outputs), self.kind)
            self._run_block(block, out)
            out.argmax(axis=1, out=columns[rows])
            return 1

        if len(scores):
            with np.errstate(all="ignore"):
                self._in_blocks(len(scores), run)
        return columns

    def _run(self, scores: FloatArray, out: FloatArray) -> None:
        if self._is_one_block(len(scores)):
            self._run_block(scores, out)
            return

        def run(rows: slice) -> int:
            self._run_block(scores[rows], out[rows])
            return 1

        self._in_blocks(len(scores), run)

    def _is_one_block(self, n_rows: int) -> bool:
        return self.in_one_block or n_rows * self.widest * 8 <= BLOCK_BYTES

    def _in_blocks(self, n_rows: int, run: Callable[[slice], int]) -> None:
        """Call ``run`` on all blocks of rows; the blocks do not depend on the output."""
        if self._is_one_block(n_rows):
            run(slice(None))
            return
        with BlockSums.over(n_rows, self.widest, min_rows=self.min_rows) as in_all_blocks:
            in_all_blocks(run)

    def _run_block(self, scores: FloatArray, out: FloatArray) -> None:
        n_rows = len(scores)
        if n_rows < MANY_ROWS or n_rows * self.widest * 8 > MOST_KEPT_BYTES or _WORKSPACE.is_taken:
            self._apply(scores, out, None)
            return
        _WORKSPACE.is_taken = True
        try:
            self._apply(scores, out, _WORKSPACE)
        finally:
            _WORKSPACE.is_taken = False

    def _apply(self, scores: FloatArray, out: FloatArray, workspace: _Workspace | None) -> None:
        """Write the output for a block of rows, with intermediate results in a workspace or in new arrays."""
        # OUTPUT and NOWHERE index the last two.
        values: list[Any] = [None] * (self.n_values + 2)
        values[0], given = scores, out
        n_rows = len(scores)
        by_columns = self.by_columns and n_rows >= MANY_ROWS
        if by_columns and workspace is None:
            values[0] = np.asfortranarray(scores)
            out = np.empty((self.n_outputs, n_rows), self.kind).T
        elif by_columns and workspace is not None:
            values[0] = workspace.array(0, n_rows, scores.shape[1], scores.dtype, by_columns=True)
            np.copyto(values[0], scores)
            out = workspace.array(1, n_rows, self.n_outputs, self.kind, by_columns=True)
        values[OUTPUT] = out
        places = self.places if workspace is not None else repeat(None)
        for (kernel, first, others, target, number), place in zip(self.steps, places, strict=False):
            into = values[target]
            if place is not None and workspace is not None:
                into = workspace.array(place.number, n_rows, place.width, place.kind, by_columns=by_columns)
            if others:
                values[number] = kernel(into, values[first], *[values[other] for other in others])
            else:
                values[number] = kernel(into, values[first])
        result = values[self.output]
        if result is not given:
            np.copyto(given, result, casting="same_kind")


def _check_out(out: Any, shape: tuple[int, int], kind: np.dtype[Any], scores: FloatArray) -> None:
    fits_in = isinstance(out, np.ndarray) and out.shape == shape and out.dtype == kind and out.flags.writeable
    if fits_in and not np.may_share_memory(out, scores):
        return  # before a message is made, which takes longer than a map of few rows
    wanted = f"out must be a writeable array of shape {shape} and type {kind}"
    if not isinstance(out, np.ndarray):
        raise ParameterError(f"{wanted}, not {type(out).__name__}; pass np.empty({shape}, np.{kind}).")
    if out.shape != shape or out.dtype != kind:
        raise ParameterError(f"{wanted}, not of shape {out.shape} and type {out.dtype}.")
    if not out.flags.writeable:
        raise ParameterError(f"{wanted}, but is read-only; pass np.empty({shape}, np.{kind}).")
    raise ParameterError("out must not overlap with the predictions; pass another array.")


def _needed(graph: MapGraph) -> list[int]:
    """Return the numbers of the results that the output depends on, in order."""
    needed = {len(graph.nodes)}
    for number in range(len(graph.nodes), 0, -1):
        if number in needed:
            needed.update(graph.nodes[number - 1].sources)
    return sorted(needed - {0})


def _changes_nothing(operation: Any, kind: np.dtype[Any], source: np.dtype[Any]) -> bool:
    # Operations are final, and isinstance is slow for abstract classes.
    is_cast = type(operation) is Widen or (type(operation) is Narrow and not operation.keep_positive)
    return is_cast and kind == source


def _softmaxes_with_argmax(graph: MapGraph, same: list[int]) -> dict[int, tuple[int, int]]:
    """Return the arg-max restorations that are fused with the softmax before them, and the arguments of the fused kernel.

    The scores must be an increasing function of the reference, so that a clear maximum is the same class in both.
    """
    uses = [0] * (len(graph.nodes) + 1)
    for _, sources in graph.nodes:
        for source in sources:
            uses[same[source]] += 1
    found = {}
    for number, (operation, sources) in enumerate(graph.nodes, start=1):
        if not (type(operation) is Restore and operation.kept == "argmax" and sources[0] > 0):
            continue
        first = same[sources[0]]
        softmax, scores = graph.nodes[first - 1]
        if isinstance(softmax, Softmax) and uses[first] == 1 and _increases(graph, scores[0], sources[1]):
            found[number] = (scores[0], sources[1])
            same[first] = same[scores[0]]  # the softmax itself is not computed
    return found


def _increases(graph: MapGraph, number: int, reference: int) -> bool:
    """Return whether a value is a non-decreasing function of the reference, the same for all columns, rounding included."""
    while number != reference:
        if number == 0:
            return False
        operation, sources = graph.nodes[number - 1]
        is_increasing = isinstance(operation, Log | LogSoftmax | Widen | Narrow) or (
            isinstance(operation, Affine)
            and operation.scale.size == operation.shift.size == 1
            and operation.scale.item() > 0
        )
        if not is_increasing and not (
            isinstance(operation, Clip) and operation.low.size == operation.high.size == 1
        ):
            return False
        number = sources[0]
    return True


def _targets(
    graph: MapGraph,
    computed: list[int],
    taken: list[tuple[int, ...]],
    shares: list[int],
    last_use: list[int],
    kinds: list[np.dtype[Any]],
    output: int,
) -> list[int]:
    """Return the target of every result; see :class:`Step`."""
    widths = graph.widths
    targets = [NOWHERE] * len(widths)

    def may_overwrite(number: int) -> bool:
        source, *others = taken[number]
        return bool(
            graph.nodes[number - 1].operation.overwrites
            and shares[source] != 0
            and last_use[shares[source]] == number
            and all(shares[other] != shares[source] for other in others)
            and widths[source] == widths[number]
            and kinds[source] == kinds[number]
        )

    for number in computed:
        if may_overwrite(number):
            targets[number] = taken[number][0]
    # Results that overwrite each other up to the output are written into the output from the start.
    number = output
    while number > 0 and targets[number] >= 0:
        number = targets[number]
    if number > 0:
        operation = graph.nodes[number - 1].operation
        fits = widths[number] == graph.n_outputs and kinds[number] == kinds[-1]
        if fits and not operation.may_return_its_value:
            targets[number] = OUTPUT
    return targets


def _places(
    graph: MapGraph, computed: list[int], shares: list[int], last_use: list[int], targets: list[int]
) -> dict[int, int]:
    """Return the place in the workspace of every result that overwrites no other; those needed together have different ones."""
    owner = list(range(len(shares)))  # of the array of a result
    needed_until: dict[int, int] = {}
    for number in computed:
        first = targets[number] if targets[number] >= 0 else shares[number]
        owner[number] = owner[first] if first != number else number
        needed_until[owner[number]] = max(needed_until.get(owner[number], 0), last_use[shares[number]])
    places: dict[int, int] = {}
    for number in computed:
        is_own = owner[number] == number and targets[number] == NOWHERE
        if is_own and not graph.nodes[number - 1].operation.may_return_its_value:
            taken = {place for other, place in places.items() if needed_until[other] >= number}
            # The first two places are those of the input and of the output, stored by columns.
            places[number] = next(place for place in range(2, len(shares) + 2) if place not in taken)
    return places
