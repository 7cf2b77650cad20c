"""Calibration test of one event: cumulative test, exact test for few events, random signs of groups."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtr, pdtr
from scipy.stats import binom

from calibrant.arrays import Matrix, Vector
from calibrant.hypothesis_tests.cumulative import NullDistribution
from calibrant.metrics.utility import Prospect, Utility
from calibrant.numerics.cluster_variance import effective_number, variance_of_sums
from calibrant.numerics.cumulative import RANGE, ScoreGroups
from calibrant.plots.reliability.consistency_limits import ScoreCells, poisson_binomial
from calibrant.presentation import counted
from calibrant.report.contents import RARE
from calibrant.report.evaluation_set import EvaluationSet

__all__ = [
    "POWER",
    "SMALLEST_VARIANCE",
    "EventCounts",
    "EventEvidence",
    "GroupSums",
    "event_evidence",
    "events_for_factor",
    "groups_text",
    "rare_detectable",
    "weights_of_test",
]

# Sum of the variances p (1 - p), about the expected number of less probable outcomes. Below it asymptotic tests are rough.
SMALLEST_VARIANCE = 10.0

# Quantile groups of the scores whose unions are the score intervals for the design effect.
N_PARTS = 8

KUIPER = "Largest absolute sum of residuals over any interval of scores"

# Steps of the scores, most units, number of sets of signs and their seed in the test by random signs of groups.
SIGN_STEPS, MOST_UNITS, N_SIGNS, SIGN_SEED = 120, 200, 1999, 0

# Effective number of groups that a test has at least, as a number and relative to all groups.
ENOUGH_GROUPS, ENOUGH_SHARE = 20.0, 0.75
CAP_TOLERANCE = 1e-6

POWER = 0.8
"""Power with which an error is to be detected."""

# Number of distinct probabilities in the exact test, and the variance above which an Edgeworth expansion replaces it.
MOST_CELLS, ENOUGH_VARIANCE = 500, 10_000.0

# Rounding error of the transform; smaller tails are unknown.
SMALLEST = 1e-14

LARGEST_FACTOR, MOST_EVENTS = 1000.0, 400


@dataclass(frozen=True)
class EventEvidence:
    """Test result for one event.

    Attributes
    ----------
    statistic : float
        Kuiper's statistic: the largest absolute sum of residuals over any interval of scores, divided by the number of rows.
    p_value : float
    total_variance : float
        Sum of p (1 - p) over the rows: about the expected number of less probable outcomes.
    design_effect : float
        Factor by which the dependence within groups increases the variance of sums of residuals.
    description : str
        Statistic and null distribution, as a sentence.
    counts : EventCounts
        Observed and expected number of events, in unweighted rows.
    is_exact : bool
        Whether the p-value comes from exact tests of counts, since ``total_variance`` is small.
    is_grouped : bool
        Whether rows are dependent, so that the number of events has no known distribution.
    effective_groups : float or None
        Number of groups of equal weight with the same variance of a mean; None for independent rows.
    mean_p_value : float or None
        P-value of the mean residual by random signs of groups; None for independent rows.
    """

    statistic: float
    p_value: float
    total_variance: float
    design_effect: float
    description: str
    counts: "EventCounts"
    is_exact: bool = False
    is_grouped: bool = False
    effective_groups: float | None = None
    mean_p_value: float | None = None

    @property
    def has_count_test(self) -> bool:
        """Whether the number of events is a separate test: events are rare, independent and not already tested exactly."""
        return self.counts.is_rare and not self.is_exact and not self.is_grouped

    @property
    def combined_p_value(self) -> float:
        """P-value of the cumulative test and of the number of events, with Bonferroni correction if both are used."""
        return min(1.0, 2 * min(self.p_value, self.counts.p_value)) if self.has_count_test else self.p_value


def event_evidence(rows: EvaluationSet, utility: Utility) -> EventEvidence:
    """Test the calibration of the probability of one event.

    The test is the cumulative test with Kuiper's statistic. If the sum of p (1 - p) is below ten, its asymptotic distribution
    is rough; then exact tests of the numbers of events and of less probable outcomes replace it, see :class:`EventCounts`.
    With groups the null distribution is that of random signs of groups, see :class:`GroupSums`. Rows of very large groups have
    smaller weights in the test, see :func:`capped_weights`.
    """
    data = rows.data
    prospect = utility.prospect(data.predictions)
    weights = weights_of_test(rows)
    variance = float(weights**2 @ prospect.variance)
    total_variance = variance / float(weights.max()) ** 2
    scores = ScoreGroups.of(prospect.expected, prospect.tolerance)
    residuals = prospect.realised(data.labels) - prospect.expected
    statistic = RANGE.measure(scores.path(residuals, weights))
    probability = np.clip(prospect.expected, 0.0, 1.0)
    is_event = np.asarray(prospect.realised(data.labels)) > 0
    counts = EventCounts.of(probability, is_event)
    if rows.groups is not None:
        effect = _design_effect(rows, prospect, weights, variance)
        effective = effective_number(np.bincount(rows.groups, weights))
        sums = GroupSums.of(rows.groups, weights * residuals, prospect.expected)
        description = f"{KUIPER}; random signs of {groups_text(rows, effective)}, design effect {effect:.3g}."
        return EventEvidence(
            statistic,
            sums.range_p_value,
            total_variance,
            effect,
            description,
            counts,
            is_grouped=True,
            effective_groups=effective,
            mean_p_value=sums.total_p_value,
        )
    if total_variance >= SMALLEST_VARIANCE:
        noise = NullDistribution.of(prospect, scores, rows.weights, RANGE, continuity_correction=True)
        p_value = noise.p_value(statistic, prospect.tolerance)
        return EventEvidence(
            statistic, p_value, total_variance, 1.0, f"{KUIPER}; asymptotic p-value.", counts
        )
    return EventEvidence(
        statistic,
        _rare_p_value(counts, probability, is_event),
        total_variance,
        1.0,
        "Numbers of events and of less probable outcomes; exact Poisson-binomial tails, since few of the latter are expected.",
        counts,
        is_exact=True,
    )


def _rare_p_value(
    counts: "EventCounts", probability: NDArray[np.float64], is_event: NDArray[np.bool_]
) -> float:
    """Return a p-value from two counts: of events, and of rows with the less probable outcome."""
    likely = probability >= 0.5
    if likely.all() or not likely.any():  # both counts are the same
        return counts.p_value
    unlikely = EventCounts.of(np.where(likely, 1 - probability, probability), is_event != likely)
    return min(1.0, 2 * min(counts.p_value, unlikely.p_value))


def rare_detectable(probability: NDArray[np.float64], alpha: float, power: float = 0.8) -> float:
    """Return the smallest error detected with this power: the rise of the frequency of less probable outcomes.

    If 0.1 such outcomes are expected, two are significant, and an expectation of 2.99 gives two or more with probability 80 %:

    >>> round(rare_detectable(np.full(100, 0.999), 0.05), 3)
    0.029
    """
    n_rows = len(probability)
    mean = float(np.minimum(probability, 1 - probability).mean())
    # Bonferroni: half of the level for each of the two counts, and half of that for each tail.
    needed = int(binom.isf(alpha / 4, n_rows, mean)) + 1
    return max(0.0, float(gammaincinv(needed, power)) / n_rows - mean)


def weights_of_test(rows: EvaluationSet) -> Vector:
    """Return the weights of the rows in the tests of events: smaller than given for rows of very large groups."""
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    if rows.groups is None:
        return weights
    of_group = np.bincount(rows.groups, weights).astype(np.float64, copy=False)
    return weights * (capped_weights(of_group) / of_group)[rows.groups]


def capped_weights(weights: Vector) -> Vector:
    """Cap the weights of groups so that their effective number is at least 20, or three quarters of all if that is less.

    The mean residual of one group that has most of the rows says little about the variance between groups, so a test with
    the weights as given would have almost no power. The cap is as high as possible.

    >>> capped_weights(np.array([4.0, 1.0, 1.0, 2.0, 1.0])).round(2)
    array([3.51, 1.  , 1.  , 2.  , 1.  ])
    """
    wanted = min(ENOUGH_GROUPS, ENOUGH_SHARE * len(weights))
    if effective_number(weights) >= wanted:
        return weights
    low, high = float(weights.min()), float(weights.max())
    while high > (1 + CAP_TOLERANCE) * low:
        cap = (low + high) / 2
        low, high = (cap, high) if effective_number(np.minimum(weights, cap)) >= wanted else (low, cap)
    return np.minimum(weights, low)


def groups_text(rows: EvaluationSet, effective: float) -> str:
    """Return the number of groups, with the effective number if their weights are unequal."""
    assert rows.n_groups is not None
    text = counted(rows.n_groups, "group")
    return (
        text if effective > 0.9 * rows.n_groups else f"{text} of unequal size (effectively {effective:.0f})"
    )


def _design_effect(
    rows: EvaluationSet, prospect: Prospect, weights: NDArray[np.float64], variance: float
) -> float:
    """Return the design effect: variance of sums of residuals between groups over that of independent rows, at least one.

    This is the largest one over intervals of scores made of octiles: groups whose errors have opposite signs at low and at
    high scores may agree in total.
    """
    assert rows.groups is not None
    n_groups = int(rows.groups.max()) + 1
    if n_groups < 2 or variance == 0:
        return 1.0
    residuals = prospect.realised(rows.data.labels) - prospect.expected
    place = np.empty(rows.n_rows, dtype=np.intp)
    place[np.argsort(prospect.expected, kind="stable")] = np.arange(rows.n_rows) * N_PARTS // rows.n_rows
    cells = rows.groups * N_PARTS + place
    zero = np.zeros((n_groups, 1))

    def up_to_part(values: Vector) -> Vector:
        sums = np.bincount(cells, values, n_groups * N_PARTS).reshape(n_groups, N_PARTS)
        return np.concatenate([zero, sums.cumsum(axis=1)], axis=1, dtype=np.float64)

    residual_sums, weight = up_to_part(weights * residuals), up_to_part(weights)
    largest = max(
        float(
            variance_of_sums(
                residual_sums[:, start + 1 :] - residual_sums[:, [start]],
                weight[:, start + 1 :] - weight[:, [start]],
            ).max()
        )
        for start in range(N_PARTS)
    )
    return max(1.0, largest / variance)


@dataclass(frozen=True, eq=False)
class GroupSums:
    r"""Sums of residuals over steps of increasing scores within each group, tested by random signs of the groups.

    If predictions are calibrated, the sums :math:`S_g` of a group have expectation zero. Where they are also symmetric,
    :math:`\sum_g \pm S_g` with random signs has the same distribution as :math:`\sum_g S_g`, for groups of any size and
    any dependence of their rows (the wild cluster bootstrap with the hypothesis imposed :cite:`cameron2008`). So p-values are
    exact up to the skewness of the sums.

    Attributes
    ----------
    path : ndarray of shape (G, m)
        Cumulative sums of each group over the steps.
    """

    path: Matrix

    @classmethod
    def of(cls, groups: NDArray[np.intp], residuals: Vector, scores: Vector | None = None) -> Self:
        """Add up weighted residuals; more than 200 groups are joined to as many units, which are independent as well."""
        unit = groups % MOST_UNITS
        n_units, n_steps = int(unit.max()) + 1, 1 if scores is None else min(SIGN_STEPS, len(scores))
        step = np.zeros(len(residuals), dtype=np.intp)
        if scores is not None:
            step[np.argsort(scores, kind="stable")] = np.arange(len(scores)) * n_steps // len(scores)
        sums = np.bincount(unit * n_steps + step, residuals, n_units * n_steps).reshape(n_units, n_steps)
        return cls(sums.cumsum(axis=1).astype(np.float64, copy=False))

    @cached_property
    def _signed(self) -> Matrix:
        """Total path, observed and for each set of signs, (1 + R, m)."""
        signs = np.random.default_rng(SIGN_SEED).integers(0, 2, (1 + N_SIGNS, len(self.path))) * 2.0 - 1
        signs[0] = 1
        return np.asarray(signs @ self.path)

    @cached_property
    def range_p_value(self) -> float:
        """P-value of the largest absolute sum over any interval of scores."""
        return _share_at_least(
            np.maximum(self._signed.max(axis=1), 0) - np.minimum(self._signed.min(axis=1), 0)
        )

    @cached_property
    def total_p_value(self) -> float:
        """Two-sided p-value of the sum of all residuals."""
        return _share_at_least(np.abs(self._signed[:, -1]))


def _share_at_least(values: Vector) -> float:
    """Return the share of values that are at least the first one, up to rounding."""
    return float((values >= values[0] * (1 - 1e-9) - 1e-300).mean())


@dataclass(frozen=True, eq=False)
class EventCounts:
    r"""Observed and expected number of events, or of non-events where these are rarer.

    If the probabilities are right, the number of events is Poisson-binomial; the p-value is twice its smaller tail,

    .. math:: p = \min\bigl(1,\; 2 P(N \le k),\; 2 P(N \ge k)\bigr),

    exact, except that neighbouring probabilities are pooled if there are more than 500 distinct ones. For a variance above
    10,000 the first two terms of the Edgeworth expansion are used.

    Attributes
    ----------
    probability, count : ndarray of shape (c,)
        Distinct probabilities of the rarer outcome, and the number of rows with each.
    observed : int
        Number of rows with this outcome.
    of_event : bool
        Whether the event itself is counted, rather than its complement.
    """

    probability: Vector
    count: NDArray[np.intp]
    observed: int
    of_event: bool

    @classmethod
    def of(cls, probability: Vector, is_event: NDArray[np.bool_]) -> Self:
        """Count events, or non-events if the probabilities predict more events than non-events.

        >>> counts = EventCounts.of(np.full(1000, 0.006), np.arange(1000) < 12)
        >>> round(counts.expected, 6), counts.observed, round(counts.p_value, 4)
        (6.0, 12, 0.0395)
        """
        of_event = bool(probability.mean() <= 0.5)
        if not of_event:
            probability, is_event = 1 - probability, ~is_event
        cells = ScoreCells.of(probability, is_event, None, MOST_CELLS)
        return cls(cells.score, cells.count.sum(axis=1), int(is_event.sum()), of_event)

    def at_effective_size(self, times: float) -> Self:
        """Return the counts at the effective sample size of grouped rows: row counts divided by the design effect."""
        count = self.count if times == 1 else np.ceil(self.count / times).astype(np.intp)
        return type(self)(self.probability, count, self.observed, self.of_event)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.count.sum())

    @property
    def expected(self) -> float:
        """Sum of the probabilities."""
        return float(self.count @ self.probability)

    @property
    def rate(self) -> float:
        """Mean probability of the rarer outcome."""
        return self.expected / self.n_rows

    @property
    def is_rare(self) -> bool:
        """Whether the outcome is rare, so that its error is judged by a factor."""
        return self.rate <= RARE

    @cached_property
    def p_value(self) -> float:
        """Two-sided p-value of the observed number."""
        below, above = self._tails(np.array([self.observed]))
        return float(min(1.0, 2 * min(below[0], above[0])))

    def power(self, factor: float, alpha: float) -> float:
        """Return the power of the test at level ``alpha`` if events are ``factor`` times as frequent as predicted."""
        reach = int(12 * np.sqrt(max(factor, 1.0) * self.expected) + 20)
        numbers = np.arange(
            max(0, int(self.expected) - reach), int(max(factor, 1.0) * self.expected) + reach + 1
        )
        below, above = self._tails(numbers)
        rejected = 2 * np.minimum(below, above) <= alpha
        true = EventCounts(
            np.minimum(factor * self.probability, 1.0), self.count, self.observed, self.of_event
        )
        true_below, true_above = true._tails(numbers)
        low, high = rejected & (below < above), rejected & (below >= above)
        return float(true_below[low].max(initial=0.0) + true_above[high].max(initial=0.0))

    def detectable_factors(self, alpha: float) -> tuple[float | None, float | None]:
        """Return the factors by which probabilities must be too high, and too low, to be detected with a power of 80 %.

        None if no factor is large enough: too few events are expected for a detection even if none ever occurs.
        """
        return self._factor(alpha, too_high=True), self._factor(alpha, too_high=False)

    def _factor(self, alpha: float, *, too_high: bool) -> float | None:
        def is_detected(factor: float) -> bool:
            return self.power(1 / factor if too_high else factor, alpha) >= POWER

        largest = LARGEST_FACTOR if too_high else min(LARGEST_FACTOR, 1 / max(self.rate, 1 / LARGEST_FACTOR))
        if self.expected == 0 or not is_detected(largest):
            return None
        low, high = 1.0, largest
        while high / low > 1.01:
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if is_detected(middle) else (middle, high)
        return high

    def _tails(self, numbers: NDArray[np.intp]) -> tuple[Vector, Vector]:
        """Return the lower and upper tail probabilities of each given number of events."""
        variances = self.count * self.probability * (1 - self.probability)
        variance = float(variances.sum())
        if variance > ENOUGH_VARIANCE:
            skewness = float(variances @ (1 - 2 * self.probability)) / variance**1.5

            def tail(sign: int) -> Vector:
                x = sign * (numbers + 0.5 * sign - self.expected) / np.sqrt(variance)
                density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
                share: Vector = ndtr(x) + sign * skewness * (1 - x * x) / 6 * density
                return np.clip(share, SMALLEST, 1.0)

            return tail(1), tail(-1)
        first, mass = poisson_binomial(self.probability, self.count)
        up_to = np.concatenate([[0.0], np.cumsum(mass)])
        from_on = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
        below = up_to[np.clip(numbers - first + 1, 0, len(mass))]
        above = from_on[np.clip(numbers - first, 0, len(mass))]
        return np.clip(below, SMALLEST, 1.0), np.clip(above, SMALLEST, 1.0)


def events_for_factor(factor: float, alpha: float) -> int:
    """Return the expected number of rare events needed to detect probabilities that are too high by ``factor``.

    >>> events_for_factor(2.0, 0.05)
    28
    """
    expected = np.arange(1, MOST_EVENTS)
    numbers = np.arange(expected[-1])
    # The critical value, the largest significantly small count, for each expectation; -1 if there is none.
    critical = (2 * pdtr(numbers, expected[:, np.newaxis]) <= alpha).sum(axis=1) - 1
    power = np.where(critical >= 0, pdtr(np.maximum(critical, 0), expected / factor), 0.0)
    enough = np.minimum.accumulate((power >= POWER)[::-1])[::-1]
    return int(expected[np.argmax(enough)])
