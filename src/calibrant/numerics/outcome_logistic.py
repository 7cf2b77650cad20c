"""Logistic regression of outcomes that may be separated: then of targets that are not quite certain."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from calibrant.numerics.small_logistic import LogisticFit, small_logistic

__all__ = ["outcome_logistic", "smoothed_targets"]

Vector = NDArray[np.float64]


def smoothed_targets(outcomes: NDArray[np.bool_], weights: Vector | None = None) -> Vector:
    r"""Return Platt's targets, (n,): :math:`(N_+ + 1)/(N_+ + 2)` for events and :math:`1/(N_- + 2)` else.

    With them every fit is finite. Weights count as numbers of rows.

    >>> smoothed_targets(np.array([True, True, False]))
    array([0.75      , 0.75      , 0.33333333])
    """
    events = float(outcomes.sum() if weights is None else weights @ outcomes)
    others = float(len(outcomes) if weights is None else weights.sum()) - events
    return np.where(outcomes, (events + 1) / (events + 2), 1 / (others + 2))


def outcome_logistic(
    columns: Sequence[Vector],
    outcomes: NDArray[np.bool_],
    weights: Vector | None = None,
    *,
    start: Sequence[float] | None,
    intercept: bool = True,
    lower: Sequence[float] | None = None,
    smoothed: bool = False,
) -> LogisticFit:
    """Fit :func:`small_logistic` to outcomes, or to smoothed targets if asked for or if nothing else is finite.

    Where the columns separate the outcomes, the likelihood grows as long as the coefficients do. Then the ending says
    so, and the coefficients are those of Platt's targets, or the start if that has the lower loss. Without a start
    there is none to be kept, and with smoothed targets it is not compared with; ``start_loss`` is then NaN.

    >>> x = np.array([-2.0, -1.0, 1.0, 2.0])
    >>> fit = outcome_logistic([x], x > 0, start=[1.0, 0.0])
    >>> fit.theta.round(3), fit.ending
    (array([1., 0.]), 'IDENTITY')
    """
    begin = np.zeros(len(columns) + intercept) if start is None else np.array(start, dtype=np.float64)
    known = np.nan
    if not smoothed:
        fit = small_logistic(columns, outcomes, weights, start=begin, intercept=intercept, lower=lower)
        known = np.nan if start is None else fit.start_loss
        if fit.ending != "RUNNING_AWAY":
            return fit._replace(start_loss=known)
    targets = smoothed_targets(outcomes, weights)
    moderate = small_logistic(columns, targets, weights, start=begin, intercept=intercept, lower=lower)
    loss = _log_loss(columns, outcomes, weights, moderate.theta)
    if loss > known:
        return fit._replace(theta=begin, value=known, loss=known, ending="IDENTITY")
    return moderate._replace(loss=loss, start_loss=known, ending=moderate.ending if smoothed else "SEPARATED")


def _log_loss(
    columns: Sequence[Vector], outcomes: NDArray[np.bool_], weights: Vector | None, theta: Vector
) -> float:
    scores = np.full(len(outcomes), theta[-1] if len(theta) > len(columns) else 0.0)
    for coefficient, column in zip(theta, columns, strict=False):
        scores += coefficient * column
    return -float(np.average(log_expit(np.where(outcomes, scores, -scores)), weights=weights))
