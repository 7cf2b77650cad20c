"""The difference of two mean losses, with its interval in closed form."""

import warnings
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from calibrant.errors import CalibrationWarning
from calibrant.intervals.groups import group_numbers
from calibrant.intervals.interval import Interval, check_level
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.row_losses import Loss, check_loss, row_losses

__all__ = ["loss_difference"]


def loss_difference(
    y_true: Any,
    y_proba_first: Any,
    y_proba_second: Any,
    *,
    loss: Loss = "log",
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
) -> Interval:
    r"""Mean difference of a proper loss between two predictions of the same rows, with a t interval.

    With :math:`d_i = \ell(p_i^{(2)}, y_i) - \ell(p_i^{(1)}, y_i)`, groups :math:`g = 1, \dots, G` of rows (each
    row by itself unless given) and :math:`W = \sum_i w_i`,

    .. math::

        \bar d = \frac{1}{W} \sum_i w_i d_i, \qquad
        s^2 = \frac{G}{G - 1} \frac{1}{W^2} \sum_g \Bigl( \sum_{i \in g} w_i (d_i - \bar d) \Bigr)^2, \qquad
        \bar d \pm t_{G - 1} \, s

    with the quantile of Student's distribution with G - 1 degrees of freedom; for rows without weights s is
    the familiar standard error of a mean, with groups the cluster-robust one :cite:`cameron2015`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba_first, y_proba_second : array, frame or Predictions
        Two predictions of the same rows, for example before and after calibration.
    loss : {"log", "brier", "spherical"}, default="log"
        Logarithmic loss, squared distance (halved for two classes), or one minus the spherical score.
    sample_weight : array of shape (n,), optional
        How much each row matters. Every row remains one observation: a weight of two moves the mean like two
        rows, but does not make it any surer.
    groups : array of shape (n,), optional
        Rows of the same group depend on each other, as those of one patient; groups do not.
    level : float, default=0.95
        Share of such intervals that are to contain the true difference.

    Returns
    -------
    Interval
        ``estimate`` is negative where the second predictions are better. ``p_value`` is the two-sided one of
        the hypothesis that both are equally good.

    Notes
    -----
    Valid for predictions that were made without these labels: compare calibrators on rows that none of them
    was fitted to. Few rows of skewed differences are covered less often than promised: simulated Brier losses,
    whose differences had skewness 2, in 92.6, 94.3, 94.8 and 95.0 % of 6000 intervals for 95 % from 40, 100, 400
    and 1600 rows. With 400 groups of five equal rows it was 94.8 %, but about 60 % without ``groups``. Costs
    O(nK), memory O(n).

    If the logarithmic loss is infinite in some row, because a true class had the probability zero, the mean
    decides alone which is better and no interval exists; a warning says so.

    Examples
    --------
    >>> y = [0, 0, 1, 1]
    >>> interval = loss_difference(y, [0.5] * 4, [0.3, 0.5, 0.7, 0.7], loss="brier")
    >>> print(interval)
    brier loss, second minus first: -0.12, 95 % interval [-0.2473, 0.007298] (t interval, 4 rows, p = 0.0577)
    """
    check_level(level)
    check_loss(loss)
    first = LabelledPredictions.parse(y_proba_first, y_true, sample_weight)
    second = LabelledPredictions.parse(y_proba_second, y_true, sample_weight)
    numbers = None if groups is None else group_numbers(groups, len(y_true), sample_weight)
    with np.errstate(invalid="ignore"):  # infinity minus infinity: no value
        differences = row_losses(second, loss) - row_losses(first, loss)
    found = _mean_with_error(differences, first.weights, numbers)
    half_width = float(stdtrit(found.n_units - 1, (1 + level) / 2)) * found.error if found.error > 0 else 0.0
    return Interval(
        estimate=found.mean,
        low=found.mean - half_width if np.isfinite(half_width) else -inf,
        high=found.mean + half_width if np.isfinite(half_width) else inf,
        level=float(level),
        method="t interval" if groups is None else "t interval by group",
        definition=f"{loss} loss, second minus first",
        n_rows=first.n_rows,
        standard_error=found.error,
        n_groups=None if groups is None else found.n_units,
        p_value=_p_value(found),
    )


class _Mean(NamedTuple):
    mean: float
    error: float
    n_units: int


def _mean_with_error(
    differences: NDArray[np.float64], weights: NDArray[np.float64] | None, groups: NDArray[np.intp] | None
) -> _Mean:
    n_units = len(differences) if groups is None else int(groups.max()) + 1
    with np.errstate(invalid="ignore"):
        mean = float(np.average(differences, weights=weights))
    if not np.isfinite(mean):
        warnings.warn(
            f"{np.count_nonzero(~np.isfinite(differences))} rows have an infinite loss, so the difference has no "
            "interval; use loss='brier', or predictions without zeros.",
            CalibrationWarning,
            stacklevel=4,
        )
        return _Mean(mean, inf, n_units)
    if n_units == 1:
        unit = "row" if groups is None else "group"
        warnings.warn(
            f"one {unit} does not show how much {unit}s differ, so the interval is unbounded; give more.",
            CalibrationWarning,
            stacklevel=4,
        )
        return _Mean(mean, inf, n_units)
    residuals = differences - mean
    if weights is not None:
        residuals *= weights
    if groups is not None:
        residuals = np.bincount(groups, residuals).astype(np.float64, copy=False)
    total = float(len(differences) if weights is None else weights.sum())
    error = float(np.sqrt(n_units / (n_units - 1) * (residuals @ residuals))) / total
    return _Mean(mean, error, n_units)


def _p_value(found: _Mean) -> float:
    if not np.isfinite(found.error):
        return nan
    if found.error == 0:
        return 1.0 if found.mean == 0 else 0.0
    return float(2 * stdtr(found.n_units - 1, -abs(found.mean) / found.error))
