"""Non-decreasing curves through the blocks of an isotonic fit, with ends that are never certain."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.calibrators.monotone.pooled_scores import PooledScores
from calibrant.numerics.isotonic import block_starts
from calibrant.numerics.knotted_curve import KnottedCurve
from calibrant.numerics.midway import midway

__all__ = ["ROWS_AT_ENDS", "SLOPE", "Interpolation", "Ties", "fitted_curve"]

Interpolation = Literal["linear", "step"]
Ties = Literal["keep", "centered", "strict"]

ROWS_AT_ENDS = "such as 1 row at ends that would be certain"
"""An example of smoothing, for an error."""

SLOPE = 1e-9
"""Multiple of the score that is added to make a map strictly increasing; that of the Mix-n-Match program."""


def fitted_curve(
    groups: PooledScores, smoothing: float, ties: Ties, interpolation: Interpolation = "linear"
) -> KnottedCurve:
    """Return the isotonic fit to some groups of scores as a curve; O(m).

    Ends that no row contradicts would be exactly 0 or 1. There one row of weight ``smoothing`` is added that
    contradicts them, below or above all others, and neighbours are pooled again; less by as much as the rows of
    the end contradict it themselves.
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
        return KnottedCurve(scores, values)
    level = _with_ends(scores, values, value[0], value[-1])
    return KnottedCurve(level.knots, (level.values + SLOPE * level.knots) / (1 + SLOPE))


def _blocks(groups: PooledScores, smoothing: float) -> tuple[NDArray[np.intp], Vector]:
    """Return first group and value of every block, with the ends shrunk."""
    weight, outcome_sum = groups.weight, groups.outcome_sum
    starts = block_starts(weight, outcome_sum)
    first, last = slice(starts[1] if len(starts) > 1 else None), slice(starts[-1], None)
    events_below = float(outcome_sum[first].sum())
    others_above = float((weight[last] - outcome_sum[last]).sum())
    if min(events_below, others_above) < smoothing:
        weight, outcome_sum = weight.copy(), outcome_sum.copy()
        # A row below all others for which the event happened, and one above all others for which it did not, as far as
        # the rows do not contradict these ends themselves.
        below, above = max(0.0, smoothing - events_below), max(0.0, smoothing - others_above)
        weight[0] += below
        outcome_sum[0] += below
        weight[-1] += above
        starts = block_starts(weight, outcome_sum)
    return starts, np.add.reduceat(outcome_sum, starts) / np.add.reduceat(weight, starts)


def _stepped(low: Vector, high: Vector, value: Vector) -> KnottedCurve:
    """Step half-way between neighbouring blocks, so that the mirror image has the mirrored curve."""
    return KnottedCurve(np.append(low[:1], midway(high[:-1], low[1:])), value, steps=True)


def _with_ends(scores: Vector, values: Vector, at_zero: float, at_one: float) -> KnottedCurve:
    """Continue a curve to the ends of the range of probabilities, where it does not reach them already."""
    below, above = scores[:1] > 0, scores[-1:] < 1
    return KnottedCurve(
        np.concatenate([np.zeros(1)[below], scores, np.ones(1)[above]]),
        np.concatenate([np.array([at_zero])[below], values, np.array([at_one])[above]]),
    )
