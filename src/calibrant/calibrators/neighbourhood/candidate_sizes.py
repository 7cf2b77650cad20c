"""Sizes of a neighbourhood: one that is given, or several to choose from."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibrant.errors import ParameterError

__all__ = ["candidate_sizes"]


def candidate_sizes(
    name: str, wanted: Any, automatic: Sequence[float], check: Callable[[Any], None]
) -> list[float]:
    """Return the sizes to choose from: one, those of a list in increasing order, or the automatic ones.

    >>> candidate_sizes("n_neighbours", [64, 32], [1, 2, 3], lambda size: None)
    [32, 64]
    >>> candidate_sizes("n_neighbours", "auto", [1, 2, 3], lambda size: None)
    [1, 2, 3]
    """
    if isinstance(wanted, str):
        if wanted != "auto":
            raise ParameterError(f"{name} must be a number, a list of numbers or 'auto', not {wanted!r}.")
        return list(automatic)
    several = isinstance(wanted, Sequence) or (isinstance(wanted, np.ndarray) and wanted.ndim == 1)
    sizes = list(wanted) if several else [wanted]
    if not sizes:
        raise ParameterError(f"{name} must hold at least one number to choose from, but is empty.")
    for size in sizes:
        check(size)
    return sorted({size.item() if isinstance(size, np.generic) else size for size in sizes})
