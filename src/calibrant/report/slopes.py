"""Calibration in the large and slope, after the custom of medicine."""

import numpy as np

from calibrant.hypothesis_tests import SlopeIntercept
from calibrant.hypothesis_tests.slope_intercept import Coefficient
from calibrant.report.contents import Estimate
from calibrant.report.means import mean_estimate
from calibrant.report.plain import number
from calibrant.report.rows import Rows

__all__ = ["mean_gap", "slope_estimates"]


def mean_gap(rows: Rows, level: float) -> Estimate:
    """Return by how much the mean probability of the main event is above its share, with an interval."""
    if rows.n_classes == 2:
        gaps = rows.predictions.probabilities[:, 1].astype(np.float64) - (rows.data.labels == 1)
        definition = f"mean probability of class {rows.class_names[1]!r} minus its share"
    else:
        gaps = rows.confidence - rows.hits
        definition = "mean confidence in the predicted class minus accuracy"
    return mean_estimate("mean probability minus frequency", gaps, rows, level, definition)


def slope_estimates(rows: Rows, line: SlopeIntercept | None, level: float) -> tuple[Estimate, ...]:
    """Return the gap of the means, and the line of the log-odds where there is one."""
    found = [mean_gap(rows, level)]
    if line is not None:
        independent = "" if rows.groups is None else ", rows taken as independent"
        about = f"{line.event}; profile-likelihood interval{independent}"
        found += [
            _estimate(
                "calibration slope",
                line.slope,
                line.level,
                f"slope of the log-odds: below 1 too extreme, above 1 too timid; {about}",
            ),
            _estimate(
                "intercept",
                line.in_the_large,
                line.level,
                f"shift of the log-odds with slope 1: positive where events are more frequent than predicted; {about}",
            ),
        ]
    return tuple(found)


def _estimate(name: str, coefficient: Coefficient, level: float, definition: str) -> Estimate:
    value = number(coefficient.value)
    note = None if value is not None and np.isfinite(value) else "these rows do not determine it"
    return Estimate(
        name, value, number(coefficient.low), number(coefficient.high), level, definition, note=note
    )
