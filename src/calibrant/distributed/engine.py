"""Engines: sums over partitions in a fixed order, and the partitions of this machine: tables, files, DuckDB."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic

import numpy as np

from calibrant.distributed.layout import Layout, Piece
from calibrant.errors import PartitionError
from calibrant.numerics.row_blocks import State, n_threads_available, one_blas_thread, one_thread

__all__ = [
    "Engine",
    "Failure",
    "FileRows",
    "InProcess",
    "RelationRows",
    "TableRows",
    "Task",
    "TreeSum",
    "as_arrow",
    "dumped",
    "file_partitions",
    "lost",
    "merged",
    "partial_sum_of_dump",
]


@dataclass(frozen=True, eq=False)
class Task(Generic[State]):
    """Contribution of every piece of rows to a sum; None if no row of the piece counts.

    Tasks are sent to workers, so everything that they refer to can be pickled.
    """

    layout: Layout  # The columns that are read
    # From a :class:`~calibrant.distributed.layout.Piece` to a partial result
    contribution: Callable[[Piece], State | None]


@dataclass(frozen=True)
class Failure:
    """Error in a partition; the error of the first such partition is raised."""

    error: Exception


class Engine(ABC):
    """Access to partitions, and to the workers that compute sums over them; abstract."""

    schema: Any  # Columns of all partitions

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
    """Return the sum over the pieces of one partition; errors of data and files are returned, not raised.

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


Pieces = Callable[[Layout], Iterator[Piece]]


class InProcess(Engine):
    """Partitions that are read in this process, several at a time in threads.

    Each has a ``where``, and returns its pieces for a layout, again with every call.
    """

    def __init__(self, schema: Any, partitions: Sequence[Any]) -> None:
        self.schema, self.partitions = schema, partitions

    def partials(self, task: Task[State]) -> Iterable[State | Failure | None]:
        if len(self.partitions) == 1:
            yield partial_sum(task, self.partitions[0], self.partitions[0].where, alone=False)
            return
        n_threads = n_threads_available()
        with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
            running: deque[Future[Any]] = deque()
            for partition in self.partitions:
                own = copy_context()  # how to treat overflow, say
                running.append(pool.submit(own.run, partial_sum, task, partition, partition.where))
                if len(running) > n_threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()


@dataclass(frozen=True)
class TableRows:
    """Rows of an Arrow table in memory, or of what can become one: a pandas or polars frame."""

    table: Any
    where: str

    def __call__(self, layout: Layout) -> Iterator[Piece]:
        """Yield the rows in pieces."""
        table = as_arrow(self.table, layout.names)
        layout.check(table.schema, self.where)
        batches = table.select(layout.names).to_batches(max_chunksize=layout.piece_rows)
        return _pieces(batches, self.where)


def _pieces(batches: Iterable[Any], where: str, first: int = 0) -> Iterator[Piece]:
    for batch in batches:
        yield Piece(batch, where, first)
        first += batch.num_rows


def as_arrow(frame: Any, names: Sequence[str] | None = None) -> Any:
    """Return a frame of pandas or polars, or a record batch, as an Arrow table; of pandas only columns with these names."""
    import pyarrow as pa

    if hasattr(frame, "to_arrow"):  # polars
        frame = frame.to_arrow()
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if isinstance(frame, pa.Table):
        return frame
    known = frame if names is None else frame[[name for name in names if name in frame.columns]]
    return pa.Table.from_pandas(known, preserve_index=False)


@dataclass(frozen=True)
class FileRows:
    """Rows of a file, or of one row group of a Parquet file."""

    fragment: Any
    schema: Any  # That of the data set, for columns that are part of the path
    where: str
    first: int = 0  # Number of rows in the file before this row group

    def __call__(self, layout: Layout) -> Iterator[Piece]:
        """Read the rows in pieces."""
        own = self.fragment.physical_schema
        in_path = [name for name in self.schema.names if name not in own.names and name in self._keys()]
        layout.check(self.schema if in_path else own, self.where)
        # The types of the file, so that what differs between files is refused and not converted.
        batches = self.fragment.to_batches(
            schema=self.schema if in_path else own,
            columns=layout.names,
            batch_size=layout.piece_rows,
            use_threads=False,
            batch_readahead=1,
            fragment_readahead=1,
        )
        return _pieces(batches, self.where, self.first)

    def _keys(self) -> dict[str, Any]:
        """Return the columns that are part of the path, such as ``day=3``."""
        import pyarrow.dataset as ds

        keys: dict[str, Any] = ds.get_partition_keys(self.fragment.partition_expression)
        return keys


def file_partitions(dataset: Any) -> list[FileRows]:
    """Return the partitions of a data set of files: the row groups of Parquet files, else the files."""
    found = []
    for fragment in dataset.get_fragments():
        path = getattr(fragment, "path", None) or "the table"
        try:
            groups = fragment.split_by_row_group()
        except (
            AttributeError,
            OSError,
            ValueError,
        ):  # another format, or a file that a pass will find missing
            groups = [fragment]
        first = 0
        for group in groups:
            found.append(FileRows(group, dataset.schema, path, first))
            if len(groups) > 1:
                first += sum(info.num_rows for info in group.row_groups)
    return found


@dataclass(frozen=True)
class RelationRows:
    """Rows of a DuckDB relation, which is run again for every pass."""

    relation: Any
    where: str = "the relation"

    def __call__(self, layout: Layout) -> Iterator[Piece]:
        """Run the query and yield the rows in pieces."""
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in layout.names)
        chosen = self.relation.project(quoted)
        read = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_record_batch
        return _pieces(read(layout.piece_rows), self.where)
