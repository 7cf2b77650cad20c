"""NoiseSums: sums per bin from which debiased calibration errors are computed."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from calibrant.arrays import Float64Array, IntArray
from calibrant.binning import Partition

__all__ = ["Correction", "NoiseSums"]

Correction = Literal["variance", "pairs", "tcal"]

# With an effective sample size below one plus this, the variance in a bin is unknown: it has one row, or the weights of
# the others are lost in rounding.
EFFECTIVE_ROWS_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class NoiseSums:
    """Sums over the rows of each bin, of shape (B,) or (E, B) for several events; sums over disjoint sets of rows add up.

    Attributes
    ----------
    weight, square_weight : ndarray
        Sums of weights and of their squares.
    residual, square_residual : ndarray
        Sums of w r and of its square, with r the outcome minus the score.
    outcome : ndarray
        Sum of w o, with o the outcome.
    """

    weight: Float64Array
    square_weight: Float64Array
    residual: Float64Array
    square_residual: Float64Array
    outcome: Float64Array

    @classmethod
    def of(
        cls,
        partition: Partition,
        scores: NDArray[np.floating],
        outcomes: NDArray[np.bool_],
        weights: Float64Array | None,
    ) -> Self:
        """Add up the rows of one event, in O(n)."""
        return cls(*(each[0] for each in cls.of_parts(partition, scores, outcomes, weights)))

    @classmethod
    def of_parts(
        cls,
        partition: Partition,
        scores: NDArray[np.floating],
        outcomes: NDArray[np.bool_],
        weights: Float64Array | None,
        part: IntArray | None = None,
        n_parts: int = 1,
    ) -> tuple[Float64Array, ...]:
        """Add up the rows of one event for every part, (n_parts, B) each; ``part`` is that of every row."""
        index, n_bins = partition.index(scores), len(partition.bin_edges()) - 1
        if part is not None:
            index = index + n_bins * part

        def sums(values: Float64Array) -> Float64Array:
            found = np.bincount(index, values, n_parts * n_bins)
            return found.reshape(n_parts, n_bins).astype(np.float64, copy=False)

        residuals: Float64Array = np.subtract(outcomes, scores, dtype=np.float64)
        if weights is None:
            weights = np.ones(len(index))
        return (
            sums(weights),
            sums(weights * weights),
            sums(weights * residuals),
            sums(np.square(weights * residuals)),
            sums(weights * outcomes),
        )

    @classmethod
    def stacked(cls, parts: Sequence[Self]) -> Self:
        """Stack the sums of several events with the same number of bins."""
        return cls(*(np.stack([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def square_error(self, correction: Correction) -> Float64Array:
        """Return the mean squared gap minus its noise bias, for each event."""
        all_pairs = self.weight * self.weight
        pairs = all_pairs - self.square_weight  # weight of all pairs of two different rows
        if correction == "variance":
            # The effective sample size minus one is pairs / self.square_weight.
            gap = _ratio(self.residual, self.weight)
            squares = gap * gap - _ratio(self._outcome_spread * self.square_weight, pairs)
        else:
            divisor = pairs if correction == "pairs" else all_pairs
            squares = _ratio(self.residual * self.residual - self.square_residual, divisor)
        return self._mean(squares)

    def absolute_error(self) -> Float64Array:
        """Return twice the mean absolute gap minus its expectation under redrawn noise, for each event."""
        gap = _ratio(np.abs(self.residual), self.weight)
        deviation = _ratio(np.sqrt(self._outcome_spread * self.square_weight), self.weight)
        # A bin without variance keeps its gap.
        ratio = np.divide(gap, deviation, out=np.full_like(gap, np.inf), where=deviation > 0)
        folded = np.sqrt(2 / np.pi) * deviation * np.exp(-ratio * ratio / 2) + gap * erf(ratio / np.sqrt(2))
        return self._mean(2 * gap - folded)

    @property
    def _outcome_spread(self) -> Float64Array:
        """Variance of one outcome if all rows of a bin have the same probability."""
        mean = _ratio(self.outcome, self.weight)
        return np.maximum(mean * (1 - mean), 0.0)

    def _mean(self, values: Float64Array) -> Float64Array:
        """Return the weighted mean over bins; bins with one row, whose variance is unknown, count as zero."""
        several = self.weight * self.weight > (1 + EFFECTIVE_ROWS_TOLERANCE) * self.square_weight
        total = np.where(several, self.weight * values, 0.0).sum(axis=-1)
        means: Float64Array = total / self.weight.sum(axis=-1)
        return means


def _ratio(numerator: Float64Array, denominator: Float64Array) -> Float64Array:
    """Return the quotient, or zero where the denominator is zero."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
