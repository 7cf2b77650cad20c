"""Open partitioned rows: the engine for paths, Arrow data sets, DuckDB relations, frames of Dask and Spark."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from calibrant.distributed.clusters import OnDask, OnSpark
from calibrant.distributed.engine import (
    Engine,
    FileRows,
    InProcess,
    RelationRows,
    TableRows,
    as_arrow,
    file_partitions,
)
from calibrant.distributed.layout import layout_of
from calibrant.distributed.source import PartitionedSource
from calibrant.errors import MissingExtraError, ParameterError, PartitionError

__all__ = [
    "EngineName",
    "engine_of",
    "is_dask_frame",
    "is_delayed_list",
    "is_path",
    "is_spark_frame",
    "paths_of",
    "source_of",
]

EngineName = Literal["local", "dask", "spark"]

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".feather": "feather", ".arrow": "ipc"}


def engine_of(frame: Any, engine: EngineName | None = None) -> Engine:
    """Return the engine for partitioned rows.

    Rows are paths of Parquet, CSV or Feather files (a path, a folder, a pattern with ``*``, or a list), a ``pyarrow`` data
    set, table or record batch, a relation of DuckDB, a data frame of Dask, Spark, pandas or polars, or a list of delayed
    frames. ``engine`` reads paths and data sets: this process by default, the workers of the current Dask client, or the
    current session of Spark.
    """
    if engine not in (None, "local", "dask", "spark"):
        raise ParameterError(f"engine must be 'local', 'dask' or 'spark', not {engine!r}.")
    if is_spark_frame(frame):
        return OnSpark(frame)
    if is_dask_frame(frame):
        return _of_dask(frame.to_delayed(), frame._meta)
    if is_delayed_list(frame):
        return _of_dask(list(frame), None)
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ModuleNotFoundError as error:
        raise MissingExtraError("pyarrow", "cli") from error
    if engine == "spark":
        return OnSpark(_read_by_spark(paths_of(frame)))
    if is_path(frame):
        frame = dataset_of(paths_of(frame))
    if isinstance(frame, ds.Dataset) and not isinstance(frame, ds.InMemoryDataset):
        partitions = file_partitions(frame)
        if engine == "dask":
            names = [partition.where for partition in partitions]
            return OnDask(frame.schema, _delayed_reading(partitions), names)
        return InProcess(frame.schema, partitions)
    if engine == "dask":
        raise ParameterError("engine='dask' takes paths, Arrow data sets of files, or frames of Dask.")
    if isinstance(frame, ds.InMemoryDataset):
        frame = frame.to_table()
    if hasattr(frame, "project") and hasattr(frame, "fetchall"):  # a relation of DuckDB
        relation = RelationRows(frame)
        reader = getattr(frame.limit(0), "to_arrow_table", None) or frame.limit(0).fetch_arrow_table
        return InProcess(reader().schema, [relation])
    is_pandas = hasattr(frame, "columns") and hasattr(frame, "iloc")
    if not (is_pandas or hasattr(frame, "to_arrow") or isinstance(frame, pa.Table | pa.RecordBatch)):
        raise ParameterError(
            "frame must be paths, a pyarrow data set or table, a DuckDB relation, or a data frame of Dask, Spark, pandas or "
            f"polars, not {type(frame).__name__}."
        )
    table = as_arrow(frame)
    return InProcess(table.schema, [TableRows(table, "the table")])


def source_of(
    frame: Any,
    label: str,
    columns: str | Sequence[str],
    space: str,
    sample_weight: str | None = None,
    key: str | None = None,
    classes: Sequence[Any] | None = None,
    engine: EngineName | None = None,
) -> PartitionedSource:
    """Return the checked rows of a frame; the arguments are those of :func:`~calibrant.distributed.fit`."""
    partitions = engine_of(frame, engine)
    layout = layout_of(partitions.schema, columns, space, label=label, weight=sample_weight, key=key)
    return PartitionedSource.of(partitions, layout, classes)


def is_spark_frame(frame: Any) -> bool:
    """Tell whether this is a data frame of Spark, classic or connected."""
    return hasattr(frame, "mapInArrow")


def is_dask_frame(frame: Any) -> bool:
    """Tell whether this is a data frame of Dask."""
    return hasattr(frame, "to_delayed") and hasattr(frame, "map_partitions")


def is_delayed_list(frame: Any) -> bool:
    """Tell whether this is a list of delayed frames."""
    return isinstance(frame, list | tuple) and bool(frame) and all(hasattr(part, "dask") for part in frame)


def is_path(frame: Any) -> bool:
    """Tell whether these are paths."""
    paths = frame if isinstance(frame, list | tuple) else [frame]
    return bool(paths) and all(isinstance(path, str | os.PathLike) for path in paths)


def paths_of(frame: Any) -> list[str]:
    """Return the files of paths, patterns and folders, in alphabetical order."""
    found: list[str] = []
    for given in frame if isinstance(frame, list | tuple) else [frame]:
        path = Path(given)
        if any(sign in str(given) for sign in "*?["):
            root = Path(path.anchor) if path.is_absolute() else Path()
            pattern = path.relative_to(root) if path.is_absolute() else path
            matches = sorted(str(match) for match in root.glob(str(pattern)) if match.is_file())
            if not matches:
                raise PartitionError(f"no file matches {given}; correct the pattern.")
            found += matches
        elif path.is_dir():
            inside = sorted(str(one) for one in path.rglob("*") if one.suffix.lower() in FORMATS)
            if not inside:
                raise PartitionError(f"{given} has no file that ends in one of {', '.join(FORMATS)}.")
            found += inside
        elif path.exists():
            found.append(str(given))
        else:
            raise PartitionError(f"{given} is not there; correct the path.")
    return found


def dataset_of(paths: Sequence[str]) -> Any:
    """Return the Arrow data set of some files of one format."""
    import pyarrow.dataset as ds

    endings = {Path(path).suffix.lower() for path in paths}
    formats = {FORMATS.get(ending) for ending in endings}
    kind = formats.pop()
    if formats or kind is None:
        raise PartitionError(
            f"files must all end in one of {', '.join(FORMATS)}, but end in {', '.join(sorted(endings))}."
        )
    return ds.dataset(list(paths), format=kind, partitioning="hive")


def _of_dask(partitions: list[Any], meta: Any) -> OnDask:
    import pyarrow as pa

    if meta is None:
        schema = as_arrow(partitions[0].compute()).schema
    else:
        schema = meta.schema if hasattr(meta, "schema") else pa.Schema.from_pandas(meta, preserve_index=False)
    return OnDask(schema, partitions, [f"partition {number}" for number in range(len(partitions))])


def _delayed_reading(partitions: Sequence[FileRows]) -> list[Any]:
    from dask.delayed import delayed

    return [delayed(partition, pure=False, traverse=False) for partition in partitions]


def _read_by_spark(paths: list[str]) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise MissingExtraError("pyspark", "spark") from error
    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if Path(paths[0]).suffix.lower() == ".csv":
        return session.read.csv(paths, header=True, inferSchema=True)
    return session.read.parquet(*paths)
