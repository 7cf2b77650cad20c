"""Validation of the options of intervals, before any computation starts."""

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
"""Called with the number of completed resamples and the total number."""


@dataclass(frozen=True)
class BootstrapOptions:
    """Options of a bootstrap, validated on creation."""

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
                f"n_resamples must be an integer of at least {least} for level {float(self.level):g}, "
                f"not {self.n_resamples!r}."
            )
        if self.progress is not None and not callable(self.progress):
            raise ParameterError(f"progress must be a function of two counts, not {self.progress!r}.")
        self.generator()

    def generator(self) -> np.random.Generator:
        """Return the source of all random numbers."""
        return random_source(self.random_state)
