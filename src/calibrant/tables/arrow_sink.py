"""Write Parquet and Feather files: new scores, with all other columns unchanged."""

from collections.abc import Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.tables.arrow_source import ArrowBatch, ArrowSource, ParquetSource, pyarrow_module
from calibrant.tables.batch import Batch
from calibrant.tables.sink import Sink

__all__ = ["ArrowSink"]


class ArrowSink(Sink):
    """Writer of a file with the schema of another, in which score columns have a floating type.

    Parameters
    ----------
    stream : file
        Output stream.
    source : ArrowSource
    columns : sequence of str
        Columns of the new scores.
    appended : bool
        Whether these are new columns, written after the others.
    """

    def __init__(
        self, stream: IO[bytes], source: ArrowSource, columns: Sequence[str], appended: bool
    ) -> None:
        self._pyarrow = pyarrow = pyarrow_module()
        schema = source.schema
        for column in columns:
            if appended:
                schema = schema.append(pyarrow.field(column, pyarrow.float64()))
            else:
                number = schema.get_field_index(column)
                field = schema.field(number)
                if not (pyarrow.types.is_float32(field.type) or pyarrow.types.is_float64(field.type)):
                    schema = schema.set(number, field.with_type(pyarrow.float64()))
        self._schema, self._columns = schema, tuple(columns)
        if isinstance(source, ParquetSource):
            from pyarrow import parquet

            self._writer: Any = parquet.ParquetWriter(
                stream, schema, compression=source.compression, write_page_checksum=True
            )
        else:
            from pyarrow import ipc

            options = ipc.IpcWriteOptions(compression="lz4")
            self._writer = ipc.new_file(stream, schema, options=options)

    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:
        """Write rows as a record batch or row group."""
        assert isinstance(batch, ArrowBatch)
        new = dict(zip(self._columns, scores.T, strict=True))
        arrays = [
            self._pyarrow.array(np.ascontiguousarray(new[field.name]), type=field.type)
            if field.name in new
            else batch.rows.column(field.name)
            for field in self._schema
        ]
        self._writer.write_batch(self._pyarrow.RecordBatch.from_arrays(arrays, schema=self._schema))

    def finish(self) -> None:
        """Write the footer."""
        self._writer.close()
