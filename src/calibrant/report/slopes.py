"""Calibration-in-the-large and calibration slope, as in clinical prediction models."""

import numpy as np
from scipy.special import expit

from calibrant.hypothesis_tests import SlopeIntercept
from calibrant.hypothesis_tests.slope_intercept import Coefficient, LogOdds
from calibrant.report.contents import Estimate
from calibrant.report.means import gap_estimate
from calibrant.report.plain import class_named, number
from calibrant.report.rows import Rows
from calibrant.space import Space
from calibrant.wording import counted

__all__ = ["mean_gap", "slope_estimates"]


def mean_gap(rows: Rows, level: float) -> Estimate:
    """Return the mean probability of the main event minus its observed frequency, with an interval."""
    if rows.n_classes == 2:
        scores, happened = rows.predictions.probabilities[:, 1].astype(np.float64), rows.data.labels == 1
        definition = f"mean probability of {class_named(rows.class_names[1])} minus its observed frequency"
    else:
        scores, happened = rows.confidence, rows.hits
        definition = "mean confidence in the predicted class minus accuracy"
    return gap_estimate("mean probability minus frequency", scores, happened, rows, level, definition)


def slope_estimates(rows: Rows, line: SlopeIntercept | None, level: float) -> tuple[Estimate, ...]:
    """Return the mean gap, and slope and intercept of the log-odds if they can be fitted."""
    found = [mean_gap(rows, level)]
    if line is not None:
        independent = "" if rows.groups is None else " for independent rows"
        about = f"{line.event}{_certain(rows)}; profile-likelihood interval{independent}"
        found += [
            _estimate(
                "calibration slope",
                line.slope,
                line.level,
                f"slope of the log-odds: below 1 over-confident, above 1 under-confident; {about}",
            ),
            _estimate(
                "intercept",
                line.in_the_large,
                line.level,
                f"intercept of the log-odds with slope fixed at 1: positive if events are more frequent than predicted; {about}",
            ),
        ]
    return tuple(found)


def _certain(rows: Rows) -> str:
    """Return by which values exact zeros and ones, which have no log-odds, are replaced; empty if there are none."""
    given = rows.predictions
    if given.space is not Space.PROBABILITIES or given.declared_floor is not None:
        return ""
    every = np.arange(rows.n_rows)
    column = np.ones(rows.n_rows, dtype=np.intp) if rows.n_classes == 2 else given.predicted
    own = given.scores[every, column]
    certain = int(np.count_nonzero((own == 0) | (np.count_nonzero(given.scores, axis=1) == (own != 0))))
    if certain == 0:
        return ""
    log_odds = LogOdds(given)
    reach = np.abs(log_odds.of_class(1, "") if rows.n_classes == 2 else log_odds.of_predicted()).max()
    least = f"{expit(-reach):.3g}"
    return f"; exact zeros and ones in {counted(certain, 'row')} are replaced by {least} and 1 - {least}"


def _estimate(name: str, coefficient: Coefficient, level: float, definition: str) -> Estimate:
    value = number(coefficient.value)
    note = None if value is not None and np.isfinite(value) else "not identifiable from these rows"
    return Estimate(
        name, value, number(coefficient.low), number(coefficient.high), level, definition, note=note
    )
