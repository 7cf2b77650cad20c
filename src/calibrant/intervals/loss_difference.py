"""Confidence interval for the difference of two mean losses, in closed form (paired t interval)."""

import warnings
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from calibrant.arrays import Float64Array, IntArray
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.intervals.groups import group_numbers
from calibrant.intervals.interval import Interval
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.row_losses import Loss, check_loss, log_loss_ceiling, row_losses
from calibrant.numerics.cluster_variance import effective_number, variance_of_sums
from calibrant.options import check_level
from calibrant.presentation.sentences import counted

__all__ = ["loss_difference"]


def loss_difference(
    y_true: Any,
    y_proba_first: Any,
    y_proba_second: Any,
    *,
    loss: Loss = "log",
    floor: float = 0.0,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
) -> Interval:
    r"""Mean difference of a proper loss between two predictions of the same rows, with a paired t interval.

    With :math:`d_i = \ell(p_i^{(2)}, y_i) - \ell(p_i^{(1)}, y_i)`, groups :math:`g = 1, \dots, G` of rows (by
    default each row is a group) and :math:`W = \sum_i w_i`,

    .. math::

        \bar d = \frac{1}{W} \sum_i w_i d_i, \qquad
        s^2 = \frac{G}{G - 1} \frac{1}{W^2} \sum_g \Bigl( \sum_{i \in g} w_i (d_i - \bar d) \Bigr)^2, \qquad
        \bar d \pm t_{G - 1} \, s

    with the quantile of Student's t with G - 1 degrees of freedom. For rows without weights s is
    the usual standard error of a mean, and with groups the cluster-robust one :cite:`cameron2015`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba_first, y_proba_second : array, frame or Predictions
        Two predictions of the same rows, for example before and after calibration.
    loss : {"log", "brier", "spherical"}, default="log"
        Logarithmic loss, squared distance (halved for two classes), or one minus the spherical score.
    floor : float, default=0.0
        For the log-loss: lower limit for the probability of the true class, as in
        :func:`~calibrant.metrics.log_loss`. With a floor, predictions with zeros, such as those of a forest,
        can be compared; the cost of a zero, and hence the result, depends on it.
    sample_weight : array of shape (n,), optional
        Importance of each row. Every row remains one observation: a weight of two counts twice in the mean but does
        not reduce the standard error.
    groups : array of shape (n,), optional
        Group of each row, such as the patient. Rows of one group may depend on each other; groups are independent.
    level : float, default=0.95
        Confidence level: intended coverage.

    Returns
    -------
    Interval
        ``estimate`` is negative if the second predictions are better. ``p_value`` is the two-sided p-value of
        the hypothesis that both are equally good.

    Notes
    -----
    Valid for held-out predictions: compare calibrators on rows that none of them was fitted to. With few rows of
    skewed differences the coverage is slightly below the level, and with dependent rows far below it unless you pass
    ``groups``; :doc:`/measurements` has simulated coverage. Costs
    O(nK), memory O(n).

    Unequal weights reduce the effective sample size, :math:`W^2 / \sum_i w_i^2`; the degrees of freedom are that
    minus one, and squared residuals are divided by :math:`1 - w_i / W`. With heavy-tailed weights the coverage
    is still below the level.

    If the log-loss of some row is infinite, because a true class had probability zero, there is no interval.
    If only one of the predictions has such rows, the difference is infinite, and positive if it is
    the second. If both have them, infinity minus infinity is undefined,
    and ``estimate`` and both ends are NaN. A warning and ``note`` give the reason; ``floor`` avoids it.

    Examples
    --------
    >>> y = [0, 0, 1, 1]
    >>> interval = loss_difference(y, [0.5] * 4, [0.3, 0.5, 0.7, 0.7], loss="brier")
    >>> print(interval)
    Brier loss, halved for two classes, second minus first: -0.12, 95 % interval [-0.2473, 0.007298]
    (t interval, 4 rows, p = 0.0577)

    Zeros for a true class in both predictions, replaced by one in a thousand:

    >>> found = loss_difference([0, 0, 1], [0.0, 1.0, 0.7], [0.2, 1.0, 1.0], floor=1e-3)
    >>> round(found.estimate, 4)         # (log(1 / 0.8) + log(0.7)) / 3
    -0.0445
    """
    check_level(level)
    check_loss(loss)
    ceiling = log_loss_ceiling(floor)
    if floor > 0 and loss != "log":
        raise ParameterError(f"floor is for loss='log', since the {loss} loss is finite; leave it out.")
    first = LabelledPredictions.parse(y_proba_first, y_true, sample_weight)
    second = LabelledPredictions.parse(y_proba_second, y_true, sample_weight)
    numbers = None if groups is None else group_numbers(groups, len(y_true), sample_weight)
    losses = [np.minimum(row_losses(data, loss), ceiling) for data in (first, second)]
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN
        differences = losses[1] - losses[0]
    note = _why_infinite(*(int(np.count_nonzero(np.isinf(of_rows))) for of_rows in losses))
    found = _mean_with_error(differences, first.weights, numbers, note)
    half_width = float(stdtrit(found.degrees, (1 + level) / 2)) * found.error if found.error > 0 else 0.0
    if note is None and found.degrees < MIN_UNITS - 1 and found.degrees < 0.9 * (found.n_units - 1):
        note = f"unequal weights reduce the effective sample size to {found.degrees + 1:.3g}, so the interval may be too short"
    bounded = np.isfinite(half_width) or np.isnan(found.mean)
    return Interval(
        estimate=found.mean,
        low=found.mean - half_width if bounded else -inf,
        high=found.mean + half_width if bounded else inf,
        level=float(level),
        method="t interval" if groups is None else "t interval by group",
        definition=f"{_definition(loss, floor)}, second minus first",
        n_rows=first.n_rows,
        standard_error=found.error,
        n_groups=None if groups is None else found.n_units,
        p_value=_p_value(found),
        note=note,
    )


MIN_UNITS = 20


def _definition(loss: Loss, floor: float) -> str:
    if loss == "brier":
        return "Brier loss, halved for two classes"
    return f"{loss} loss" + (f" with floor {floor:g}" if floor > 0 else "")


def _why_infinite(n_first: int, n_second: int) -> str | None:
    """Return why the difference has no interval, given the number of infinite losses of both predictions."""
    if n_first == n_second == 0:
        return None
    where = " and ".join(
        f"{counted(count, 'row')} of the {which} predictions"
        for which, count in (("first", n_first), ("second", n_second))
        if count
    )
    found = (
        "of two infinite means is undefined" if n_first and n_second else "is infinite, without an interval"
    )
    return (
        f"the true class had probability zero, and so an infinite loss, in {where}: the difference {found}; "
        "set floor=, such as floor=1e-6, or use loss='brier'"
    )


class _Mean(NamedTuple):
    mean: float
    error: float
    n_units: int
    degrees: float  # degrees of freedom: the effective number of units minus one


def _mean_with_error(
    differences: Float64Array,
    weights: Float64Array | None,
    groups: IntArray | None,
    why_infinite: str | None,
) -> _Mean:
    n_units = len(differences) if groups is None else int(groups.max()) + 1
    with np.errstate(invalid="ignore"):
        mean = float(np.average(differences, weights=weights))
    if why_infinite is not None:
        warnings.warn(f"{why_infinite}.", CalibrationWarning, stacklevel=3)
        return _Mean(mean, inf, n_units, n_units - 1)
    if n_units == 1:
        unit = "row" if groups is None else "group"
        warnings.warn(
            f"the variance cannot be estimated from one {unit}, so the interval is unbounded; pass more {unit}s.",
            CalibrationWarning,
            stacklevel=3,
        )
        return _Mean(mean, inf, n_units, 0)
    residuals = differences - mean
    masses = np.ones_like(differences) if weights is None else weights
    residuals *= masses
    if groups is not None:
        residuals = np.bincount(groups, residuals).astype(np.float64, copy=False)
        masses = np.bincount(groups, masses).astype(np.float64, copy=False)
    error = float(np.sqrt(variance_of_sums(residuals, masses))) / float(masses.sum())
    return _Mean(mean, error, n_units, effective_number(masses) - 1)


def _p_value(found: _Mean) -> float:
    if not np.isfinite(found.error):
        return nan
    if found.error == 0:
        return 1.0 if found.mean == 0 else 0.0
    return float(2 * stdtr(found.degrees, -abs(found.mean) / found.error))
