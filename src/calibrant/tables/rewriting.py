"""Copy a file of predictions with new scores, batch by batch and atomically."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ParameterError, PredictionError
from calibrant.persistence.replacing import replacing
from calibrant.space import Space
from calibrant.tables.columns import ScoreColumns
from calibrant.tables.file_set import FileSet
from calibrant.tables.formats import format_of
from calibrant.tables.prediction_file import rows_per_batch
from calibrant.tables.score_checks import ScoreParser
from calibrant.tables.source import Batch, Source

__all__ = ["check_output", "rewrite"]

Progress = Callable[[int], object]
"""Called with the number of finished rows."""


def check_output(source: Source, output: str | os.PathLike[str]) -> Path:
    """Return the path of the output, if its extension has the format of the input.

    The output for several files is a folder.
    """
    path = Path(output)
    if isinstance(source, FileSet):
        if path.exists() and not path.is_dir():
            raise ParameterError(f"{path} is a file, but {source.path} has several; give a folder as output.")
        return path
    kind = format_of(source.path)
    if format_of(path) is not kind:
        raise ParameterError(
            f"{path}: the output must have the format of {source.path}; give a name that ends in "
            f"{' or '.join(kind.endings)}."
        )
    return path


def rewrite(
    source: Source,
    output: str | os.PathLike[str],
    columns: ScoreColumns,
    space: Space | Callable[[Batch], Any],
    calibrated: Callable[[Any], NDArray[np.floating]],
    *,
    appended: Sequence[str] | None = None,
    select: Callable[[Batch], Batch] | None = None,
    n_rows: int | None = None,
    progress: Progress | None = None,
) -> int:
    """Copy a file with new scores in the score columns; everything else is unchanged.

    Parameters
    ----------
    source : Source
        The file to read, which may be the same as the output.
    output : path-like
        The file to write, or the folder for several files. An existing file is replaced only once the new one is complete;
        after an error or an interrupt it is unchanged.
    columns : ScoreColumns
        The score columns, in the order of the classes.
    space : Space or function
        Space of the scores, or a function that returns the predictions of a batch, such as a `ScoreParser`.
    calibrated : function
        Returns the new scores for these predictions, (n, K) for K columns or two classes.
    appended : sequence of str, optional
        Names of new columns for the new scores, instead of replacing the old ones. One name for an NPZ file.
    select : function, optional
        Returns the rows of a batch that are written, such as `CompleteRows`; by default all.
    n_rows : int, optional
        Number of rows per batch.
    progress : function, optional
        Called with the number of finished rows after every batch.

    Returns
    -------
    int
        Number of rows in the output.
    """
    path = check_output(source, output)
    for name in appended or []:
        if name in source.columns:
            raise PredictionError(f"{source.path} has a column {name!r} already; choose another prefix.")
    parsed = ScoreParser(columns, space) if isinstance(space, Space) else space
    if isinstance(source, FileSet):
        written = 0
        for one in source.opened():
            target = path / one.path.relative_to(source.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            written += rewrite(
                one,
                target,
                columns,
                parsed,
                calibrated,
                appended=appended,
                select=select,
                n_rows=n_rows,
                progress=None if progress is None else partial(_add, progress, written),
            )
        return written
    writer = format_of(path).writer
    if select is not None and not getattr(writer, "drops_rows", False):
        raise ParameterError(f"{source.path}: rows cannot be dropped in this format; remove them first.")
    done = written = 0
    with replacing(path) as stream:
        names = columns.names if appended is None else appended
        sink = writer(stream, path, source, names, appended is not None)
        numbers = columns.names if appended is None else ()  # their text is needed if they are kept
        try:
            for batch in source.batches(n_rows or rows_per_batch(columns), None, numbers):
                kept = batch if select is None else select(batch)
                if kept.n_rows:
                    new = calibrated(parsed(kept))
                    sink.write(kept, new[:, 1:] if len(columns.classes) == 1 else new)
                done += batch.n_rows
                written += kept.n_rows
                if progress is not None:
                    progress(done)
        except BaseException:
            with suppress(Exception):
                sink.finish()  # closes the temporary file, which is then removed
            raise
        sink.finish()
    return written


def _add(progress: Progress, before: int, done: int) -> None:
    """Report rows of one of several files."""
    progress(before + done)
