"""The p-value of one event: cumulative, exact for rare events, and honest about groups."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri, stdtr
from scipy.stats import binom

from calibrant.hypothesis_tests.cumulative import PathNoise
from calibrant.metrics.utility import Prospect, Utility
from calibrant.numerics.cumulative import RANGE, ScoreGroups
from calibrant.report.event_counts import EventCounts
from calibrant.report.rows import Rows

__all__ = ["ENOUGH_SURPRISES", "EventEvidence", "event_evidence", "rare_detectable"]

# Sum of the variances p (1 - p): about the number of surprises that are expected. Below it limits of many rows are rough.
ENOUGH_SURPRISES = 10.0

# Parts of the rows, by their scores, of which intervals are made where groups are judged.
N_PARTS = 8

KUIPER = "In no interval of scores should events and probabilities differ by more than noise"


@dataclass(frozen=True)
class EventEvidence:
    """What the rows say about one event.

    Attributes
    ----------
    statistic : float
        Kuiper's: the largest sum of residuals over any interval of scores, as a share of all rows.
    p_value : float
    surprises : float
        Sum of the variances of the event over the rows.
    design_effect : float
        How many times larger groups make the variance of sums of residuals.
    how : str
        What was tested and where the p-value comes from, as a sentence.
    counts : EventCounts
        Observed and expected number of events, in rows whatever their weights.
    is_exact : bool
        Whether counts were judged by exact tests, since few surprises are expected.
    is_grouped : bool
        Whether rows depend on each other, so that their numbers of events have no known distribution.
    """

    statistic: float
    p_value: float
    surprises: float
    design_effect: float
    how: str
    counts: EventCounts
    is_exact: bool = False
    is_grouped: bool = False

    @property
    def counts_apart(self) -> bool:
        """Whether the number of events is a further test: of rare ones, independent and not judged already."""
        return self.counts.is_rare and not self.is_exact and not self.is_grouped

    @property
    def p_value_of_both(self) -> float:
        """P-value of the cumulative test and of the number of events, by Bonferroni where both are used."""
        return min(1.0, 2 * min(self.p_value, self.counts.p_value)) if self.counts_apart else self.p_value


def event_evidence(rows: Rows, utility: Utility) -> EventEvidence:
    """Test whether an event happens as often as its probability says.

    By the cumulative test with Kuiper's statistic. Where fewer than ten surprises are expected its limit of many rows is
    rough, and the numbers of events and of surprises are judged instead, see :class:`EventCounts`. Where rows belong to
    groups, the standard deviation is multiplied by the root of the design effect, the largest over intervals of scores,
    and the number of groups less one is the degrees of freedom.
    """
    data = rows.data
    prospect = utility.prospect(data.predictions)
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    variance = float(weights**2 @ prospect.variance)
    surprises = variance / float(weights.max()) ** 2
    scores = ScoreGroups.of(prospect.expected, prospect.tolerance)
    residuals = prospect.realised(data.labels) - prospect.expected
    statistic = RANGE.measure(scores.path(residuals, rows.weights))
    probability = np.clip(prospect.expected, 0.0, 1.0)
    happened = np.asarray(prospect.realised(data.labels)) > 0
    counts = EventCounts.of(probability, happened)
    if rows.groups is not None:
        effect, n_groups = _design_effect(rows, prospect, weights, variance)
        p_value = _grouped_p_value(statistic, sqrt(variance) / float(weights.sum()), effect, n_groups)
        how = f"{KUIPER}; rows of one of {n_groups} groups depend on each other, design effect {effect:.3g}."
        return EventEvidence(statistic, p_value, surprises, effect, how, counts, is_grouped=True)
    if surprises >= ENOUGH_SURPRISES:
        noise = PathNoise.of(prospect, scores, rows.weights, RANGE, continuity_correction=True)
        p_value = noise.p_value(statistic, prospect.tolerance)
        return EventEvidence(statistic, p_value, surprises, 1.0, f"{KUIPER}; limit of many rows.", counts)
    return EventEvidence(
        statistic,
        _rare_p_value(counts, probability, happened),
        surprises,
        1.0,
        "Events, and surprises, should be as many as the probabilities promise; exact Poisson-binomial tails, since few "
        "surprises are expected.",
        counts,
        is_exact=True,
    )


def _rare_p_value(
    counts: EventCounts, probability: NDArray[np.float64], happened: NDArray[np.bool_]
) -> float:
    """Return a p-value from two counts: how often the event happened, and how often what was less probable did."""
    likely = probability >= 0.5
    if likely.all() or not likely.any():  # the surprises are the rarer outcome
        return counts.p_value
    surprises = EventCounts.of(np.where(likely, 1 - probability, probability), happened != likely)
    return min(1.0, 2 * min(counts.p_value, surprises.p_value))


def rare_detectable(probability: NDArray[np.float64], alpha: float, power: float = 0.8) -> float:
    """Return the smallest error, in surprises as a share of all rows, that the bound of their number shows with this power.

    With 0.1 surprises expected, two are significant, and 2.99 bring two or more with a probability of 80 %:

    >>> round(rare_detectable(np.full(100, 0.999), 0.05), 3)
    0.029
    """
    n_rows = len(probability)
    mean = float(np.minimum(probability, 1 - probability).mean())
    # Half of the level for either of the two bounds, and half of it for either side.
    needed = int(binom.isf(alpha / 4, n_rows, mean)) + 1
    return max(0.0, float(gammaincinv(needed, power)) / n_rows - mean)


def _design_effect(
    rows: Rows, prospect: Prospect, weights: NDArray[np.float64], variance: float
) -> tuple[float, int]:
    """Return how many times the variance of independent rows a sum of residuals has between groups, at least one.

    The largest over intervals of scores that hold whole eighths of the rows: groups that err in opposite ways at low and
    at high scores may agree on the whole.
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
        return 1.0  # nothing is known of how groups differ
    x = statistic / (deviation * sqrt(effect))
    # The normal quantile of the same tail as Student's.
    tail = float(stdtr(n_groups - 1, -x))
    return RANGE.tail(-float(ndtri(tail)) if tail > 0 else 40.0)
