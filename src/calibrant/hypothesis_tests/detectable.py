"""Power analysis: the smallest calibration error that a given number of rows can detect."""

from dataclasses import dataclass
from math import log, sqrt
from numbers import Real
from typing import Any

from scipy.special import ndtri

from calibrant.errors import ParameterError
from calibrant.hypothesis_tests.cumulative import NullDistribution
from calibrant.metrics.cumulative import CumulativeStatistic, chosen_statistic
from calibrant.metrics.decisions import parsed_without_labels
from calibrant.metrics.utility import TopClasses, Utility, check_utility
from calibrant.numerics.cumulative import ScoreGroups
from calibrant.presentation.sentences import counted

__all__ = ["DetectableError", "smallest_detectable_error"]


@dataclass(frozen=True)
class DetectableError:
    """The smallest calibration error that a test can detect with these rows; ``float()`` returns the error.

    Attributes
    ----------
    error : float
        A true error of this size is detected with a power of about ``power`` or more.
    noise_limit : float
        Observed errors up to this size are not significant at the level ``alpha``.
    largest_possible : float
        The largest possible error: 1 for an event, else the largest difference of utilities in a row.
    alpha, power : float
    statistic : str
        "kuiper" or "ks".
    n_rows : int
    """

    error: float
    noise_limit: float
    largest_possible: float
    alpha: float
    power: float
    statistic: str
    n_rows: int

    def __float__(self) -> float:
        return self.error

    def __str__(self) -> str:
        name = {"kuiper": "Kuiper", "ks": "KS"}[self.statistic]
        if self.error > self.largest_possible:
            verb = "is" if self.n_rows == 1 else "are"
            found = f"{counted(self.n_rows, 'row')} {verb} too few to detect even the largest possible {name} error"
        else:
            found = (
                f"with {counted(self.n_rows, 'row')}, a true {name} error of {self.error:.3g} is detected with a power of "
                f"about {self.power:g} or more"
            )
        return (
            f"{found[0].upper()}{found[1:]} (test at level {self.alpha:g}); observed errors up to "
            f"{self.noise_limit:.3g} are within sampling error."
        )


def smallest_detectable_error(
    y_proba: Any,
    *,
    sample_weight: Any = None,
    utility: Utility = TopClasses(),  # noqa: B008 (frozen)
    statistic: CumulativeStatistic = "kuiper",
    alpha: float = 0.05,
    power: float = 0.8,
    continuity_correction: bool = True,
) -> DetectableError:
    r"""Return the smallest calibration error that a test on these rows can detect (power analysis, no labels needed).

    The true error :math:`\kappa` is the limit for infinitely many rows: in some interval of scores the
    event occurs less often than predicted (or more often), by a fraction :math:`\kappa` of *all* rows. The
    result is the smallest :math:`\kappa` that
    :func:`~calibrant.hypothesis_tests.cumulative_test` rejects at level :math:`\alpha` with approximately
    the requested power or more, for *any* interval and any distribution of the error within it:

    .. math:: \kappa = x_\alpha \sigma + z \sqrt{\sigma^2 + c \kappa}

    with :math:`\sigma` the standard deviation of the mean residual, :math:`x_\alpha` the critical value in
    units of :math:`\sigma`, z the normal quantile of the power and :math:`c = \max_i w_i / \sum_i w_i` (times the
    largest difference of utilities in a row).

    Parameters
    ----------
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Importance of the rows; only ratios matter.
    utility : Utility, default=TopClasses(1)
        What to test, as in :func:`~calibrant.hypothesis_tests.cumulative_test`.
    statistic : {"kuiper", "ks"}, default="kuiper"
        For KS, the interval starts at the lowest or ends at the highest score.
    alpha : float, default=0.05
        Level of the test.
    power : float, default=0.8
        Probability of detection, at least one half and below one; approximate, see the notes.
    continuity_correction : bool, default=True
        As in the test.

    Returns
    -------
    DetectableError
        The error and the noise limit; ``print`` shows a sentence.

    Notes
    -----
    *Derivation.* The statistic is at least the absolute sum of residuals over the interval. That sum has mean
    :math:`\kappa` and a variance of at most :math:`\sigma^2 + c \kappa`, since a change of a probability by
    :math:`\delta` changes its variance by at most :math:`\delta`. The normal approximation then gives
    the formula, which is solved in closed form. At least :math:`-\log(1 - \text{power})` rows must be
    affected by the error; this is the limit if all predictions are certain.

    *Tightness.* The result covers the worst interval, so most errors are detected with higher power, as the slow
    tests show by simulation. If all rows have the same score there is no slack, and the error of the normal
    approximation shows: for rare events the power can be a few points below the requested one.

    The error decreases like :math:`1/\sqrt n`: four times as many rows halve it. Costs O(nK) and a sort.

    Examples
    --------
    >>> print(smallest_detectable_error([[0.9, 0.1]] * 900))
    With 900 rows, a true Kuiper error of 0.0293 is detected with a power of about 0.8 or more (test at
    level 0.05); observed errors up to 0.0196 are within sampling error.
    """
    path_statistic = chosen_statistic(statistic)
    check_utility(utility)
    _check_between("alpha", alpha, 0.0, is_open=True)
    _check_between("power", power, 0.5, is_open=False)
    data = parsed_without_labels(y_proba, sample_weight)
    prospect = utility.prospect(data.predictions)
    groups = ScoreGroups.of(prospect.expected, prospect.tolerance)
    null = NullDistribution.of(prospect, groups, data.weights, path_statistic, continuity_correction)
    limit = null.quantile(alpha)
    largest_share = (1.0 if data.weights is None else float(data.weights.max())) / data.total_weight
    c, z = prospect.span * largest_share, float(ndtri(power))
    excess = z * z * c / 2 + z * sqrt(null.deviation**2 + c * limit + (z * c / 2) ** 2)
    return DetectableError(
        error=max(limit + excess, -log(1 - power) * c),
        noise_limit=limit,
        largest_possible=prospect.span,
        alpha=float(alpha),
        power=float(power),
        statistic=statistic,
        n_rows=data.n_rows,
    )


def _check_between(name: str, value: Any, low: float, *, is_open: bool) -> None:
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not (low < value < 1 or (value == low and not is_open)):
        bound = "above" if is_open else "at least"
        raise ParameterError(f"{name} must be {bound} {low:g} and below 1, but is {value!r}.")
