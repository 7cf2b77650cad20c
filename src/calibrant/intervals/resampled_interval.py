"""Bootstrap interval from a statistic and a resampling scheme."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Float64Array
from calibrant.errors import CalibrationWarning
from calibrant.intervals.jackknife import acceleration
from calibrant.intervals.limits import (
    BootstrapMethod,
    Limits,
    basic_limits,
    bca_limits,
    percentile_limits,
)
from calibrant.intervals.options import BootstrapOptions
from calibrant.intervals.replicates import replicates
from calibrant.intervals.statistic import Statistic
from calibrant.numerics.row_resampling import RowResampling

__all__ = ["NO_VALUE", "Resampled", "resampled_interval"]

NO_VALUE = "the metric is undefined for these rows, so there is no interval"


@dataclass(frozen=True, eq=False)
class Resampled:
    """Result of a bootstrap.

    Attributes
    ----------
    estimate : float
    limits : Limits
    values : ndarray
        The statistic in those resamples in which it is defined.
    n_undefined : int
        Number of the other resamples.
    method : str
        The method that was used for the limits in the end.
    note : str or None
        Why there is no value or no bound.
    """

    estimate: float
    limits: Limits
    values: Float64Array
    n_undefined: int
    method: str
    note: str | None = None

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
    why_undefined: Callable[[], str] = lambda: NO_VALUE,
    if_infinite: str = "",
) -> Resampled:
    """Draw resamples and compute limits; problems are reported as warnings.

    ``why_undefined`` returns why the statistic is undefined for the rows themselves, and ``if_infinite`` is advice for
    infinite values.
    """
    generator = options.generator()
    statistic = make_statistic()
    estimate = statistic(None)
    if np.isnan(estimate):
        reason = why_undefined()
        _warn(reason)
        return Resampled(estimate, Limits(estimate, estimate), np.empty(0), 0, options.method, reason)
    values = replicates(
        make_statistic, resampling, options.n_resamples, generator, n_threads, options.progress
    )
    defined = values[~np.isnan(values)]
    n_undefined = len(values) - len(defined)
    if n_undefined:
        _warn(
            f"the metric is undefined in {n_undefined} of {len(values)} resamples, which are left out; "
            "stratify=True keeps all classes in every resample"
        )
    if len(defined) == 0:
        nothing = float("nan")
        return Resampled(estimate, Limits(nothing, nothing), defined, n_undefined, options.method)
    note = None
    if defined.min() == defined.max() and np.isinf(defined[0]):
        note = f"all resamples gave {defined[0]:g}, so there is no interval{if_infinite}"
        _warn(note)
    elif defined.min() == defined.max():
        _warn(
            f"all resamples gave {defined[0]:.6g}, so the interval has zero width and does not show the uncertainty "
            "of the estimate; for a proportion, use clopper_pearson"
        )
    limits, method = _limits(
        estimate, defined, options, lambda: acceleration(statistic, resampling, generator)
    )
    return Resampled(estimate, limits, defined, n_undefined, method, note)


def _limits(
    estimate: float, values: Float64Array, options: BootstrapOptions, skewness: Callable[[], float]
) -> tuple[Limits, BootstrapMethod]:
    percentile = percentile_limits(values, options.level)
    if options.method == "percentile":
        return percentile, "percentile"
    if not (np.isfinite(estimate) and np.isfinite(values).all()):
        _warn(
            f"the {options.method} interval needs finite values; the percentile interval is returned", depth=5
        )
        return percentile, "percentile"
    if options.method == "basic":
        return basic_limits(estimate, values, options.level), "basic"
    limits = bca_limits(estimate, values, options.level, skewness)
    if limits is None:
        _warn(
            "the BCa interval is undefined, since nearly all resamples lie on one side of the estimate or its "
            "acceleration is undefined; the percentile interval is returned",
            depth=5,
        )
        return percentile, "percentile"
    return limits, "bca"


def _warn(sentence: str, depth: int = 4) -> None:
    warnings.warn(f"{sentence}.", CalibrationWarning, stacklevel=depth)  # at the line of the user's call
