"""Fits of log-odds by logistic regression, with the solution that calibrators keep."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.outcome_logistic import outcome_logistic
from calibrant.solvers import Solution, Status

__all__ = ["fit_log_odds"]

Vector = NDArray[np.float64]


def fit_log_odds(
    columns: Sequence[Vector],
    outcomes: NDArray[np.bool_],
    weights: Vector | None,
    *,
    start: Sequence[float] | None,
    intercept: bool = True,
    lower: Sequence[float] | None = None,
    smoothed: bool = False,
) -> Solution:
    """Return coefficients of the columns, and the intercept last, that fit the log-odds of the outcomes.

    See :func:`~calibrant.numerics.outcome_logistic.outcome_logistic` for the arguments, and for outcomes that the
    columns separate.
    """
    fit = outcome_logistic(
        columns, outcomes, weights, start=start, intercept=intercept, lower=lower, smoothed=smoothed
    )
    return Solution(*fit[:-1], Status[fit.ending])
