"""Calibration test of one event: cumulative test, exact test for few events, design effect for groups."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri, stdtr
from scipy.stats import binom

from calibrant.hypothesis_tests.cumulative import NullDistribution
from calibrant.metrics.utility import Prospect, Utility
from calibrant.numerics.cumulative import RANGE, ScoreGroups
from calibrant.report.event_counts import EventCounts
from calibrant.report.rows import Rows

__all__ = ["SMALLEST_VARIANCE", "EventEvidence", "event_evidence", "rare_detectable"]

# Sum of the variances p (1 - p), about the expected number of less probable outcomes. Below it asymptotic tests are rough.
SMALLEST_VARIANCE = 10.0

# Quantile groups of the scores whose unions are the score intervals for the design effect.
N_PARTS = 8

KUIPER = "Largest absolute sum of residuals over any interval of scores"


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
    how : str
        Statistic and null distribution, as a sentence.
    counts : EventCounts
        Observed and expected number of events, in unweighted rows.
    is_exact : bool
        Whether the p-value comes from exact tests of counts, since ``total_variance`` is small.
    is_grouped : bool
        Whether rows are dependent, so that the number of events has no known distribution.
    """

    statistic: float
    p_value: float
    total_variance: float
    design_effect: float
    how: str
    counts: EventCounts
    is_exact: bool = False
    is_grouped: bool = False

    @property
    def tests_counts(self) -> bool:
        """Whether the number of events is a separate test: events are rare, independent and not already tested exactly."""
        return self.counts.is_rare and not self.is_exact and not self.is_grouped

    @property
    def p_value_of_both(self) -> float:
        """P-value of the cumulative test and of the number of events, with Bonferroni correction if both are used."""
        return min(1.0, 2 * min(self.p_value, self.counts.p_value)) if self.tests_counts else self.p_value


def event_evidence(rows: Rows, utility: Utility) -> EventEvidence:
    """Test the calibration of the probability of one event.

    The test is the cumulative test with Kuiper's statistic. If the sum of p (1 - p) is below ten, its asymptotic distribution
    is rough; then exact tests of the numbers of events and of less probable outcomes replace it, see :class:`EventCounts`.
    With groups, the standard deviation is multiplied by the square root of the design effect (the largest one over intervals
    of scores), and the degrees of freedom are the number of groups minus one.
    """
    data = rows.data
    prospect = utility.prospect(data.predictions)
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    variance = float(weights**2 @ prospect.variance)
    total_variance = variance / float(weights.max()) ** 2
    scores = ScoreGroups.of(prospect.expected, prospect.tolerance)
    residuals = prospect.realised(data.labels) - prospect.expected
    statistic = RANGE.measure(scores.path(residuals, rows.weights))
    probability = np.clip(prospect.expected, 0.0, 1.0)
    happened = np.asarray(prospect.realised(data.labels)) > 0
    counts = EventCounts.of(probability, happened)
    if rows.groups is not None:
        effect, n_groups = _design_effect(rows, prospect, weights, variance)
        p_value = _grouped_p_value(statistic, sqrt(variance) / float(weights.sum()), effect, n_groups)
        how = f"{KUIPER}; variance between {n_groups} groups, design effect {effect:.3g}."
        return EventEvidence(statistic, p_value, total_variance, effect, how, counts, is_grouped=True)
    if total_variance >= SMALLEST_VARIANCE:
        noise = NullDistribution.of(prospect, scores, rows.weights, RANGE, continuity_correction=True)
        p_value = noise.p_value(statistic, prospect.tolerance)
        return EventEvidence(
            statistic, p_value, total_variance, 1.0, f"{KUIPER}; asymptotic p-value.", counts
        )
    return EventEvidence(
        statistic,
        _rare_p_value(counts, probability, happened),
        total_variance,
        1.0,
        "Numbers of events and of less probable outcomes; exact Poisson-binomial tails, since few of the latter are expected.",
        counts,
        is_exact=True,
    )


def _rare_p_value(
    counts: EventCounts, probability: NDArray[np.float64], happened: NDArray[np.bool_]
) -> float:
    """Return a p-value from two counts: of events, and of rows with the less probable outcome."""
    likely = probability >= 0.5
    if likely.all() or not likely.any():  # both counts are the same
        return counts.p_value
    unlikely = EventCounts.of(np.where(likely, 1 - probability, probability), happened != likely)
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


def _design_effect(
    rows: Rows, prospect: Prospect, weights: NDArray[np.float64], variance: float
) -> tuple[float, int]:
    """Return the design effect: variance of sums of residuals between groups over that of independent rows, at least one.

    This is the largest one over intervals of scores made of octiles: groups whose errors have opposite signs at low and at
    high scores may agree in total.
    """
    assert rows.groups is not None
    n_groups = int(rows.groups.max()) + 1
    if n_groups < 2 or variance == 0:
        return 1.0, n_groups
    residuals = prospect.realised(rows.data.labels) - prospect.expected
    place = np.empty(rows.n_rows, dtype=np.intp)
    place[np.argsort(prospect.expected, kind="stable")] = np.arange(rows.n_rows) * N_PARTS // rows.n_rows
    cells = rows.groups * N_PARTS + place
    own = np.bincount(cells, weights * residuals, n_groups * N_PARTS).reshape(n_groups, N_PARTS)
    weight = np.bincount(cells, weights, n_groups * N_PARTS).reshape(n_groups, N_PARTS)
    zero = np.zeros((n_groups, 1))
    own, weight = (np.concatenate([zero, part.cumsum(axis=1)], axis=1) for part in (own, weight))
    largest = 0.0
    for start in range(N_PARTS):
        sums, weights_of = own[:, start + 1 :] - own[:, [start]], weight[:, start + 1 :] - weight[:, [start]]
        total = weights_of.sum(axis=0)
        centred = sums - weights_of * np.divide(
            sums.sum(axis=0), total, where=total > 0, out=np.zeros_like(total)
        )
        largest = max(largest, float((centred**2).sum(axis=0).max()))
    return max(1.0, n_groups / (n_groups - 1) * largest / variance), n_groups


def _grouped_p_value(statistic: float, deviation: float, effect: float, n_groups: int) -> float:
    if n_groups < 2 or deviation == 0:
        return 1.0  # the variance between groups is unknown
    x = statistic / (deviation * sqrt(effect))
    # The normal quantile with the tail probability of Student's t.
    tail = float(stdtr(n_groups - 1, -x))
    return RANGE.tail(-float(ndtri(tail)) if tail > 0 else 40.0)
