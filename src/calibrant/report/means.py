"""Means over rows with confidence intervals, clustered by group if there are groups."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from calibrant.intervals import clopper_pearson
from calibrant.report.contents import Estimate
from calibrant.report.event_counts import RARE
from calibrant.report.plain import number
from calibrant.report.rows import Rows

__all__ = ["gap_estimate", "mean_estimate", "share_estimate", "standard_error"]

# With fewer events, or non-events, the t interval of a proportion is rough.
FEW_EVENTS = 30


def standard_error(values: NDArray[Any], rows: Rows) -> tuple[float, float]:
    """Return the standard error of a weighted mean, and its degrees of freedom.

    As in :func:`~calibrant.intervals.loss_difference`: rows, or groups, are independent. Infinite for a single row or group.
    """
    terms = np.asarray(values, dtype=np.float64)
    weights = np.ones(len(terms)) if rows.weights is None else rows.weights
    residuals = weights * (terms - np.average(terms, weights=weights))
    if rows.groups is not None:
        residuals = np.bincount(rows.groups, residuals).astype(np.float64, copy=False)
        weights = np.bincount(rows.groups, weights).astype(np.float64, copy=False)
    if len(residuals) < 2:
        return np.inf, 0.0
    shares = weights / weights.sum()
    error = float(np.sqrt((residuals**2 / (1 - shares)).sum()) / weights.sum())
    return error, float(1 / (shares @ shares)) - 1


def mean_estimate(
    name: str,
    values: NDArray[Any],
    rows: Rows,
    level: float,
    definition: str,
    *,
    higher_is_better: bool = False,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """Return a mean over rows with its t interval; no interval if the mean is infinite or there is a single row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # infinite losses
        mean = rows.mean(values)
    low = high = None
    if np.isfinite(mean):
        error, degrees = standard_error(values, rows)
        if np.isfinite(error):
            margin = float(stdtrit(degrees, (1 + level) / 2)) * error if error > 0 else 0.0
            low, high = max(mean - margin, bounds[0]), min(mean + margin, bounds[1])
    by = "t interval" if rows.groups is None else "t interval clustered by group"
    return Estimate(
        name=name,
        value=number(mean),
        low=number(low),
        high=number(high),
        level=level,
        definition=f"{definition}; {by}",
        higher_is_better=higher_is_better,
    )


def gap_estimate(
    name: str,
    probability: NDArray[np.floating[Any]],
    happened: NDArray[np.bool_],
    rows: Rows,
    level: float,
    definition: str,
) -> Estimate:
    """Return the mean probability of an event minus its observed frequency.

    With few, rare events the interval is the exact one of the frequency, for fixed probabilities.
    """
    mean = rows.mean(probability)
    n_events = int(happened.sum())
    few = min(n_events, rows.n_rows - n_events) < min(FEW_EVENTS, RARE * rows.n_rows)
    if rows.weights is not None or rows.groups is not None or not few:
        gaps = probability.astype(np.float64) - happened
        return mean_estimate(name, gaps, rows, level, definition, bounds=(mean - 1, mean))
    low, high = clopper_pearson(n_events, rows.n_rows, level)
    return Estimate(
        name=name,
        value=mean - n_events / rows.n_rows,
        low=mean - float(high),
        high=mean - float(low),
        level=level,
        definition=f"{definition}; Clopper-Pearson interval of the frequency",
    )


def share_estimate(
    name: str, happened: NDArray[np.bool_], rows: Rows, level: float, definition: str
) -> Estimate:
    """Return a proportion of rows with an exact interval, or with that of a mean if rows have weights or groups."""
    if rows.weights is not None or rows.groups is not None:
        return mean_estimate(
            name, happened, rows, level, definition, higher_is_better=True, bounds=(0.0, 1.0)
        )
    low, high = clopper_pearson(int(happened.sum()), len(happened), level)
    return Estimate(
        name=name,
        value=float(happened.mean()),
        low=float(low),
        high=float(high),
        level=level,
        definition=f"{definition}; Clopper-Pearson interval",
        higher_is_better=True,
    )
