"""Write CSV files: new scores, with all other bytes unchanged."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import PredictionError
from calibrant.tables.batch import Batch
from calibrant.tables.csv_source import CsvBatch, CsvSource, delimiter_of, is_compressed
from calibrant.tables.sink import Sink
from calibrant.tables.text_records import field_of

__all__ = ["CsvSink"]


class CsvSink(Sink):
    """Writer of a CSV file with the header, quotes and line ends of another.

    Parameters
    ----------
    stream : file
        Output stream.
    path : Path
        Final name of the file, which determines compression and delimiter.
    source : CsvSource
    columns : sequence of str
        Columns of the new scores.
    appended : bool
        Whether these are new columns, written after the others.
    """

    def __init__(
        self, stream: IO[bytes], path: Path, source: CsvSource, columns: Sequence[str], appended: bool
    ) -> None:
        self._source = source
        self._delimiter = delimiter_of(path)
        self._compressed: gzip.GzipFile | None = None
        if is_compressed(path):
            # No name and time stamp in the gzip header, so that the output is reproducible.
            self._compressed = gzip.GzipFile("", "wb", fileobj=stream, mtime=0)
        self._stream: IO[bytes] = self._compressed or stream  # type: ignore[assignment]
        self._numbers = None if appended else [source.columns.index(column) for column in columns]
        for column in columns if appended else ():
            if "\0" in column:
                raise PredictionError(
                    f"{path}: the new column {column!r} would have a NUL character in its name; rename that class."
                )
        header = source.header
        new = [field_of(column, self._delimiter) for column in columns] if appended else []
        self._stream.write(self._delimiter.join([*header.fields, *new]) + header.line_end)

    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:
        """Write rows; scores have the shortest decimal form that reads back exactly."""
        assert isinstance(batch, CsvBatch)
        lines = []
        for record, values in zip(batch.rows, scores.tolist(), strict=True):
            texts = [repr(value).encode() for value in values]
            fields = [*record.fields, *texts] if self._numbers is None else list(record.fields)
            for number, text in zip(self._numbers or [], texts, strict=False):
                fields[number] = text
            lines.append(self._delimiter.join(fields) + record.line_end)
        self._stream.write(b"".join(lines))

    def finish(self) -> None:
        """Write trailing empty lines, if any."""
        self._stream.write(self._source.trailer)
        if self._compressed is not None:
            self._compressed.close()
