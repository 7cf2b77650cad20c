"""Partitions on Dask: data frames and lists of delayed frames."""

from collections.abc import Iterable
from typing import Any

from calibrant.distributed.engine import (
    Engine,
    Failure,
    Task,
    dumped,
    lost,
    merged,
    partial_sum_of_dump,
)
from calibrant.distributed.in_process import TableRows
from calibrant.errors import PartitionError
from calibrant.numerics.row_blocks import State

__all__ = ["OnDask"]

MERGED_AT_ONCE = 8


class OnDask(Engine):
    """Partitions that workers of Dask hold or make; partial results are merged in a tree there.

    The cluster is that of the current client; without one, threads of this process.

    Parameters
    ----------
    schema : pyarrow.Schema
    partitions : list
        Delayed frames, or functions that read the pieces of a partition on a worker.
    names : list of str
        What messages call them.
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
            parts = [merge(parts[at : at + MERGED_AT_ONCE]) for at in range(0, len(parts), MERGED_AT_ONCE)]
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
