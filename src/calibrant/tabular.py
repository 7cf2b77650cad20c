"""Tabular: results as columns or as a data frame."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import MissingExtraError
from calibrant.presentation import Cell, Column, Table, Value, as_html, count

__all__ = ["Tabular", "stacked_columns"]

SHOWN = 20  # rows in a notebook


class Tabular(ABC):
    """The numbers behind a plot or a result, as a table."""

    @abstractmethod
    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the numbers: column name -> values, all of the same length."""

    def frame(self) -> Any:
        """Return the numbers as a pandas data frame.

        Raises
        ------
        MissingExtraError
            If pandas is not installed; :meth:`columns` has the same numbers.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise MissingExtraError("pandas", "frames") from error
        return pd.DataFrame({name: np.asarray(values) for name, values in self.columns().items()})

    def _repr_html_(self) -> str | None:
        """Return the first rows as a table, for notebooks."""
        columns = {name: np.asarray(values) for name, values in self.columns().items()}
        n_rows = len(next(iter(columns.values())))
        heads = tuple(Column(name, is_numeric=values.dtype.kind in "iuf") for name, values in columns.items())
        rows = zip(*(values[:SHOWN].tolist() for values in columns.values()), strict=True)
        body = tuple(tuple(map(_cell, row)) for row in rows)
        notes = (f"{count(n_rows - SHOWN)} further rows; columns() has all.",) if n_rows > SHOWN else ()
        return as_html(Table("numbers", type(self).__name__, heads, body, notes=notes))


def _cell(value: Any) -> Cell:
    if isinstance(value, int) and not isinstance(value, bool):
        return Cell(count(value), value=value)
    return Cell(Value(value) if isinstance(value, float) else str(value))


def stacked_columns(name: str, tables: Mapping[str, Tabular]) -> dict[str, NDArray[Any]]:
    """Concatenate the columns of several tables; if there are several, the column ``name`` holds their keys."""
    parts = [table.columns() for table in tables.values()]
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    if len(parts) == 1:
        return columns
    lengths = [len(next(iter(part.values()))) for part in parts]
    return {name: np.repeat(np.array(list(tables), dtype=object), lengths), **columns}
