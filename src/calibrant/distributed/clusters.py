"""Partitions on clusters: data frames of Spark by ``mapInArrow``, data frames and delayed frames of Dask."""

import pickle
import re
from collections.abc import Iterable, Iterator
from typing import Any

from calibrant.distributed.engine import (
    Engine,
    Failure,
    TableRows,
    Task,
    dumped,
    lost,
    merged,
    partial_sum_of_dump,
)
from calibrant.distributed.layout import Layout, Piece
from calibrant.errors import PartitionError
from calibrant.numerics.row_blocks import State

__all__ = ["OnDask", "OnSpark"]

# Of more partitions than this, partial results are merged on the workers first.
SPARK_MERGED_AT_ONCE = 32

PARTIAL = "place long, part binary"


class OnSpark(Engine):
    """Partitions of a Spark data frame; partial results are merged in a tree on the executors."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.schema = arrow_schema(frame)
        self._n_partitions = 0

    def partials(self, task: Task[State]) -> Iterable[State | Failure | None]:
        quoted = ["`" + name.replace("`", "``") + "`" for name in task.layout.names]
        parts = self.frame.select(*quoted).mapInArrow(_Partial(dumped(task)), PARTIAL)
        if self._n_partitions > SPARK_MERGED_AT_ONCE:
            group = (parts["place"] / SPARK_MERGED_AT_ONCE).cast("long")
            parts = parts.groupBy(group.alias("group")).applyInArrow(_merged_group, PARTIAL)
        rows = _collected(parts)
        self._n_partitions = max(self._n_partitions, len(rows))
        return [pickle.loads(row["part"]) for row in sorted(rows, key=lambda row: row["place"])]


class _Partial:
    """What a Python worker of Spark does with the batches of its partition."""

    def __init__(self, dump: bytes) -> None:
        self.dump = dump

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        place = 0 if context is None else context.partitionId()
        where = f"partition {place}"
        found = partial_sum_of_dump(self.dump, lambda layout: _pieces(batches, layout, where), where)
        if found is not None:
            yield _row(place, found)


def _pieces(batches: Iterator[Any], layout: Layout, where: str) -> Iterator[Piece]:
    import pyarrow as pa

    short: list[Any] = []
    first = 0

    def joined() -> Piece:
        (batch,) = pa.Table.from_batches(short).combine_chunks().to_batches()
        return Piece(batch, where, first)

    # Spark's batches are short: several are parsed together.
    for batch in batches:
        if batch.num_rows == 0:
            continue
        short.append(batch)
        if sum(part.num_rows for part in short) >= layout.piece_rows:
            piece = joined()
            yield piece
            first += piece.table.num_rows
            short.clear()
    if short:
        yield joined()


def _row(place: int, part: Any) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"place": [place], "part": [pickle.dumps(part)]})


def _merged_group(table: Any) -> Any:
    """Merge the partial results of neighbouring partitions."""
    import pyarrow as pa

    rows = sorted(table.select(["place", "part"]).to_pylist(), key=lambda row: row["place"])
    part = merged([pickle.loads(row["part"]) for row in rows])
    return pa.Table.from_batches([_row(rows[0]["place"], part)])


def _collected(parts: Any) -> list[Any]:
    """Run a job; what Spark cannot do becomes one sentence."""
    try:
        rows: list[Any] = parts.collect()
    except Exception as error:
        if type(error).__module__.split(".")[0] in ("pyspark", "py4j"):
            raise PartitionError(_reason(str(error))) from error
        raise
    return rows


MISMATCH = re.compile(r"DATA_TYPE_MISMATCH\].* file (?P<file>\S+)\. .* column \[(?P<column>[^\]]+)\]")

DEATHS = ("crashed", "ExecutorLost", "exited unexpectedly", "SparkContext")
"""Parts of Spark's messages about workers that died."""


def _reason(trace: str) -> str:
    """Return one sentence about a job that failed."""
    # Frames of the stack name classes such as SparkContext, whatever went wrong.
    lines = [line.strip() for line in trace.splitlines() if not line.strip().startswith("at ")]
    for line in lines:
        if "ModuleNotFoundError" in line:
            return (
                f"the Python of the Spark workers lacks a package ({line.partition(': ')[2]}); install calibrant there, or set "
                "PYSPARK_PYTHON to a Python that has it."
            )
        mismatch = MISMATCH.search(line)
        if mismatch is not None:
            return f"{mismatch['file']}: column {mismatch['column']!r} has another type than in the other files; write it again."
        for sign in ("FILE_NOT_EXIST", "FileNotFoundException", "does not exist"):
            if sign in line:
                path = next((word for word in line.split() if "/" in word), "a file")
                return f"{path.strip('.,')} cannot be read because it is not there; restore it, or list the files again."
    if any(sign in line for line in lines for sign in DEATHS):
        return (
            "Spark gave up a partition because its worker died too often; nothing was fitted or written: give executors "
            "more memory, or use smaller partitions."
        )
    first = trace.strip().splitlines()[0].strip().rstrip(".")
    return f"Spark could not compute the partitions ({first[:200]}); nothing was fitted or written."


def arrow_schema(frame: Any) -> Any:
    """Return the columns of a Spark data frame as Arrow has them."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema)


DASK_MERGED_AT_ONCE = 8


class OnDask(Engine):
    """Partitions that workers of Dask hold or make; partial results are merged in a tree there.

    Partitions are delayed frames, or functions that read the pieces on a worker. The cluster is that of the current client;
    without one, threads of this process.
    """

    def __init__(self, schema: Any, partitions: list[Any], names: list[str]) -> None:
        self.schema, self.partitions, self.names = schema, partitions, names

    def partials(self, task: Task[State]) -> Iterable[State | Failure | None]:
        from dask.delayed import delayed

        dump = delayed(dumped(task), pure=False)
        run, merge = delayed(_run, pure=False), delayed(merged, pure=False)
        parts = [
            run(partition, dump, name) for partition, name in zip(self.partitions, self.names, strict=True)
        ]
        while len(parts) > 1:
            parts = [
                merge(parts[at : at + DASK_MERGED_AT_ONCE])
                for at in range(0, len(parts), DASK_MERGED_AT_ONCE)
            ]
        return [_computed(parts[0])] if parts else []


def _run(partition: Any, dump: bytes, where: str) -> Any:
    pieces = partition if callable(partition) else TableRows(partition, where)
    return partial_sum_of_dump(dump, pieces, where)


def _computed(result: Any) -> Any:
    """Compute a delayed result; what the cluster cannot do becomes one sentence."""
    try:
        return result.compute()
    except OSError as error:
        raise lost(getattr(error, "filename", None) or "a partition", error) from error
    except Exception as error:
        # The classes are those of ``distributed``, which need not be there.
        if type(error).__name__ in (
            "KilledWorker",
            "CancelledError",
            "FutureCancelledError",
            "NoSchedulerError",
        ):
            raise PartitionError(
                "the cluster gave up a partition because workers died while they held it; nothing was fitted or written: "
                "give workers more memory, or use smaller partitions."
            ) from error
        raise
