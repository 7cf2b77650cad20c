"""Write a file of predictions again with other scores, batch by batch, whole or not at all."""

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
"""Called with the number of rows that are done."""


def check_output(source: Source, output: str | os.PathLike[str]) -> Path:
    """Return the path of the output, if its ending says the same format as the input."""
    kind = source_type(output)
    if not isinstance(source, kind):
        endings = [ending for ending, other in ENDINGS.items() if isinstance(source, other)]
        raise ParameterError(
            f"{os.fsdecode(output)}: the format stays that of {source.path}; give a name that ends in "
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
    """Write all rows with new scores in the columns of the old ones; everything else stays as it is.

    Parameters
    ----------
    source : Source
        The file to read, which may be the one to be written.
    output : path-like
        The file to write. It takes the place of an older one when it is whole; whatever is raised before, an
        interrupt included, leaves the older one.
    columns : ScoreColumns
        The columns of scores, in the order of the classes.
    space : Space or ScoreParser
        What the scores are, or what makes predictions of them.
    calibrated : function
        Returns the new scores of some predictions, (n, K) for K columns or two classes.
    appended : sequence of str, optional
        Names of new columns for the new scores; the old ones then stay. One name for an NPZ file.
    n_rows : int, optional
        Rows to take at a time.
    progress : function, optional
        Called with the number of rows that are done, after every batch.

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
                sink.finish()  # into a file that nobody will see, so that nothing is left open
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
