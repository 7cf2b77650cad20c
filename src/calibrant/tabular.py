"""Tabular: numbers of one length that can be had as columns or as a frame."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import MissingExtraError

__all__ = ["Tabular", "stacked_columns"]


class Tabular(ABC):
    """Numbers behind a picture or a result, as a table."""

    @abstractmethod
    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the numbers: name of a column -> values, all of one length."""

    def frame(self) -> Any:
        """Return the numbers as a pandas frame.

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
    """Return the columns of several tables one below the other; for more than one, ``name`` says which."""
    parts = [table.columns() for table in tables.values()]
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    if len(parts) == 1:
        return columns
    lengths = [len(next(iter(part.values()))) for part in parts]
    return {name: np.repeat(np.array(list(tables), dtype=object), lengths), **columns}
