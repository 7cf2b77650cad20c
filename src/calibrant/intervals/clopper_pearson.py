"""Clopper-Pearson: exact confidence intervals of proportions, for counts and for bins."""

from typing import Any

import numpy as np
from scipy.special import betaincinv

from calibrant.arrays import Float64Array
from calibrant.binning import Bins
from calibrant.errors import ParameterError
from calibrant.options import check_level, real_array
from calibrant.presentation.sentences import counted

__all__ = ["bin_intervals", "clopper_pearson"]


def clopper_pearson(
    successes: Any, trials: Any, level: float = 0.95
) -> tuple[Float64Array, Float64Array] | tuple[float, float]:
    r"""Clopper-Pearson interval: exact confidence interval of a binomial proportion.

    .. math::

        \bigl[ B_{\alpha/2}(k, n - k + 1), \; B_{1 - \alpha/2}(k + 1, n - k) \bigr], \qquad
        \alpha = 1 - \mathrm{level}

    with quantiles B of the beta distribution; the lower end is 0 if k = 0, the upper 1 if k = n :cite:`clopper1934`.
    The coverage is *at least* the level, for any number of trials.

    Parameters
    ----------
    successes : float or array
        Number of successes, k; broadcast against ``trials``. Need not be an integer, for weighted rows.
    trials : float or array
        Number of trials, n; zero trials give (0, 1).
    level : float, default=0.95
        Confidence level.

    Returns
    -------
    low, high : float or ndarray
        Ends of the interval; floats if both arguments are numbers. Costs microseconds per entry.

    Examples
    --------
    No event in 30 trials: at most 11.6 %, close to the rule of three (3.7 / 30, since the level is two-sided).

    >>> low, high = clopper_pearson(0, 30)
    >>> low, round(high, 4)
    (0.0, 0.1157)
    >>> clopper_pearson([0, 5], [0, 10])[0].round(4)
    array([0.    , 0.1871])
    """
    check_level(level)
    try:
        k, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    except (TypeError, ValueError) as error:
        raise ParameterError("successes and trials must be numbers of compatible shapes.") from error
    wrong = ~((k >= 0) & (k <= n) & np.isfinite(n))
    if wrong.any():
        at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise ParameterError(
            f"successes must be between 0 and the number of trials, but {k[at]:g} of {n[at]:g} are not."
        )
    tail = (1 - level) / 2
    # The quantiles are undefined at the ends, where any valid arguments will do.
    low = np.where(k > 0, betaincinv(np.where(k > 0, k, 1.0), n - k + 1, tail), 0.0)
    high = np.where(k < n, betaincinv(k + 1, np.where(k < n, n - k, 1.0), 1 - tail), 1.0)
    if low.ndim == 0:
        return float(low), float(high)
    return low, high


def bin_intervals(
    bins: Bins, level: float = 0.95, *, squared_weight: Any = None
) -> tuple[Float64Array, Float64Array]:
    r"""Clopper-Pearson interval of the mean outcome of each bin, for outcomes 0 and 1.

    Parameters
    ----------
    bins : Bins
        Bins whose outcomes are zeros and ones.
    level : float, default=0.95
        Confidence level for each bin separately.
    squared_weight : array of shape (B,), optional
        For weighted rows: the sum of the squared weights in every bin, such as
        ``partition.bins(scores, outcomes, weights**2).weight``. A bin then counts as its effective sample
        size, :math:`(\sum w)^2 / \sum w^2`, and the interval is no longer exact.

    Returns
    -------
    low, high : ndarray of shape (B,)
        Ends of the intervals; 0 and 1 for an empty bin.

    Notes
    -----
    If the outcomes of a bin have different probabilities, the variance of their sum is less than the
    binomial one, and the interval is conservative. Costs O(B).

    Examples
    --------
    >>> from calibrant.binning import EqualWidth
    >>> bins = EqualWidth(2).bins(np.full(20, 0.7), np.repeat([0, 1], [5, 15]))
    >>> low, high = bin_intervals(bins)
    >>> low.round(4), high.round(4)
    (array([0.   , 0.509]), array([1.    , 0.9134]))
    """
    if not isinstance(bins, Bins):
        raise ParameterError(
            f"bins must be Bins, such as EqualWidth(15).bins(scores, outcomes), not a {type(bins).__name__}."
        )
    check_level(level)
    trials = bins.count.astype(np.float64)
    if squared_weight is not None:
        squares = real_array(squared_weight)
        if squares is None or squares.shape != trials.shape:
            raise ParameterError(
                f"squared_weight must have one number per bin, but has shape {np.shape(squared_weight)} for "
                f"{counted(bins.n_bins, 'bin')}."
            )
        trials = np.divide(bins.weight**2, squares, out=np.zeros_like(trials), where=squares > 0)
    elif not np.allclose(bins.weight, bins.count, rtol=1e-9):
        raise ParameterError(
            "the rows of these bins have weights, whose variation is needed; pass squared_weight=, the sum of "
            "the squared weights in every bin."
        )
    _check_outcomes(bins, weighted=squared_weight is not None)
    successes = np.clip(bins.mean_outcome, 0.0, 1.0) * trials
    low, high = clopper_pearson(successes, trials, level)
    return np.asarray(low), np.asarray(high)


def _check_outcomes(bins: Bins, weighted: bool) -> None:
    """Raise on sums that zeros and ones cannot have, up to rounding."""
    rounding = 1e-6 * np.maximum(bins.weight, 1.0)
    wrong = (bins.outcome_sum < -rounding) | (bins.outcome_sum > bins.weight + rounding)
    if not weighted:
        wrong |= np.abs(bins.outcome_sum - np.rint(bins.outcome_sum)) > rounding
    if wrong.any():
        at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise ParameterError(
            f"the outcomes of bins must be zeros and ones, but those of bin {int(at[-1])} add up to "
            f"{bins.outcome_sum[at]:g} in {counted(int(bins.count[at]), 'row')}; pass 0 and 1, or False and True."
        )
