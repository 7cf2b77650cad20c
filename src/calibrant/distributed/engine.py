"""Engine: sums over partitions that live elsewhere, merged in a fixed order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic

import numpy as np

from calibrant.distributed.layout import Layout, Piece
from calibrant.errors import PartitionError
from calibrant.numerics.row_blocks import State, one_blas_thread, one_thread

__all__ = [
    "Engine",
    "Failure",
    "Task",
    "TreeSum",
    "dumped",
    "lost",
    "merged",
    "partial_sum",
    "partial_sum_of_dump",
]


@dataclass(frozen=True, eq=False)
class Task(Generic[State]):
    """What is computed of every piece of rows: a contribution, or None of rows that do not count.

    A task travels to the workers, so whatever it refers to can be pickled.

    Attributes
    ----------
    layout : Layout
        The columns that are read.
    contribution : callable
        From a :class:`~calibrant.distributed.layout.Piece` to a partial result.
    """

    layout: Layout
    contribution: Callable[[Piece], State | None]


@dataclass(frozen=True)
class Failure:
    """What went wrong in a partition. Of several, that of the first partition counts."""

    error: Exception


class Engine(ABC):
    """Where the partitions are and who works on them.

    Attributes
    ----------
    schema : pyarrow.Schema
        Columns of all partitions.
    """

    schema: Any

    @abstractmethod
    def partials(self, task: Task[State]) -> Iterable[State | Failure | None]:
        """Return the sum of what every partition contributes, partition by partition in a fixed order.

        Neighbouring partitions may be merged before, always the same ones.
        """

    def summed(self, task: Task[State]) -> State:
        """Return the sum over all partitions; the first partition with an error raises it."""
        tree: TreeSum[State] = TreeSum()
        for part in self.partials(task):
            if isinstance(part, Failure):
                raise part.error
            tree.add(part)
        total = tree.total()
        if total is None:
            raise PartitionError("no partition has a row that counts; at least one row is needed.")
        return total


class TreeSum(Generic[State]):
    """A sum in the order in which parts come, in pairs of equal numbers of parts; holds O(log n) of them."""

    def __init__(self) -> None:
        self._open: list[tuple[int, State]] = []

    def add(self, part: State | None) -> None:
        """Add the next part; None counts for nothing."""
        if part is None:
            return
        size = 1
        while self._open and self._open[-1][0] == size:
            part = self._open.pop()[1] + part
            size *= 2
        self._open.append((size, part))

    def total(self) -> State | None:
        """Return the sum of all parts; None if there are none."""
        total: State | None = None
        for _, part in reversed(self._open):
            total = part if total is None else part + total
        return total


def merged(parts: Sequence[State | Failure | None]) -> State | Failure | None:
    """Return the sum of partial results, or the first failure."""
    tree: TreeSum[State] = TreeSum()
    for part in parts:
        if isinstance(part, Failure):
            return part
        tree.add(part)
    return tree.total()


def partial_sum(
    task: Task[State], pieces: Callable[[Layout], Iterator[Piece]], where: str, *, alone: bool = True
) -> State | Failure | None:
    """Return the sum over the pieces of one partition; errors that a user can mend are returned, not raised.

    ``alone`` says that other partitions are computed at the same time, so that one thread has to do.
    """
    try:
        if not alone:
            return _added(task, pieces)
        with one_thread(), one_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return _added(task, pieces)
    except OSError as error:
        return Failure(lost(where, error))
    except ValueError as error:
        if type(error).__module__.split(".")[0] == "pyarrow":
            return Failure(lost(where, error))
        return Failure(error)


def _added(task: Task[State], pieces: Callable[[Layout], Iterator[Piece]]) -> State | None:
    total: State | None = None
    for piece in pieces(task.layout):
        if piece.table.num_rows:
            part = task.contribution(piece)
            if part is not None:
                total = part if total is None else total + part
    return total


def lost(where: str, error: BaseException) -> PartitionError:
    """Return the error for a partition that cannot be read."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = lines[0].strip().rstrip(".")[:200]
    return PartitionError(f"{where} cannot be read ({reason}); restore it, or list the partitions again.")


def dumped(task: Any) -> bytes:
    """Return a task as bytes; functions go by value."""
    import cloudpickle

    found: bytes = cloudpickle.dumps(task)
    return found


@lru_cache(maxsize=2)
def _loaded(dump: bytes) -> Any:
    # Once a pass and process, so that formulas of a family are traced once.
    import cloudpickle

    return cloudpickle.loads(dump)


def partial_sum_of_dump(dump: bytes, pieces: Callable[[Layout], Iterator[Piece]], where: str) -> Any:
    """Return :func:`partial_sum` of a task that came as bytes."""
    return partial_sum(_loaded(dump), pieces, where)
