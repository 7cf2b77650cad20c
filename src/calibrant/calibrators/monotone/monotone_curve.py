"""Non-decreasing curves through the blocks of an isotonic fit, with ends that are never certain."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.monotone.score_groups import ScoreGroups
from calibrant.errors import ParameterError
from calibrant.numerics.isotonic import block_starts
from calibrant.options import is_number

__all__ = ["SLOPE", "Interpolation", "MonotoneCurve", "Ties", "check_smoothing", "fitted_curve"]

Vector = NDArray[np.float64]
Interpolation = Literal["linear", "step"]
Ties = Literal["keep", "centered", "strict"]

SLOPE = 1e-9
"""Multiple of the score that is added to make a map strictly increasing; that of the Mix-n-Match program."""


@dataclass(frozen=True, eq=False)
class MonotoneCurve:
    """A non-decreasing function on [0, 1], as a table of knots.

    Attributes
    ----------
    scores : ndarray of shape (m,)
        Where the knots are, strictly increasing.
    values : ndarray of shape (m,)
        Values there; linear in between and constant beyond the first and the last.
    steps : bool, default=False
        Whether a value holds from its score up to the next one instead.

    Examples
    --------
    >>> curve = MonotoneCurve(np.array([0.2, 0.4]), np.array([0.1, 0.5]))
    >>> curve(np.array([0.0, 0.3, 1.0]))
    array([0.1, 0.3, 0.5])
    >>> MonotoneCurve(curve.scores, curve.values, steps=True)(np.array([0.0, 0.3, 1.0]))
    array([0.1, 0.1, 0.5])
    """

    scores: Vector
    values: Vector
    steps: bool = False

    def __call__(self, x: NDArray[np.floating]) -> Vector:
        """Return the value at every score, in the shape of ``x``; O(log m) each.

        Rounding never reverses an order: every operation here is non-decreasing in ``x`` as it is rounded.
        """
        place = np.searchsorted(self.scores, x, side="right")
        if self.steps:
            return self.values[np.maximum(place - 1, 0)]
        low, base, rate, ceiling = self._segments
        curve: Vector = x - low[place]
        curve *= rate[place]
        curve += base[place]
        return np.minimum(curve, ceiling[place], out=curve)

    @cached_property
    def _segments(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Where each segment begins, its value there, its slope and its largest value; two level ones outside."""
        low = np.append(self.scores[0], self.scores)
        base = np.append(self.values[0], self.values)
        ceiling = np.append(self.values, self.values[-1])
        width = np.diff(self.scores)
        # Between neighbours among the smallest floats the quotient may overflow, and infinity times 0 is no number.
        steepest = np.finfo(np.float64).max
        with np.errstate(over="ignore"):
            rate = np.minimum((ceiling - base)[1:-1] / width, steepest)
        return low, base, np.concatenate([[0.0], rate, [0.0]]), ceiling


def check_smoothing(smoothing: Any) -> None:
    """Refuse a weight of the shrunk ends that is no number of at least zero."""
    if not is_number(smoothing) or not 0 <= smoothing < np.inf:
        raise ParameterError(
            f"smoothing must be a weight of at least 0, such as 1 row, but is {smoothing!r}; "
            "0 leaves zeros and ones as they are."
        )


def fitted_curve(
    groups: ScoreGroups, smoothing: float, ties: Ties, interpolation: Interpolation = "linear"
) -> MonotoneCurve:
    """Return the isotonic fit to some groups of scores as a curve; O(m).

    Ends that no row contradicts would be exactly 0 or 1. There one row of weight ``smoothing`` is added that
    contradicts them, below or above all others, and neighbours are pooled again.
    """
    starts, value = _blocks(groups, smoothing)
    last = np.append(starts[1:], len(groups.low)) - 1
    low, high = groups.low[starts], groups.high[last]
    if interpolation == "step":
        return _stepped(low, high, value)
    if ties == "centered":
        centre = np.add.reduceat(groups.score_sum, starts) / np.add.reduceat(groups.weight, starts)
        return _with_ends(np.clip(centre, low, high), value, value[0] / 2, (1 + value[-1]) / 2)
    scores = np.column_stack([low, high]).ravel()
    values = np.repeat(value, 2)
    distinct = np.append(True, scores[1:] > scores[:-1])
    scores, values = scores[distinct], values[distinct]
    if ties == "keep":
        return MonotoneCurve(scores, values)
    level = _with_ends(scores, values, value[0], value[-1])
    return MonotoneCurve(level.scores, (level.values + SLOPE * level.scores) / (1 + SLOPE))


def _blocks(groups: ScoreGroups, smoothing: float) -> tuple[NDArray[np.intp], Vector]:
    """Return first group and value of every block, with the ends shrunk."""
    weight, outcome_sum = groups.weight, groups.outcome_sum
    starts = block_starts(weight, outcome_sum)
    never = outcome_sum[: starts[1] if len(starts) > 1 else None].sum() == 0
    always = np.array_equal(outcome_sum[starts[-1] :], weight[starts[-1] :])
    if smoothing > 0 and (never or always):
        weight, outcome_sum = weight.copy(), outcome_sum.copy()
        if never:  # one more row below all others, for which the event happened
            weight[0] += smoothing
            outcome_sum[0] += smoothing
        if always:  # one more row above all others, for which it did not
            weight[-1] += smoothing
        starts = block_starts(weight, outcome_sum)
    return starts, np.add.reduceat(outcome_sum, starts) / np.add.reduceat(weight, starts)


def _stepped(low: Vector, high: Vector, value: Vector) -> MonotoneCurve:
    """Step half-way between neighbouring blocks, so that the mirror image has the mirrored curve."""
    middle = high[:-1] + (low[1:] - high[:-1]) / 2
    middle = np.maximum(middle, np.nextafter(high[:-1], np.inf))  # a score of the fit stays in its block
    return MonotoneCurve(np.append(low[:1], middle), value, steps=True)


def _with_ends(scores: Vector, values: Vector, at_zero: float, at_one: float) -> MonotoneCurve:
    """Continue a curve to the ends of the range of probabilities, where it does not reach them already."""
    below, above = scores[:1] > 0, scores[-1:] < 1
    return MonotoneCurve(
        np.concatenate([np.zeros(1)[below], scores, np.ones(1)[above]]),
        np.concatenate([np.array([at_zero])[below], values, np.array([at_one])[above]]),
    )
