"""Consistency limits: range of the mean outcome of a bin for calibrated scores."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from calibrant.arrays import FloatArray, IntArray, Vector

__all__: list[str] = []


@dataclass(frozen=True, eq=False)
class ScoreCells:
    r"""Rows in the order of their scores, pooled if there are many distinct scores.

    A cell contains all rows with one score. If there are more distinct scores than cells, neighbours are pooled into cells
    with about the same number of rows and treated as if all had the mean score. With a thousand cells the error is invisible
    in a plot.
    """

    score: Vector  # (c,) mean score, increasing
    count: IntArray  # (c, 2) rows without and with the event
    weight: Vector  # (c, 2) their weights
    effective: IntArray  # (c,) effective sample size, rounded to an integer of at least 1

    @classmethod
    def of(cls, scores: FloatArray, outcomes: NDArray[np.bool_], weights: Vector | None, most: int) -> Self:
        """Sort the rows and aggregate them in at most ``most`` cells; O(n log n).

        >>> cells = ScoreCells.of(np.array([0.3, 0.1, 0.3]), np.array([True, False, False]), None, most=10)
        >>> cells.score, cells.count.tolist()
        (array([0.1, 0.3]), [[1, 0], [1, 1]])
        """
        order = np.argsort(scores, kind="stable")
        # A float32 probability of 1.0000001 counts as one.
        ordered = np.clip(scores[order].astype(np.float64), 0.0, 1.0)
        is_new = np.concatenate([[True], ordered[1:] > ordered[:-1]])
        cell = np.cumsum(is_new) - 1
        if cell[-1] >= most:
            # Rows with the same score stay together, in the cell of the first of them.
            firsts = np.flatnonzero(is_new)
            _, cell = np.unique((firsts * most // len(ordered))[cell], return_inverse=True)
        n_cells = int(cell[-1]) + 1
        side = 2 * cell + outcomes[order]

        def sums(index: IntArray, values: Any, n_sums: int) -> Vector:
            return np.bincount(index, values, n_sums).astype(np.float64)

        ordered_weights = None if weights is None else weights[order]
        weight = sums(side, ordered_weights, 2 * n_cells).reshape(-1, 2)
        total = weight.sum(axis=1)
        if ordered_weights is None:
            score, effective = sums(cell, ordered, n_cells), total
        else:
            score = sums(cell, ordered_weights * ordered, n_cells)
            effective = total**2 / sums(cell, ordered_weights**2, n_cells)
        return cls(
            np.clip(score / total, 0.0, 1.0),
            np.bincount(side, minlength=2 * n_cells).reshape(-1, 2),
            weight,
            np.maximum(np.rint(effective), 1).astype(np.intp),
        )

    @property
    def total_weight(self) -> Vector:
        """Weight of each cell, (c,)."""
        total: Vector = self.weight.sum(axis=1)
        return total

    def simulated_outcomes(self, n_draws: int, generator: np.random.Generator) -> Vector:
        """Return mean outcomes of the cells, (n_draws, c), simulated under calibration."""
        return generator.binomial(self.effective, self.score, (n_draws, len(self.score))) / self.effective

    def bootstrap_resamples(self, n_draws: int, generator: np.random.Generator) -> tuple[Vector, Vector]:
        """Return weights and outcome sums of the cells, (n_draws, c) each, for bootstrap resamples of the rows."""
        counts = self.count.ravel()
        n_rows = int(counts.sum())
        drawn = generator.multinomial(n_rows, counts / n_rows, n_draws).reshape(n_draws, -1, 2)
        of_one = np.divide(self.weight, self.count, out=np.zeros_like(self.weight), where=self.count > 0)
        weight = of_one * drawn.astype(np.float64)
        return weight.sum(axis=2), weight[:, :, 1]


# Above this variance, relative to the square of its largest term, a sum is practically normal.
MIN_NORMAL_VARIANCE = 100.0

# Number of distinct scores per bin.
MAX_CELLS = 200

N_DRAWS = 2000


def consistency_limits(
    index: IntArray,
    n_bins: int,
    scores: FloatArray,
    weights: Vector | None,
    level: float,
    generator: np.random.Generator,
) -> tuple[Vector, Vector]:
    r"""Return limits that contain the mean outcome of a bin with a probability of at least ``level`` under calibration.

    If the scores :math:`s_i` are the true probabilities, the number of events in a bin has a Poisson-binomial distribution.
    The limits are its exact quantiles, or those of the normal distribution with the same mean and variance if the variance
    exceeds 100; these are the consistency bars of :cite:`broecker2007`. With unequal weights they are quantiles of 2,000
    simulations. ``index`` is the bin of every row; limits are NaN for an empty bin. The cost is O(n), and about a millisecond
    per bin.
    """
    # 16-bit integers are sorted by radix sort, ten times as fast.
    numbers = index.astype(np.uint16) if n_bins < 2**16 else index
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(n_bins + 1))
    low, high = np.full(n_bins, np.nan), np.full(n_bins, np.nan)
    for number, (start, end) in enumerate(pairwise(starts)):
        if end > start:
            rows = order[start:end]
            own = np.clip(scores[rows].astype(np.float64), 0.0, 1.0)
            own_weights = None if weights is None else weights[rows]
            low[number], high[number] = _limits(own, own_weights, (1 - level) / 2, generator)
    return low, high


def _limits(
    scores: Vector, weights: Vector | None, tail: float, generator: np.random.Generator
) -> tuple[float, float]:
    """Return the limits of one bin with at least one row."""
    equal = weights is None or weights.min() == weights.max()
    shares = np.full(len(scores), 1 / len(scores)) if equal or weights is None else weights / weights.sum()
    mean = float(shares @ scores)
    variance = float(shares**2 @ (scores * (1 - scores)))
    if variance >= MIN_NORMAL_VARIANCE * float(shares.max()) ** 2:
        reach = -float(ndtri(tail)) * np.sqrt(variance)
        return max(mean - reach, 0.0), min(mean + reach, 1.0)
    cells = ScoreCells.of(
        scores, np.zeros(len(scores), dtype=np.bool_), None if equal else weights, MAX_CELLS
    )
    if equal:
        first, probability = poisson_binomial(cells.score, cells.count[:, 0])
        below = np.cumsum(probability)
        # Rounding errors of the sums must not shift a quantile by one.
        low, high = np.searchsorted(below, [tail + 1e-12, 1 - tail - 1e-12])
        last = len(below) - 1
        return (first + min(low, last)) / len(scores), (first + min(high, last)) / len(scores)
    total = cells.total_weight
    means = cells.simulated_outcomes(N_DRAWS, generator) @ (total / total.sum())
    low, high = np.quantile(means, [tail, 1 - tail], method="inverted_cdf")
    return float(low), float(high)


def poisson_binomial(probability: Vector, count: IntArray) -> tuple[int, Vector]:
    r"""Return the distribution of the number of successes in independent trials of different probabilities.

    It is the discrete Fourier transform of the characteristic function :math:`\prod_g (1 - p_g + p_g e^{it})^{n_g}`, on a
    window around the mean outside of which probabilities are below the rounding error. The result is the smallest number in the
    window, and the probabilities of this and the following numbers, (L,); O(gL) with L of the order of the standard deviation.

    >>> first, mass = poisson_binomial(np.array([0.5, 1.0]), np.array([2, 1]))
    >>> first, mass.round(6)
    (0, array([0.  , 0.25, 0.5 , 0.25]))
    """
    n_trials = int(count.sum())
    mean, variance = float(count @ probability), float(count @ (probability * (1 - probability)))
    reach = int(np.ceil(12 + 9 * np.sqrt(variance)))
    first = max(0, int(mean) - reach)
    length = min(n_trials, int(mean) + reach + 1) - first + 1
    half_angle = np.pi * np.arange(length // 2 + 1) / length
    p = probability[:, np.newaxis]
    with np.errstate(divide="ignore"):
        modulus = 0.5 * np.log1p(np.maximum(-4 * p * (1 - p) * np.sin(half_angle) ** 2, -1.0))
    angle = np.arctan2(p * np.sin(2 * half_angle), 1 - 2 * p * np.sin(half_angle) ** 2)
    transform = np.exp(count @ modulus) * np.exp(-1j * (count @ angle - 2 * half_angle * first))
    return first, np.maximum(np.fft.irfft(transform, length), 0.0)
