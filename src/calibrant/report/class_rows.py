"""Table of classes: calibration of each class, the worst first."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.hypothesis_tests import calibration_slope_intercept
from calibrant.metrics import calibration_error_lower_bound, classwise_ece
from calibrant.metrics.events import columns
from calibrant.report.contents import ClassRow, Estimate
from calibrant.report.error_rows import capped_bound
from calibrant.report.evidence import Evidence
from calibrant.report.means import gap_estimate
from calibrant.report.plain import number
from calibrant.report.rows import Rows

__all__ = ["class_rows", "noise_of_ece"]

N_BINS = 15

# Number of classes for which slopes and lower bounds are computed, since each takes a fit.
FITTED_CLASSES = 20

Direction = Literal["too high", "too low", "too extreme", "too timid", "none"]


def class_rows(
    rows: Rows, after: Rows | None, sample: Rows, evidence: Evidence, level: float
) -> tuple[ClassRow, ...]:
    """Return a row per class: first the significantly miscalibrated ones, then by ECE minus its noise.

    The first twenty get slopes and lower bounds, from the ``sample``. ``after`` holds the same rows after calibration.
    """
    before_ece = _class_errors(rows)
    after_ece = None if after is None else _class_errors(after)
    noise = noise_of_ece(rows)
    adjusted = np.asarray(evidence.class_adjusted)
    off = adjusted <= 1 - level
    order = np.lexsort((-(before_ece - noise), ~off))
    shares = rows.data.class_weights / rows.data.total_weight
    in_the_large = [
        _in_the_large(rows, column, probabilities, level)
        for column, probabilities in enumerate(columns(rows.predictions))
    ]
    table = []
    for place, column in enumerate(order.tolist()):
        slope = lower_bound = None
        if place < FITTED_CLASSES:
            problem = sample.one_class(column)
            slope, lower_bound = _slope(problem, level), _lower_bound(problem, level)
        mean, gap = in_the_large[column]
        table.append(
            ClassRow(
                label=rows.class_names[column],
                n_rows=float(rows.data.class_weights[column]),
                share=float(shares[column]),
                mean_probability=mean,
                in_the_large=gap,
                slope=slope,
                ece=float(before_ece[column]),
                ece_noise=float(noise[column]),
                lower_bound=lower_bound,
                p_value=evidence.class_events[column].p_value_of_both,
                adjusted_p_value=float(adjusted[column]),
                direction=_direction(gap, slope) if off[column] else "none",
                after_ece=None if after_ece is None else float(after_ece[column]),
            )
        )
    return tuple(table)


def noise_of_ece(rows: Rows) -> NDArray[np.float64]:
    r"""Return the expected ECE of every class under calibration, (K,).

    The gap of a bin of calibrated predictions is nearly normal with variance :math:`\sum_i w_i^2 p_i (1 - p_i) / W_b^2`,
    and the mean absolute value of a centred normal variable is :math:`\sqrt{2 / \pi}` standard deviations.
    """
    squares = np.ones(rows.n_rows) if rows.weights is None else rows.weights**2
    noise = np.empty(rows.n_classes)
    for column, scores in enumerate(columns(rows.predictions)):
        probabilities = np.clip(scores.astype(np.float64), 0.0, 1.0)
        place = np.minimum((probabilities * N_BINS).astype(np.intp), N_BINS - 1)
        variances = np.bincount(place, squares * probabilities * (1 - probabilities), minlength=N_BINS)
        noise[column] = np.sqrt(2 / np.pi) * np.sqrt(variances).sum() / rows.data.total_weight
    return noise


def _class_errors(rows: Rows) -> NDArray[np.float64]:
    errors: Any = classwise_ece(
        rows.labels, rows.predictions, sample_weight=rows.weights, n_bins=N_BINS, reduction="none"
    )
    return np.asarray(errors, dtype=np.float64)


def _in_the_large(
    rows: Rows, column: int, probabilities: NDArray[np.floating], level: float
) -> tuple[float, Estimate]:
    """Return the mean probability of a class, and its difference to the class frequency."""
    happened = rows.data.labels == column
    definition = "mean probability minus class frequency"
    gap = gap_estimate("calibration in the large", probabilities, happened, rows, level, definition)
    return rows.mean(probabilities), gap


def _slope(problem: Rows, level: float) -> Estimate | None:
    """Return the slope of the log-odds; None if it cannot be fitted."""
    try:
        line = calibration_slope_intercept(
            problem.labels,
            problem.predictions,
            sample_weight=problem.weights,
            kind="positive",
            level=level,
            interval="wald",
        )
    except ValueError:
        return None
    value = number(line.slope.value)
    if value is None or not np.isfinite(value):
        return None
    return Estimate(
        name="calibration slope",
        value=value,
        low=number(line.slope.low),
        high=number(line.slope.high),
        level=level,
        definition="slope of the log-odds, 1 for calibrated probabilities; exact zeros and ones count as half the smallest and "
        "twice the largest other odds; Wald interval for independent rows",
    )


def _lower_bound(problem: Rows, level: float) -> float | None:
    if problem.n_rows < 2:
        return None
    found = calibration_error_lower_bound(
        problem.labels, problem.predictions, sample_weight=problem.weights, kind="positive", level=level
    )
    return capped_bound(found)


def _direction(gap: Estimate, slope: Estimate | None) -> Direction:
    """Return in which direction a class is miscalibrated: by its mean first, then by its slope."""
    if gap.low is not None and gap.low > 0:
        return "too high"
    if gap.high is not None and gap.high < 0:
        return "too low"
    if slope is not None and slope.high is not None and slope.high < 1:
        return "too extreme"
    if slope is not None and slope.low is not None and slope.low > 1:
        return "too timid"
    return "none"
