"""Program: a map graph compiled for NumPy, run over blocks of rows that stay in the cache."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray
from calibrant.errors import ParameterError
from calibrant.graph.elementwise import Affine, Clip, Log, Narrow, Widen
from calibrant.graph.operation import Kernel
from calibrant.graph.order import Restore
from calibrant.graph.rows import LogSoftmax, Softmax, softmax_with_argmax
from calibrant.numerics.reductions import NARROW
from calibrant.numerics.row_blocks import BLOCK_BYTES, BlockSums

if TYPE_CHECKING:
    from calibrant.graph.map_graph import MapGraph

__all__ = ["Program"]

# Blocks of fewer rows would spend their time on starting products of matrices.
PRODUCT_ROWS = 256

# From this number of rows on it pays to store a narrow block column by column.
MANY_ROWS = 32

NOWHERE, OUTPUT = -1, -2


class Step(NamedTuple):
    """One kernel: what it takes, and where it may write.

    ``target`` is the number of the value whose array is overwritten, or :data:`OUTPUT`, or :data:`NOWHERE` for a new
    array.
    """

    kernel: Kernel
    first: int
    others: tuple[int, ...]
    target: int
    result: int


@dataclass(frozen=True, eq=False)
class Program:
    """Kernels of all operations for one float type of the input, with the arrays that each may overwrite.

    A result takes the place of a value that nothing needs any more where the kernel allows it, and the last ones are
    written into the output. Memory beyond input and output is that of a few blocks per thread.

    Blocks of few columns are stored column by column: all operations then run over long contiguous vectors, whether
    they combine entries of a row or not.
    """

    steps: tuple[Step, ...]
    output: int
    n_values: int
    n_outputs: int
    kind: np.dtype[Any]
    widest: int
    min_rows: int
    in_one_block: bool
    by_columns: bool

    @classmethod
    def of(cls, graph: "MapGraph", kind: np.dtype[Any]) -> "Program":
        """Compile a graph."""
        widths, wide = graph.widths, graph.is_wide
        wide_kind = np.dtype(np.float64)
        kinds = [wide_kind if each else kind for each in wide]
        # Values that are the array of another one, or may be.
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
        """Return the column of the largest entry of every row of the output (the first of equals), (n,)."""
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
        """Call ``run`` on all blocks of rows, the same ones for every output."""
        if self._is_one_block(n_rows):
            run(slice(None))
            return
        with BlockSums.over(n_rows, self.widest, min_rows=self.min_rows) as in_all_blocks:
            in_all_blocks(run)

    def _run_block(self, scores: FloatArray, out: FloatArray) -> None:
        # The last two are found by OUTPUT and NOWHERE.
        values: list[Any] = [None] * (self.n_values + 2)
        values[0], given = scores, out
        if self.by_columns and len(scores) >= MANY_ROWS:
            values[0] = np.asfortranarray(scores)
            out = np.empty((self.n_outputs, len(scores)), self.kind).T
        values[OUTPUT] = out
        for kernel, first, others, target, number in self.steps:
            if others:
                values[number] = kernel(values[target], values[first], *[values[other] for other in others])
            else:
                values[number] = kernel(values[target], values[first])
        result = values[self.output]
        if result is not given:
            np.copyto(given, result, casting="same_kind")


def _check_out(out: Any, shape: tuple[int, int], kind: np.dtype[Any], scores: FloatArray) -> None:
    wanted = f"out must be a writeable array of shape {shape} and type {kind}"
    if not isinstance(out, np.ndarray):
        raise ParameterError(f"{wanted}, not {type(out).__name__}; pass np.empty({shape}, np.{kind}).")
    if out.shape != shape or out.dtype != kind:
        raise ParameterError(f"{wanted}, not of shape {out.shape} and type {out.dtype}.")
    if not out.flags.writeable:
        raise ParameterError(f"{wanted}, but is read-only; pass np.empty({shape}, np.{kind}).")
    if np.may_share_memory(out, scores):
        raise ParameterError("out must not overlap with the predictions; pass another array.")


def _needed(graph: "MapGraph") -> list[int]:
    """Return the numbers of the results that lead to the output, in order."""
    needed = {len(graph.nodes)}
    for number in range(len(graph.nodes), 0, -1):
        if number in needed:
            needed.update(graph.nodes[number - 1].sources)
    return sorted(needed - {0})


def _changes_nothing(operation: Any, kind: np.dtype[Any], source: np.dtype[Any]) -> bool:
    # Operations are final, and isinstance takes long for abstract classes.
    is_cast = type(operation) is Widen or (type(operation) is Narrow and not operation.keep_positive)
    return is_cast and kind == source


def _softmaxes_with_argmax(graph: "MapGraph", same: list[int]) -> dict[int, tuple[int, int]]:
    """Return the restorations of an arg-max that are one kernel with the softmax before them, and what that takes.

    The scores must be an increasing function of the reference, so that a clear lead is the same class in both.
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


def _increases(graph: "MapGraph", number: int, reference: int) -> bool:
    """Return whether a value never falls where the reference rises, with all columns treated alike, rounding included."""
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
    graph: "MapGraph",
    computed: list[int],
    taken: list[tuple[int, ...]],
    shares: list[int],
    last_use: list[int],
    kinds: list[np.dtype[Any]],
    output: int,
) -> list[int]:
    """Return where every result goes; see :class:`Step`."""
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
    # The chain of results that overwrite each other up to the output begins in the output itself.
    number = output
    while number > 0 and targets[number] >= 0:
        number = targets[number]
    if number > 0:
        operation = graph.nodes[number - 1].operation
        fits = widths[number] == graph.n_outputs and kinds[number] == kinds[-1]
        if fits and not operation.may_return_its_value:
            targets[number] = OUTPUT
    return targets
