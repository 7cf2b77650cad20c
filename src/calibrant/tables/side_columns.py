"""Further columns of a file, such as sites, ages or outcomes of labels, as numbers or text."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.arrays import AnyArray
from calibrant.errors import PredictionError
from calibrant.tables.columns import columns_asked_for
from calibrant.tables.file_set import open_source
from calibrant.tables.source import Batch

__all__ = ["chosen_columns", "columns_of", "read_side_columns"]

ROWS = 2**15


def chosen_columns(path: str | os.PathLike[str], pattern: str) -> tuple[str, ...]:
    """Return the columns of a file for a pattern such as ``y_*``, or for names separated by commas."""
    with open_source(Path(path)) as source:
        for name in [] if any(sign in pattern for sign in "*?[") else pattern.split(","):
            source.column(name.strip(), "side")
        return columns_asked_for(source.path, source.columns, pattern).names


def read_side_columns(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, AnyArray]:
    """Return columns of a file by name, (n,) each: numbers if all values are, with NaN for missing ones, else text or None."""
    with open_source(Path(path)) as source:
        for name in names:
            source.column(name, "side")
        return columns_of(source.batches(ROWS, columns=list(names)), names)


def columns_of(batches: Iterable[Batch], names: Sequence[str]) -> dict[str, AnyArray]:
    """Return columns of several batches; see :func:`read_side_columns`."""
    parts: dict[str, list[AnyArray]] = {name: [] for name in names}
    for batch in batches:
        for name in names:
            parts[name].append(_cells(batch, name))
    return {name: _together(values) for name, values in parts.items()}


def _cells(batch: Batch, name: str) -> AnyArray:
    """Return one column of a batch as numbers, or as text if it has none."""
    try:
        return batch.scores([name])[:, 0].astype(np.float64)
    except PredictionError:
        missing = batch.missing_names(name)
    if not missing.any():
        return batch.names(name).array
    if missing.all():
        return np.full(batch.n_rows, np.nan)
    known = _cells(batch.take(~missing), name)
    found: AnyArray = (
        np.full(batch.n_rows, np.nan) if known.dtype.kind in "iuf" else np.full(batch.n_rows, None)
    )
    found[~missing] = known
    return found


def _together(parts: list[AnyArray]) -> AnyArray:
    """Return the values of all batches.

    >>> _together([np.array([1.0, 2.0]), np.array([np.nan])]), _together([np.array([1.0, np.nan]), np.array(["a"])])
    (array([ 1.,  2., nan]), array(['1', None, 'a'], dtype=object))
    """
    if all(part.dtype.kind in "iuf" for part in parts):
        values = np.concatenate(parts)
        is_whole = values.dtype.kind != "f" or bool((values == np.round(values)).all())
        return values.astype(np.int64) if is_whole else values
    texts = [_text(value) for part in parts for value in part.tolist()]
    return np.array(texts, dtype=object if None in texts else str)


def _text(value: Any) -> str | None:
    if value is None or value != value:
        return None
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)
