"""MapGraph: what a fitted calibrator does to a row, as a short list of operations."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import FloatArray
from calibrant.errors import PredictionError
from calibrant.graph.operation import GraphError, Operation
from calibrant.graph.program import Program
from calibrant.space import Space

__all__ = ["MapGraph", "Node"]

MOST_NODES = 100_000  # of a graph from a file
MOST_COLUMNS = 10_000_000  # of all its values together


class Node(NamedTuple):
    """An operation and the numbers of the values that it takes: 0 is the input, i + 1 the result of node i."""

    operation: Operation
    sources: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MapGraph:
    """A map from scores to calibrated scores, row by row: operations in the order in which they are applied.

    A graph has no loops: an operation takes the input and results of earlier operations only. The last result is the
    output. Call it on an array of scores to apply it.

    Attributes
    ----------
    n_columns : int
        Number of columns of the input.
    nodes : tuple of Node
        Operations with the values that they take.
    space : Space
        Whether the input must be probabilities or logits.
    output_space : Space
        What the output is.

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
        """Widths of all values, that of the input first; raises :class:`GraphError` where operations do not fit."""
        widths = [self.n_columns]
        for node in self.nodes:
            widths.append(node.operation.width([widths[source] for source in node.sources]))
        return tuple(widths)

    @cached_property
    def is_wide(self) -> tuple[bool, ...]:
        """Whether each value is float64 whatever the float type of the input."""
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
            In the space of the graph; no number in it is checked. float32 and float64 are computed in their own type,
            float16 in float32, integers in float64.
        out : ndarray, optional
            Where to write the result, of its shape and float type; it must not overlap with ``scores``.
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
        """Return the column of the largest output of every row of parsed scores, (n,); the output is not stored."""
        return self.program(scores.dtype).largest(scores)

    def program(self, kind: np.dtype[Any]) -> Program:
        """Return the NumPy program of the graph for scores of a float type; made once."""
        program = self._programs.get(kind.char)
        if program is None:
            with np.errstate(all="ignore"):  # a parameter may be beyond the range of float32
                program = self._programs[kind.char] = Program.of(self, kind)
        return program

    @cached_property
    def _programs(self) -> dict[str, Program]:
        return {}

    def check(self) -> None:
        """Raise :class:`GraphError` unless all operations fit each other and have sound, finite parameters."""
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
    """Return the width of a result; raises :class:`GraphError` unless parameters and values are sound and fit."""
    if operation.n_values is not None and len(sources) != operation.n_values:
        raise GraphError(f"{operation.name} takes {operation.n_values} values, not {len(sources)}")
    if not sources or not all(0 <= source < len(widths) for source in sources):
        raise GraphError(f"{operation.name} takes values that are not there yet")
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
        if isinstance(parameter, float) and not np.isfinite(parameter):
            raise GraphError(f"{operation.name} has {field.name} = {parameter}")
        for part in parameter if isinstance(parameter, tuple) else ():
            if isinstance(part, MapGraph):
                part.check()
    # Checks may rely on shapes, which the width has looked at.
    width = operation.width([widths[source] for source in sources])
    operation.check()
    if width < 1:
        raise GraphError(f"{operation.name} has a result without columns")
    return width


def _is_sound(parameter: NDArray[Any], name: str) -> bool:
    if parameter.dtype.kind not in "fiu":
        return False
    # A bound may be infinite, which means that there is none.
    unbounded = name in ("low", "high", "lower", "upper")
    return not np.isnan(parameter).any() if unbounded else bool(np.isfinite(parameter).all())
