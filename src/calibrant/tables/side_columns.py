"""Further columns of a file, such as sites, ages or outcomes of labels, as numbers or text."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calibrant.arrays import AnyArray
from calibrant.errors import PredictionError
from calibrant.tables.columns import columns_asked_for
from calibrant.tables.file_set import open_source
from calibrant.tables.source import Batch

__all__ = ["chosen_columns", "read_side_columns"]

ROWS = 2**15


def chosen_columns(path: str | os.PathLike[str], pattern: str) -> tuple[str, ...]:
    """Return the columns of a file for a pattern such as ``y_*``, or for names separated by commas."""
    with open_source(Path(path)) as source:
        for name in [] if any(sign in pattern for sign in "*?[") else pattern.split(","):
            source.column(name.strip(), "side")
        return columns_asked_for(source.path, source.columns, pattern).names


def read_side_columns(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, AnyArray]:
    """Return columns of a file by name, (n,) each: integers or floats if all values are numbers, else text."""
    with open_source(Path(path)) as source:
        for name in names:
            source.column(name, "side")
        parts: dict[str, list[AnyArray]] = {name: [] for name in names}
        for batch in source.batches(ROWS, columns=list(names)):
            for name in names:
                parts[name].append(_cells(batch, name))
    return {name: _together(values) for name, values in parts.items()}


def _cells(batch: Batch, name: str) -> AnyArray:
    """Return one column of a batch as finite numbers, or as text if it has none."""
    try:
        return batch.scores([name])[:, 0].astype(np.float64)
    except PredictionError:
        return batch.names(name).array


def _together(parts: list[AnyArray]) -> AnyArray:
    """Return the values of all batches.

    >>> _together([np.array([1.0, 2.0]), np.array([3.0])]), _together([np.array([1.0]), np.array(["a"])])
    (array([1, 2, 3]), array(['1', 'a'], dtype='<U21'))
    """
    whole = [
        part.astype(np.int64) if part.dtype.kind == "f" and (part == np.round(part)).all() else part
        for part in parts
    ]
    if any(part.dtype.kind == "U" for part in whole):
        whole = [part.astype(str) for part in whole]
    return np.concatenate(whole)
