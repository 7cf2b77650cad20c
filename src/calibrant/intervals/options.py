"""Options of intervals that have no meaning are refused before any work is done."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from calibrant.errors import ParameterError
from calibrant.intervals.limits import BootstrapMethod, check_method
from calibrant.options import check_level, random_source

__all__ = ["BootstrapOptions", "Progress", "check_level"]

Progress = Callable[[int, int], object]
"""Called with the number of resamples that are done and the number of all."""


@dataclass(frozen=True)
class BootstrapOptions:
    """What a user can choose; refused on creation if it has no meaning."""

    level: float
    method: BootstrapMethod
    n_resamples: int
    random_state: Any
    progress: Progress | None = None

    def __post_init__(self) -> None:
        check_level(self.level)
        check_method(self.method)
        least = ceil(2 / (1 - self.level) - 1e-9)  # one resample beyond either end
        if not isinstance(self.n_resamples, int | np.integer) or self.n_resamples < least:
            raise ParameterError(
                f"n_resamples must be a whole number of at least {least} for level {float(self.level):g}, "
                f"not {self.n_resamples!r}."
            )
        if self.progress is not None and not callable(self.progress):
            raise ParameterError(f"progress must be a function of two counts, not {self.progress!r}.")
        self.generator()

    def generator(self) -> np.random.Generator:
        """Return the source of all random numbers."""
        return random_source(self.random_state)
