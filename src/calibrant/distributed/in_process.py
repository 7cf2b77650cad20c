"""Partitions on this machine: Arrow tables, data sets of files by row group, DuckDB relations."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from calibrant.distributed.engine import Engine, Failure, Task, partial_sum
from calibrant.distributed.layout import Layout, Piece
from calibrant.numerics.row_blocks import State, n_threads_available, one_blas_thread

__all__ = ["FileRows", "InProcess", "RelationRows", "TableRows", "file_partitions"]

Pieces = Callable[[Layout], Iterator[Piece]]


class InProcess(Engine):
    """Partitions that are read in this process, several at a time in threads.

    Parameters
    ----------
    schema : pyarrow.Schema
    partitions : sequence of callable
        Each returns the pieces of one partition for a layout, anew with every call, and has a ``where``.
    """

    def __init__(self, schema: Any, partitions: Sequence[Any]) -> None:
        self.schema, self.partitions = schema, partitions

    def partials(self, task: Task[State]) -> Iterable[State | Failure | None]:
        if len(self.partitions) == 1:
            yield partial_sum(task, self.partitions[0], self.partitions[0].where, alone=False)
            return
        n_threads = n_threads_available()
        with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
            waiting: deque[Future[Any]] = deque()
            for partition in self.partitions:
                own = copy_context()  # how to treat overflow, say
                waiting.append(pool.submit(own.run, partial_sum, task, partition, partition.where))
                if len(waiting) > n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


@dataclass(frozen=True)
class TableRows:
    """Rows of an Arrow table in memory, or of what can become one: a pandas or polars frame."""

    table: Any
    where: str

    def __call__(self, layout: Layout) -> Iterator[Piece]:
        """Yield the rows in pieces."""
        table = as_table(self.table, layout.names, self.where, layout)
        first = 0
        for batch in table.to_batches(max_chunksize=layout.piece_rows):
            yield Piece(batch, self.where, first)
            first += batch.num_rows


def as_table(frame: Any, names: list[str], where: str, layout: Layout) -> Any:
    """Return some columns of a frame as an Arrow table."""
    import pyarrow as pa

    if hasattr(frame, "to_arrow"):  # polars
        frame = frame.to_arrow()
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if not isinstance(frame, pa.Table):
        known = [name for name in names if name in frame.columns]
        frame = pa.Table.from_pandas(frame[known], preserve_index=False)
    layout.check(frame.schema, where)
    return frame.select(names)


@dataclass(frozen=True)
class FileRows:
    """Rows of a file, or of one row group of a Parquet file.

    Attributes
    ----------
    fragment : pyarrow.dataset.Fragment
    schema : pyarrow.Schema
        That of the data set, for columns that are part of the path.
    where : str
        The path.
    first : int
        Number of rows in the file before this row group.
    """

    fragment: Any
    schema: Any
    where: str
    first: int = 0

    def __call__(self, layout: Layout) -> Iterator[Piece]:
        """Read the rows in pieces."""
        own = self.fragment.physical_schema
        in_path = [name for name in self.schema.names if name not in own.names and name in self._keys()]
        layout.check(self.schema if in_path else own, self.where)
        first = self.first
        # The types of the file, so that what differs between files is refused and not converted.
        for batch in self.fragment.to_batches(
            schema=self.schema if in_path else own,
            columns=layout.names,
            batch_size=layout.piece_rows,
            use_threads=False,
            batch_readahead=1,
            fragment_readahead=1,
        ):
            yield Piece(batch, self.where, first)
            first += batch.num_rows

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
        first = 0
        for batch in read(layout.piece_rows):
            yield Piece(batch, self.where, first)
            first += batch.num_rows
