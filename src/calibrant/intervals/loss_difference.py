"""Confidence interval for the difference of two mean losses, in closed form (paired t interval)."""

import warnings
from math import inf
from typing import Any

import numpy as np

from calibrant.arrays import Float64Array, IntArray
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.intervals.few_units import few_outcomes, few_rows_of_a_class, few_units, masses
from calibrant.intervals.groups import group_numbers
from calibrant.intervals.interval import Interval
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.row_losses import Loss, check_loss, log_loss_ceiling, prepared_losses, row_losses
from calibrant.numerics.cluster_variance import UnitMean
from calibrant.options import check_flag, check_level
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
    uncorrected: bool = False,
) -> Interval:
    r"""Mean difference of a proper loss between two predictions of the same rows, with a paired t interval.

    With :math:`d_i = \ell(p_i^{(2)}, y_i) - \ell(p_i^{(1)}, y_i)`, groups :math:`g = 1, \dots, G` of rows (by
    default each row is a group) and :math:`W = \sum_i w_i`,

    .. math::

        \bar d = \frac{1}{W} \sum_i w_i d_i, \qquad
        s^2 = \frac{G - 1}{G} \sum_g \Bigl( \frac{\sum_{i \in g} w_i (d_i - \bar d)}{W - W_g} \Bigr)^2, \qquad
        W_g = \sum_{i \in g} w_i

    gives :math:`t = (\bar d - \mu) / s`, which is corrected for the skewness of the differences :cite:`hall1992` and referred to
    Student's t, with Satterthwaite's degrees of freedom :cite:`bell2002`, which are G - 1 for groups of equal weight. For
    symmetric differences of rows without weights the interval is the usual :math:`\bar d \pm t_{n - 1} s`; with groups s is
    cluster-robust :cite:`cameron2015`.

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
    uncorrected : bool, default=False
        Whether to return the interval also where its coverage is known to be below the level, see the notes.

    Returns
    -------
    Interval
        ``estimate`` is negative if the second predictions are better. ``p_value`` is the two-sided p-value of
        the hypothesis that both are equally good.

    Notes
    -----
    Valid for held-out predictions: compare calibrators on rows that none of them was fitted to. With dependent rows
    the coverage is far below the level unless you pass ``groups``; :doc:`/promises` has simulated coverage. Where few
    rows of large differences decide, such as rare events, the interval is longer on one side. Costs O(nK), memory O(n).

    Unequal weights leave fewer degrees of freedom, since the variance depends on their squares: with log-normal weights of
    spread 1.5, 500 rows leave about a dozen. The skewness is that of the differences without weights, times
    :math:`\sum_i w_i^3 / (\sum_i w_i^2)^{3/2}`. Such intervals are conservative.

    There is no interval and no p-value, and ``note`` gives the reason, with fewer than five rows of the rarer of two classes
    (if that is rare), where unequal weights leave effectively fewer than five groups or rows in the variance, and where
    effectively fewer than eight of the less probable outcomes are expected. In these cases large differences may exist that
    did not occur.

    If the log-loss of some row is infinite, because a true class had probability zero, there is no interval.
    If only one of the predictions has such rows, the difference is infinite, and positive if it is
    the second. If both have them, infinity minus infinity is undefined,
    and ``estimate`` and both ends are NaN. A warning and ``note`` give the reason; ``floor`` avoids it.

    Examples
    --------
    >>> y = [0, 0, 1, 1]
    >>> interval = loss_difference(y, [0.5] * 4, [0.3, 0.5, 0.7, 0.7], loss="brier")
    >>> print(interval)
    Brier loss, halved for two classes, second minus first: -0.12, 95 % interval [-0.2045, 0.288]
    (t interval, 4 rows, p = 0.229)

    Zeros for a true class in both predictions, replaced by one in a thousand:

    >>> found = loss_difference([0, 0, 1], [0.0, 1.0, 0.7], [0.2, 1.0, 1.0], floor=1e-3)
    >>> round(found.estimate, 4)         # (log(1 / 0.8) + log(0.7)) / 3
    -0.0445
    """
    check_level(level)
    check_loss(loss)
    check_flag("uncorrected", uncorrected)
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
    low, high = found.limits(float(level)) if not np.isnan(found.mean) else (np.nan, np.nan)
    p_value = found.p_value
    if note is None and found.n_units > 1 and not uncorrected:
        note = _why_none(found, first, second, numbers, loss, ceiling)
        if note is not None:
            low = high = p_value = float("nan")
    return Interval(
        estimate=found.mean,
        low=low,
        high=high,
        level=float(level),
        method="t interval" if groups is None else "t interval by group",
        definition=f"{_definition(loss, floor)}, second minus first",
        n_rows=first.n_rows,
        standard_error=found.error,
        n_groups=None if groups is None else found.n_units,
        p_value=p_value,
        note=note,
    )


# The larger of two numbers, of the first and the second predictions, is compared with it.
FEWEST_OUTCOMES = 8.0


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


def _mean_with_error(
    differences: Float64Array,
    weights: Float64Array | None,
    groups: IntArray | None,
    why_infinite: str | None,
) -> UnitMean:
    if why_infinite is not None:
        warnings.warn(f"{why_infinite}.", CalibrationWarning, stacklevel=3)
        n_units = len(differences) if groups is None else int(groups.max()) + 1
        with np.errstate(invalid="ignore"):
            return UnitMean(float(np.average(differences, weights=weights)), inf, n_units, n_units - 1)
    found = UnitMean.of(differences, weights, groups)
    if found.n_units == 1:
        unit = "row" if groups is None else "group"
        warnings.warn(
            f"the variance cannot be estimated from one {unit}, so the interval is unbounded; pass more {unit}s.",
            CalibrationWarning,
            stacklevel=3,
        )
    return found


def _why_none(
    found: UnitMean,
    first: LabelledPredictions,
    second: LabelledPredictions,
    groups: IntArray | None,
    loss: Loss,
    ceiling: float,
) -> str | None:
    """Return why the interval would not keep its level; None if it does."""
    of_first, of_second = (prepared_losses(data.predictions, loss) for data in (first, second))

    def difference(labels: IntArray) -> Float64Array:
        with np.errstate(invalid="ignore"):
            return np.minimum(of_second(labels), ceiling) - np.minimum(of_first(labels), ceiling)

    reason = few_units(masses(first, groups), "row" if groups is None else "group") or few_rows_of_a_class(
        first
    )
    if reason is None and found.error > 0:
        reason = few_outcomes(first, [first.predictions, second.predictions], difference, FEWEST_OUTCOMES)
    return None if reason is None else f"no interval, since {reason}"
