"""Why an interval would not keep its level: few effective groups, rows of a class, or unlikely outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrant.arrays import IntArray, Vector
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import confidences
from calibrant.metrics.row_losses import Loss, LossesOf, prepared_losses
from calibrant.numerics.cluster_variance import effective_number
from calibrant.predictions import Predictions
from calibrant.presentation.sentences import counted

__all__ = [
    "ENOUGH_MISTAKES",
    "FEWEST_OUTCOMES",
    "NEARLY_EQUAL",
    "OutcomeSums",
    "few_outcomes",
    "few_rows_of_a_class",
    "few_units",
    "masses",
    "rare_rows",
    "why_no_mean_loss",
]

# Below these numbers there is no interval.
FEWEST_EVENTS = 5
FEWEST_OUTCOMES = 5.0
FEWEST_UNITS = 5.0

# Share of the units above which their effective number counts as their number.
NEARLY_EQUAL = 0.9

# Share of the rows below which a class is rare, and rows from which on that is looked at.
RARE, MIN_ROWS = 0.1, 20

# With this many mistakes, and twice as many as predicted, predictions do not tell how rare they are.
ENOUGH_MISTAKES = 10

# Numbers of a sample of rows from which the skewness is computed.
SAMPLED_NUMBERS = 200_000


def rare_rows(data: LabelledPredictions) -> int | None:
    """Return the number of rows of the rarer of two classes if it is rare."""
    if data.n_classes != 2 or data.n_rows < MIN_ROWS:
        return None
    fewest = int(np.bincount(data.labels, minlength=2).min())
    return fewest if fewest < RARE * data.n_rows else None


def few_rows_of_a_class(data: LabelledPredictions) -> str | None:
    """Return a reason if the rarer of two classes is rare and has fewer than five rows."""
    number = rare_rows(data)
    if number is None or number >= FEWEST_EVENTS:
        return None
    return f"there {'is' if number == 1 else 'are'} only {counted(number, 'row')} of the rarer class, fewer than {FEWEST_EVENTS}"


def masses(data: LabelledPredictions, groups: IntArray | None) -> Vector:
    """Return the weights of the units, which are rows or groups."""
    if groups is not None:
        return np.bincount(groups, data.weights).astype(np.float64, copy=False)
    return np.ones(data.n_rows) if data.weights is None else data.weights


def few_units(weights: Vector, unit: str) -> str | None:
    """Return a reason if the variance between units of unequal weight rests on effectively fewer than five of them.

    Their squared weights count, since these are the weights in the variance of a mean.

    >>> few_units(np.array([20.0, 1.0, 1.0, 1.0]), "group")
    'the variance rests on effectively 1.02 groups, fewer than 5'
    """
    if len(weights) == 1:
        return f"there is only one {unit}"
    number = effective_number(weights**2)
    if number >= min(FEWEST_UNITS, NEARLY_EQUAL * len(weights)):
        return None
    return f"the variance rests on effectively {number:.3g} {unit}s, fewer than {FEWEST_UNITS:g}"


def few_outcomes(
    data: LabelledPredictions,
    candidates: Sequence[Predictions],
    value_of: LossesOf,
    fewest: float = FEWEST_OUTCOMES,
) -> str | None:
    r"""Return a reason if the mean of a row's value is skewed by unlikely outcomes, which may not have occurred.

    If labels follow probabilities p, the mean of the values :math:`d_i(y_i)` has the skewness :math:`N^{-1/2}` with

    .. math:: N = \frac{(\sum_i w_i^2 V_i)^3}{(\sum_i w_i^3 M_i)^2},

    from the variance V and third central moment M of each row. For one rare event of equal weights and values N is the
    expected number of events. If it is small, the spread of the rows at hand does not show that of the mean; unless the rows
    have many more mistakes than predicted, so that the predictions do not tell how rare they are. ``candidates`` are the
    predictions that may be right; the largest N counts.
    """
    largest = max(_effective_outcomes(data, one, value_of) for one in candidates)
    if largest >= fewest or all(_has_many_mistakes(data, one) for one in candidates):
        return None
    return (
        f"effectively only {largest:.2g} of the less probable outcomes are expected, fewer than {fewest:g}, so the "
        "size of losses that did not occur is unknown"
    )


def _has_many_mistakes(data: LabelledPredictions, predictions: Predictions) -> bool:
    mistakes = int(np.count_nonzero(predictions.predicted != data.labels))
    expected = float((1 - confidences(predictions).astype(np.float64)).sum())
    return mistakes >= max(ENOUGH_MISTAKES, 2 * expected)


def why_no_mean_loss(data: LabelledPredictions, loss: Loss) -> str | None:
    """Return why an interval of the mean loss would not keep its level; None if it does."""
    reason = few_rows_of_a_class(data) or few_outcomes(
        data, [data.predictions], prepared_losses(data.predictions, loss)
    )
    return None if reason is None else f"no interval, since {reason}"


def _effective_outcomes(data: LabelledPredictions, predictions: Predictions, value_of: LossesOf) -> float:
    step = -(-data.n_rows * data.n_classes // SAMPLED_NUMBERS)
    rows = np.arange(0, data.n_rows, step)
    p = predictions.take(rows).probabilities.astype(np.float64)
    values = np.column_stack(
        [value_of(np.full(data.n_rows, k, dtype=np.intp))[rows] for k in range(data.n_classes)]
    )
    values[(p == 0) | ~np.isfinite(values)] = 0.0
    deviations = values - np.einsum("ik,ik->i", p, values)[:, np.newaxis]
    w = np.ones(len(rows)) if data.weights is None else data.weights[rows] / data.weights.max()
    variance = float(w**2 @ np.einsum("ik,ik->i", p, deviations**2))
    third = float(w**3 @ np.einsum("ik,ik->i", p, deviations**3))
    if variance == 0 or third == 0:
        return np.inf
    with np.errstate(over="ignore"):  # a ratio that overflows belongs to many outcomes
        return float(step * variance * np.square(np.float64(variance) / third))


@dataclass(frozen=True, eq=False)
class OutcomeSums:
    """Sums over rows that tell, as the functions above do, whether their mean losses have an interval; sums of batches add up.

    Attributes
    ----------
    counts : ndarray of shape (K,)
        Rows of each class.
    variance, third : float
        Sums over rows of the weighted variance and third central moment of the halved Brier loss.
    mistakes, expected : float
        Observed and expected number of misclassified rows.
    squares, fourth : float
        Sums of the second and fourth powers of the weights.
    """

    counts: IntArray
    variance: float
    third: float
    mistakes: int
    expected: float
    squares: float
    fourth: float

    @classmethod
    def of(cls, data: LabelledPredictions) -> Self:
        """Add up rows; moments are from an evenly spaced sample of many rows."""
        step = -(-data.n_rows * data.n_classes // SAMPLED_NUMBERS)
        rows = np.arange(0, data.n_rows, step)
        p = data.predictions.take(rows).probabilities.astype(np.float64)
        w = np.ones(data.n_rows) if data.weights is None else data.weights
        deviations = p - np.einsum("ik,ik->i", p, p)[:, np.newaxis]
        return cls(
            np.bincount(data.labels, minlength=data.n_classes),
            step * float(w[rows] ** 2 @ np.einsum("ik,ik->i", p, deviations**2)),
            -step * float(w[rows] ** 3 @ np.einsum("ik,ik->i", p, deviations**3)),
            int(np.count_nonzero(data.predictions.predicted != data.labels)),
            step * float((1 - p.max(axis=1)).sum()),
            float(w @ w),
            float((w**2) @ (w**2)),
        )

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.counts + other.counts,
            self.variance + other.variance,
            self.third + other.third,
            self.mistakes + other.mistakes,
            self.expected + other.expected,
            self.squares + other.squares,
            self.fourth + other.fourth,
        )

    @property
    def n_rare(self) -> int | None:
        """Number of rows of the rarer of two classes if it is rare."""
        n_rows, fewest = int(self.counts.sum()), int(self.counts.min())
        is_rare = len(self.counts) == 2 and n_rows >= MIN_ROWS and fewest < RARE * n_rows
        return fewest if is_rare else None

    @property
    def why_none(self) -> str | None:
        """Return why an interval would not keep its level; None if it does."""
        n_units, n_rows = self.squares**2 / self.fourth, int(self.counts.sum())
        if n_units < min(FEWEST_UNITS, NEARLY_EQUAL * n_rows):
            return f"the variance rests on effectively {n_units:.3g} rows, fewer than {FEWEST_UNITS:g}"
        if self.n_rare is not None and self.n_rare < FEWEST_EVENTS:
            return (
                f"there are only {counted(self.n_rare, 'row')} of the rarer class, fewer than {FEWEST_EVENTS}"
            )
        number = self.variance**3 / self.third**2 if self.third != 0 else np.inf
        if number >= FEWEST_OUTCOMES or self.mistakes >= max(ENOUGH_MISTAKES, 2 * self.expected):
            return None
        return (
            f"effectively only {number:.2g} of the less probable outcomes are expected, fewer than {FEWEST_OUTCOMES:g}, so "
            "the size of losses that did not occur is unknown"
        )
