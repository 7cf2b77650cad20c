"""The bootstrap itself: from a statistic and a way to draw rows to an interval."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.intervals.interval import check_level
from calibrant.intervals.jackknife import acceleration
from calibrant.intervals.limits import (
    BootstrapMethod,
    Limits,
    basic_limits,
    bca_limits,
    check_method,
    percentile_limits,
)
from calibrant.intervals.replicates import replicates
from calibrant.intervals.statistic import Statistic
from calibrant.numerics.row_resampling import RowResampling

__all__ = ["BootstrapOptions", "Resampled", "resampled_interval"]

Values = NDArray[np.float64]


@dataclass(frozen=True)
class BootstrapOptions:
    """What a user can choose; refused on creation if it has no meaning."""

    level: float
    method: BootstrapMethod
    n_resamples: int
    random_state: Any

    def __post_init__(self) -> None:
        check_level(self.level)
        check_method(self.method)
        least = ceil(2 / (1 - self.level) - 1e-9)  # one resample beyond either end
        if not isinstance(self.n_resamples, int | np.integer) or self.n_resamples < least:
            raise ParameterError(
                f"n_resamples must be a whole number of at least {least} for level {self.level:g}, "
                f"not {self.n_resamples!r}."
            )

    def generator(self) -> np.random.Generator:
        """Return the source of all random numbers."""
        try:
            return np.random.default_rng(self.random_state)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                f"random_state must be a non-negative integer, a Generator or None, not {self.random_state!r}."
            ) from error


@dataclass(frozen=True, eq=False)
class Resampled:
    """What the resamples gave.

    Attributes
    ----------
    estimate : float
    limits : Limits
    values : ndarray
        The statistic in those resamples in which it has a value.
    n_undefined : int
        Number of the other resamples.
    method : str
        The method that gave the limits in the end.
    """

    estimate: float
    limits: Limits
    values: Values
    n_undefined: int
    method: str

    @property
    def standard_error(self) -> float:
        """Standard deviation of the values."""
        if len(self.values) < 2:
            return float("nan")
        return float(self.values.std(ddof=1)) if np.isfinite(self.values).all() else float("inf")


def resampled_interval(
    make_statistic: Callable[[], Statistic],
    resampling: RowResampling,
    options: BootstrapOptions,
    n_threads: int = 1,
) -> Resampled:
    """Draw resamples and find limits; whatever is not as it should be is said in a warning."""
    generator = options.generator()
    statistic = make_statistic()
    estimate = statistic(None)
    if np.isnan(estimate):
        _warn("the metric has no value for these rows, so there is no interval either")
        return Resampled(estimate, Limits(estimate, estimate), np.empty(0), 0, options.method)
    values = replicates(make_statistic, resampling, options.n_resamples, generator, n_threads)
    defined = values[~np.isnan(values)]
    n_undefined = len(values) - len(defined)
    if n_undefined:
        _warn(
            f"the metric has no value in {n_undefined} of {len(values)} resamples, which are left out; "
            "stratify=True keeps all classes in every resample"
        )
    if len(defined) == 0:
        nothing = float("nan")
        return Resampled(estimate, Limits(nothing, nothing), defined, n_undefined, options.method)
    if defined.min() == defined.max():
        _warn(
            f"all resamples gave {defined[0]:.6g}, so the interval has no width: these rows do not show how "
            "far the estimate may be off; for a share, clopper_pearson does"
        )
    limits, method = _limits(
        estimate, defined, options, lambda: acceleration(statistic, resampling, generator)
    )
    return Resampled(estimate, limits, defined, n_undefined, method)


def _limits(
    estimate: float, values: Values, options: BootstrapOptions, skewness: Callable[[], float]
) -> tuple[Limits, BootstrapMethod]:
    percentile = percentile_limits(values, options.level)
    if options.method == "percentile":
        return percentile, "percentile"
    if not (np.isfinite(estimate) and np.isfinite(values).all()):
        _warn(f"the {options.method} interval needs finite values; this is the percentile interval", depth=5)
        return percentile, "percentile"
    if options.method == "basic":
        return basic_limits(estimate, values, options.level), "basic"
    limits = bca_limits(estimate, values, options.level, skewness)
    if limits is None:
        _warn(
            "the BCa interval is not defined, since nearly all resamples lie on one side of the estimate or its "
            "acceleration has no value; this is the percentile interval",
            depth=5,
        )
        return percentile, "percentile"
    return limits, "bca"


def _warn(sentence: str, depth: int = 4) -> None:
    warnings.warn(f"{sentence}.", CalibrationWarning, stacklevel=depth)  # at the line of the user's call
