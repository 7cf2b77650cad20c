"""Copy a file of predictions with new scores, batch by batch and atomically."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ParameterError, PredictionError
from calibrant.persistence.replacing import replacing
from calibrant.predictions import Predictions
from calibrant.space import Space
from calibrant.tables.arrow_sink import ArrowSink
from calibrant.tables.arrow_source import ArrowSource
from calibrant.tables.csv_sink import CsvSink
from calibrant.tables.csv_source import CsvSource
from calibrant.tables.npz_sink import NpzSink
from calibrant.tables.npz_source import NpzSource
from calibrant.tables.opening import ENDINGS, source_type
from calibrant.tables.score_checks import ScoreParser
from calibrant.tables.score_columns import ScoreColumns
from calibrant.tables.sink import Sink
from calibrant.tables.source import Source
from calibrant.tables.table import rows_per_batch

__all__ = ["check_output", "rewrite"]

Progress = Callable[[int], object]
"""Called with the number of finished rows."""


def check_output(source: Source, output: str | os.PathLike[str]) -> Path:
    """Return the path of the output, if its extension has the format of the input."""
    kind = source_type(output)
    if not isinstance(source, kind):
        endings = [ending for ending, other in ENDINGS.items() if isinstance(source, other)]
        raise ParameterError(
            f"{os.fsdecode(output)}: the output must have the format of {source.path}; give a name that ends in "
            f"{' or '.join(endings)}."
        )
    return Path(output)


def rewrite(
    source: Source,
    output: str | os.PathLike[str],
    columns: ScoreColumns,
    space: Space | ScoreParser,
    calibrated: Callable[[Predictions], NDArray[np.floating]],
    *,
    appended: Sequence[str] | None = None,
    n_rows: int | None = None,
    progress: Progress | None = None,
) -> int:
    """Copy a file with new scores in the score columns; everything else is unchanged.

    Parameters
    ----------
    source : Source
        The file to read, which may be the same as the output.
    output : path-like
        The file to write. An existing file is replaced only once the new one is complete; after an error or an interrupt
        it is unchanged.
    columns : ScoreColumns
        The score columns, in the order of the classes.
    space : Space or ScoreParser
        Space of the scores, or their parser.
    calibrated : function
        Returns the new scores for predictions, (n, K) for K columns or two classes.
    appended : sequence of str, optional
        Names of new columns for the new scores, instead of replacing the old ones. One name for an NPZ file.
    n_rows : int, optional
        Number of rows per batch.
    progress : function, optional
        Called with the number of finished rows after every batch.

    Returns
    -------
    int
        Number of rows.
    """
    path = check_output(source, output)
    for name in appended or []:
        if name in source.columns:
            raise PredictionError(f"{source.path} has a column {name!r} already; choose another prefix.")
    parsed = space if isinstance(space, ScoreParser) else ScoreParser(source.path, columns, space)
    done = 0
    with replacing(path) as stream:
        sink = _sink(stream, path, source, columns, appended)
        try:
            for batch in source.batches(n_rows or rows_per_batch(columns)):
                new = calibrated(parsed(batch))
                sink.write(batch, new[:, 1:] if len(columns.classes) == 1 else new)
                done += batch.n_rows
                if progress is not None:
                    progress(done)
        except BaseException:
            with suppress(Exception):
                sink.finish()  # closes the temporary file, which is then removed
            raise
        sink.finish()
    return done


def _sink(
    stream: IO[bytes], path: Path, source: Source, columns: ScoreColumns, appended: Sequence[str] | None
) -> Sink:
    names = columns.names if appended is None else appended
    if isinstance(source, CsvSource):
        return CsvSink(stream, path, source, names, appended is not None)
    if isinstance(source, ArrowSource):
        return ArrowSink(stream, source, names, appended is not None)
    assert isinstance(source, NpzSource)
    return NpzSink(stream, source, columns.names[0], None if appended is None else appended[0])
