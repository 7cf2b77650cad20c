"""Observed and expected number of events: an exact test, and the smallest factor that it detects."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, pdtr

from calibrant.arrays import Vector
from calibrant.plots.reliability.consistency_limits import ScoreCells, poisson_binomial

__all__ = ["POWER", "RARE", "EventCounts", "events_for_factor"]

RARE = 0.1
"""Events of at most this mean probability are rare: their error is judged by a factor, not by percentage points."""

POWER = 0.8
"""Power with which an error is to be detected."""

# Number of distinct probabilities in the exact test, and the variance above which an Edgeworth expansion replaces it.
MOST_CELLS, ENOUGH_VARIANCE = 500, 10_000.0

# Rounding error of the transform; smaller tails are unknown.
SMALLEST = 1e-14

LARGEST_FACTOR, MOST_EVENTS = 1000.0, 400


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
    def of(cls, probability: Vector, happened: NDArray[np.bool_]) -> Self:
        """Count events, or non-events if the probabilities predict more events than non-events.

        >>> counts = EventCounts.of(np.full(1000, 0.006), np.arange(1000) < 12)
        >>> round(counts.expected, 6), counts.observed, round(counts.p_value, 4)
        (6.0, 12, 0.0395)
        """
        of_event = bool(probability.mean() <= 0.5)
        if not of_event:
            probability, happened = 1 - probability, ~happened
        cells = ScoreCells.of(probability, happened, None, MOST_CELLS)
        return cls(cells.score, cells.count.sum(axis=1), int(happened.sum()), of_event)

    def fewer(self, times: float) -> Self:
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
        def is_seen(factor: float) -> bool:
            return self.power(1 / factor if too_high else factor, alpha) >= POWER

        largest = LARGEST_FACTOR if too_high else min(LARGEST_FACTOR, 1 / max(self.rate, 1 / LARGEST_FACTOR))
        if self.expected == 0 or not is_seen(largest):
            return None
        low, high = 1.0, largest
        while high / low > 1.01:
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if is_seen(middle) else (middle, high)
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
    # The largest significantly small count for each expectation; -1 where there is none.
    critical = (2 * pdtr(numbers, expected[:, np.newaxis]) <= alpha).sum(axis=1) - 1
    power = np.where(critical >= 0, pdtr(np.maximum(critical, 0), expected / factor), 0.0)
    enough = np.minimum.accumulate((power >= POWER)[::-1])[::-1]
    return int(expected[np.argmax(enough)])
