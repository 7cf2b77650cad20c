"""Tabular: results as columns or as a data frame."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import MissingExtraError

__all__ = ["Tabular", "stacked_columns"]


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


def stacked_columns(name: str, tables: Mapping[str, Tabular]) -> dict[str, NDArray[Any]]:
    """Concatenate the columns of several tables; if there are several, the column ``name`` holds their keys."""
    parts = [table.columns() for table in tables.values()]
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    if len(parts) == 1:
        return columns
    lengths = [len(next(iter(part.values()))) for part in parts]
    return {name: np.repeat(np.array(list(tables), dtype=object), lengths), **columns}
