"""Parquet and Feather files, read and written through pyarrow in batches of rows."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileFormatError, LabelError, PredictionError
from calibrant.tables.columns import check_distinct
from calibrant.tables.formats import Format
from calibrant.tables.source import (
    Batch,
    ColumnBatch,
    ColumnSource,
    Names,
    NoRowsError,
    Sink,
    check_names,
    check_no_nul,
    pyarrow_module,
)

__all__ = ["ArrowSink", "FeatherSource", "ParquetSource"]

ROWS_LOOKED_AT = 1000  # to distinguish scores from row numbers


class ArrowBatch(ColumnBatch):
    """Rows of an Arrow table, with the original column types."""

    def __init__(self, path: Path, first_row: int, rows: Any) -> None:
        self.path, self.first_row, self.rows, self.n_rows = path, first_row, rows, rows.num_rows

    def names(self, column: str) -> Names:
        """Return text as text, and integers and Booleans as integers."""
        pyarrow = pyarrow_module()
        array = self.rows.column(column)
        check_names(np.asarray(array.is_null(nan_is_null=True)), self.path, column, self.place)
        kind = array.type
        if pyarrow.types.is_dictionary(kind):
            array, kind = array.dictionary_decode(), kind.value_type
        if not any(is_kind(kind) for is_kind in (pyarrow.types.is_boolean, pyarrow.types.is_integer)):
            if pyarrow.types.is_floating(kind):
                values = np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)
                return Names.of(self._integers(values, column))
            if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
                try:
                    array = array.cast(pyarrow.string())
                except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
                    raise LabelError(
                        f"{self.path}: column {column!r} is of type {kind}; labels and groups must be integers or text."
                    ) from None
        encoded = array.dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.intp)
        found = encoded.dictionary.to_pylist()
        if not any(isinstance(value, str) for value in found):
            return Names(codes, np.array(found, dtype=np.int64))
        without = np.array(["\0" in text for text in found], dtype=bool)
        check_no_nul(without[codes], self.path, column, self.place)
        check_names(np.array([not text for text in found], dtype=bool)[codes], self.path, column, self.place)
        return Names(codes, np.array(found, dtype=str))

    def numbers(self, column: str, error_type: type[ValueError] = PredictionError) -> NDArray[np.floating]:
        """Return a numeric column, NaN for missing values."""
        pyarrow = pyarrow_module()
        array = self.rows.column(column)
        if not is_numeric(array.type):
            raise error_type(f"{self.path}: column {column!r} is of type {array.type}; it must be numeric.")
        if not (pyarrow.types.is_floating(array.type) and array.null_count == 0):
            array = array.cast(pyarrow.float64())
        values = np.asarray(array.to_numpy(zero_copy_only=False))
        return values.astype(np.float32) if values.dtype == np.float16 else values

    def missing_numbers(self, column: str) -> NDArray[np.bool_]:
        """Return which rows have no number."""
        missing: NDArray[np.bool_] = np.isnan(self.numbers(column))
        return missing

    def missing_names(self, column: str) -> NDArray[np.bool_]:
        """Return which rows have no value, or an empty text."""
        array = self.rows.column(column)
        missing: NDArray[np.bool_] = np.array(array.is_null(nan_is_null=True))
        empty = np.array([value == "" for value in array.to_pylist()], dtype=bool)
        missing |= empty
        return missing

    def take(self, kept: NDArray[np.bool_]) -> "ArrowBatch":
        """Return some of the rows."""
        taken = ArrowBatch(self.path, self.first_row, self.rows.filter(pyarrow_module().array(kept)))
        taken.kept = np.flatnonzero(kept)
        return taken


class ArrowSource(ColumnSource):
    """Base of Parquet and Feather files: a schema, and batches of typed columns."""

    schema: Any
    format_name: str

    def batches(
        self,
        n_rows: int,
        columns: Sequence[str] | None = None,
        numbers: Sequence[str] = (),  # noqa: ARG002
    ) -> Iterator[ArrowBatch]:
        """Yield all rows, with all columns or the named ones."""
        first_row = 0
        with self._readable():
            for rows in self._record_batches(n_rows, columns):
                # In a damaged file, unchecked offsets and lengths would lead to reads outside the buffers.
                rows.validate(full=True)
                for start in range(0, rows.num_rows, n_rows):
                    part = rows.slice(start, n_rows)
                    yield ArrowBatch(self.path, first_row, part)
                    first_row += part.num_rows
        if first_row == 0:
            raise NoRowsError(f"{self.path} has columns but no rows; at least one row is needed.")

    def numeric_columns(
        self, taken: Sequence[str]
    ) -> tuple[list[str], Callable[[str], NDArray[np.floating]]]:
        """Return the columns of a numeric type, and a function that reads their first rows."""
        types = zip(self.columns, self.schema.types, strict=True)
        found = [name for name, kind in types if name not in taken and is_numeric(kind)]
        first = next(self.batches(ROWS_LOOKED_AT, found)) if found else None
        return found, lambda name: first.numbers(name) if first else np.empty(0)

    @abstractmethod
    def _record_batches(self, n_rows: int, columns: Sequence[str] | None) -> Iterator[Any]:
        """Yield record batches, of about ``n_rows`` rows if the format allows it."""

    def _set_schema(self, schema: Any) -> None:
        self.schema = schema
        self.columns = tuple(schema.names)
        if not self.columns:
            raise FileFormatError(f"{self.path} has no columns.")
        check_distinct(self.path, self.columns, "the schema has")

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Convert errors of pyarrow about a damaged file into one sentence."""
        pyarrow = pyarrow_module()
        try:
            yield
        except (FileNotFoundError, FileFormatError):
            raise
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            empty = self.path.stat().st_size == 0
            what = "is empty" if empty else f"is not a complete {self.format_name} file"
            raise FileFormatError(f"{self.path} {what}; write it again.") from error


class ParquetSource(ArrowSource):
    """A Parquet file."""

    format_name = "Parquet"

    def __init__(self, path: Path) -> None:
        pyarrow_module()
        from pyarrow import parquet

        self.path = path
        with self._readable():
            # Without pre-buffering, which would hold the bytes of all row groups in memory.
            self.file = parquet.ParquetFile(path, page_checksum_verification=True, pre_buffer=False)
            self._set_schema(self.file.schema_arrow)

    def approximate_rows(self) -> int:
        """Return the number of rows."""
        return int(self.file.metadata.num_rows)

    @property
    def compression(self) -> str:
        """Return the compression of the first column, for the output file."""
        metadata = self.file.metadata
        if metadata.num_row_groups == 0:
            return "snappy"
        name = str(metadata.row_group(0).column(0).compression).lower()
        return {"uncompressed": "none"}.get(name, name)

    def _record_batches(self, n_rows: int, columns: Sequence[str] | None) -> Iterator[Any]:
        yield from self.file.iter_batches(n_rows, columns=None if columns is None else list(columns))

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class FeatherSource(ArrowSource):
    """A Feather file, version 2: the Arrow format for files."""

    format_name = "Feather"

    def __init__(self, path: Path) -> None:
        pyarrow = pyarrow_module()
        from pyarrow import ipc

        self.path = path
        with self._readable():
            self._mapped = pyarrow.memory_map(str(path))
            self._file = ipc.open_file(self._mapped)
            self._set_schema(self._file.schema)

    def approximate_rows(self) -> int:
        """Return the number of rows."""
        with self._readable():
            return sum(
                self._file.get_batch(number).num_rows for number in range(self._file.num_record_batches)
            )

    def _record_batches(self, n_rows: int, columns: Sequence[str] | None) -> Iterator[Any]:  # noqa: ARG002
        for number in range(self._file.num_record_batches):
            batch = self._file.get_batch(number)
            yield batch if columns is None else batch.select(list(columns))

    def close(self) -> None:
        """Close the file."""
        self._mapped.close()


def is_numeric(kind: Any) -> bool:
    """Return whether an Arrow type is numeric."""
    types = pyarrow_module().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


class ArrowSink(Sink):
    """Writer of a file with the schema of another, in which score columns have a floating type."""

    drops_rows = True

    def __init__(
        self,
        stream: IO[bytes],
        path: Path,  # noqa: ARG002
        source: ArrowSource,
        columns: Sequence[str],
        appended: bool,
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


PARQUET = Format("Parquet", (".parquet", ".pq"), ParquetSource, ArrowSink, b"PAR1")
FEATHER = Format("Feather", (".feather", ".arrow"), FeatherSource, ArrowSink, b"ARROW1")
