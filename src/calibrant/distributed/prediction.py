"""Apply a fitted calibrator to rows in partitions: its graph runs where the rows are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.arrays import FloatArray
from calibrant.calibrator import Calibrator
from calibrant.distributed.engine import as_arrow
from calibrant.distributed.layout import Layout, Piece, layout_of
from calibrant.distributed.opening import (
    EngineName,
    engine_of,
    is_dask_frame,
    is_delayed_list,
    is_path,
    is_spark_frame,
    paths_of,
)
from calibrant.errors import NoGraphError, PredictionError
from calibrant.predictions import Predictions
from calibrant.remedies import SAME_COLUMNS

__all__ = ["predict_proba"]


def predict_proba(
    calibrator: Calibrator,
    frame: Any,
    *,
    columns: str | Sequence[str],
    space: str | None = None,
    prefix: str = "calibrated_",
    engine: EngineName | None = None,
) -> Any:
    """Return a frame with calibrated probabilities beside its own columns, computed partition by partition when it is read.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted.
    frame : object
        As in :func:`~calibrant.distributed.fit`.
    columns : str or sequence of str
        Score columns, in the order of ``calibrator.classes_``.
    space : {"probabilities", "logits"}, optional
        Space of the scores; by default that of the fit.
    prefix : str, optional
        The new columns are this, by default ``calibrated_``, and the label of the class; a score column of that name is replaced.
    engine : {"local", "dask", "spark"}, optional
        Engine that reads paths.

    Returns
    -------
    object
        For a data frame of Dask, of Spark, or a list of delayed frames one of the same kind, which has not been computed yet
        (delayed ones give Arrow tables); for everything else a ``pyarrow.RecordBatchReader``.

    Notes
    -----
    Workers get the :class:`~calibrant.graph.MapGraph` of the calibrator and run it on small Arrow batches; the calibrator
    itself only if it has no graph. Spark runs it by ``mapInArrow``, Dask by ``map_partitions``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from calibrant import TemperatureScaling
    >>> fitted = TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    >>> table = pa.table({"p_0": [0.9], "p_1": [0.1]})
    >>> round(predict_proba(fitted, table, columns="p_*").read_all()["calibrated_0"][0].as_py(), 6)
    0.75
    """
    space = calibrator.space_ if space is None else space
    if is_spark_frame(frame) or engine == "spark":
        partitions = engine_of(frame, engine)
        mapping = _Mapping.of(calibrator, partitions.schema, columns, space, prefix)
        spark_frame = partitions.frame  # type: ignore[attr-defined]
        return spark_frame.mapInArrow(mapping.batches, _spark_schema(spark_frame, mapping))
    if is_delayed_list(frame):
        from dask.delayed import delayed

        schema = engine_of(frame).schema
        mapping = _Mapping.of(calibrator, schema, columns, space, prefix)
        return [delayed(mapping.table, pure=False)(part) for part in frame]
    if engine == "dask" and is_path(frame):
        import dask.dataframe as dd

        frame = dd.read_parquet(paths_of(frame))
    if is_dask_frame(frame):
        schema = engine_of(frame).schema
        mapping = _Mapping.of(calibrator, schema, columns, space, prefix)
        return frame.map_partitions(mapping.pandas, meta=mapping.pandas(frame._meta))
    return _reader(calibrator, frame, columns, space, prefix)


@dataclass(frozen=True, eq=False)
class _Mapping:
    """Function of workers that adds calibrated probabilities to a batch."""

    layout: Layout
    function: Any
    names: tuple[str, ...]
    is_graph: bool

    @classmethod
    def of(
        cls, calibrator: Calibrator, schema: Any, columns: str | Sequence[str], space: str, prefix: str
    ) -> "_Mapping":
        layout = layout_of(schema, columns, space)
        if layout.n_classes != len(calibrator.classes_):
            raise PredictionError(
                f"{type(calibrator).__name__} was fitted on {len(calibrator.classes_)} classes, but columns={columns!r} are "
                f"{len(layout.scores)} columns; {SAME_COLUMNS}."
            )
        names = tuple(f"{prefix}{label}" for label in calibrator.classes_.tolist())
        try:
            return cls(layout, calibrator.graph(space), names, True)
        except NoGraphError:
            return cls(layout, calibrator, names, False)

    def probabilities(self, predictions: Predictions) -> FloatArray:
        """Return calibrated probabilities, (n, K)."""
        if self.is_graph:
            found: FloatArray = self.function(predictions.scores)
            return found
        mapped: FloatArray = self.function.predict_proba(predictions)
        return mapped

    def batch(self, batch: Any, where: str = "the frame", first: int = 0) -> Any:
        """Return an Arrow batch with the new columns."""
        import pyarrow as pa

        kept = [name for name in batch.schema.names if name not in self.names]
        columns = {name: batch.column(name) for name in kept}
        if batch.num_rows:
            self.layout.check(batch.schema, where)
            found = self.probabilities(self.layout.predictions(Piece(batch, where, first)))
        else:
            found = np.empty((0, len(self.names)), self.layout.dtype)
        for place, name in enumerate(self.names):
            columns[name] = pa.array(np.ascontiguousarray(found[:, place]))
        return pa.RecordBatch.from_pydict(columns, schema=self.schema(batch.schema))

    def schema(self, given: Any) -> Any:
        """Return the Arrow schema of the result."""
        import pyarrow as pa

        kept = [field for field in given if field.name not in self.names]
        kind = pa.float32() if self.layout.dtype == "float32" else pa.float64()
        return pa.schema([*kept, *(pa.field(name, kind) for name in self.names)])

    def batches(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Map the batches of a partition one by one."""
        for batch in batches:
            yield self.batch(batch)

    def table(self, frame: Any) -> Any:
        """Map a frame or table of a partition."""
        import pyarrow as pa

        frame = as_arrow(frame)
        batches = [self.batch(batch) for batch in frame.to_batches(max_chunksize=self.layout.piece_rows)]
        return pa.Table.from_batches(batches, self.schema(frame.schema))

    def pandas(self, frame: Any) -> Any:
        """Map a pandas frame; its index and other columns stay as they are."""
        import pyarrow as pa

        result = frame.copy(deep=False)
        scores = pa.Table.from_pandas(frame[list(self.layout.scores)], preserve_index=False)
        found = [self.batch(batch) for batch in scores.to_batches(max_chunksize=self.layout.piece_rows)]
        kind = np.dtype(self.layout.dtype)
        for name in self.names:
            parts = [batch.column(name).to_numpy() for batch in found]
            result[name] = np.concatenate(parts) if parts else np.empty(0, kind)
        return result


def _spark_schema(frame: Any, mapping: _Mapping) -> Any:
    from pyspark.sql.types import DoubleType, FloatType, StructField, StructType

    kind = FloatType() if mapping.layout.dtype == "float32" else DoubleType()
    kept = [field for field in frame.schema.fields if field.name not in mapping.names]
    return StructType([*kept, *(StructField(name, kind) for name in mapping.names)])


def _reader(calibrator: Calibrator, frame: Any, columns: str | Sequence[str], space: str, prefix: str) -> Any:
    import pyarrow as pa

    partitions = engine_of(frame)
    schema = partitions.schema
    mapping = _Mapping.of(calibrator, schema, columns, space, prefix)
    everything = replace(mapping.layout, others=tuple(schema.names))

    def batches() -> Iterator[Any]:
        for partition in partitions.partitions:  # type: ignore[attr-defined]
            for piece in partition(everything):
                yield mapping.batch(piece.table, piece.where, piece.first)

    return pa.RecordBatchReader.from_batches(mapping.schema(schema), batches())
