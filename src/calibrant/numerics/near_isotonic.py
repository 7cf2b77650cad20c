"""Nearly-isotonic regression: every fit between the data themselves and the isotonic one."""

from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import inf

import numpy as np

from calibrant.arrays import IntArray, Vector

__all__ = ["Groups", "NearIsotonicPath", "near_isotonic_path"]


# Penalties that differ by less than this times the total weight do so by rounding: they are one knot.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Groups:
    """Neighbouring levels that share one value, at one penalty.

    Attributes
    ----------
    first : ndarray of shape (g,)
        Number of the first level of each group, increasing.
    weight, outcome_sum : ndarray of shape (g,)
        Total weight, and weighted sum of the outcomes, of each group.
    value : ndarray of shape (g,)
        What the levels of each group are fitted by.
    """

    first: IntArray
    weight: Vector
    outcome_sum: Vector
    value: Vector


@dataclass(frozen=True, eq=False)
class NearIsotonicPath:
    r"""All solutions of a nearly-isotonic regression, as the forest of its groups.

    Between two knots every group moves on a straight line, and from knot to knot groups only merge. So the
    whole path is a list of at most 2m - 1 groups, each with the span of knots in which it exists.

    Attributes
    ----------
    penalty : ndarray of shape (L,)
        The knots :math:`\lambda`, increasing from 0: where groups merge. From the last one on the solution is
        isotonic regression.
    first, weight, outcome_sum : ndarray of shape (N,)
        First level, total weight and sum of outcomes of every group that ever exists.
    drift : ndarray of shape (N,)
        1 if the group is pulled up by its lower neighbour, -1 if down by its upper one, 0 if both or neither.
    born, gone : ndarray of shape (N,)
        The group exists from knot ``born`` to the one before ``gone``; equal where it never does, because
        more than two groups merge at once.
    """

    penalty: Vector
    first: IntArray
    weight: Vector
    outcome_sum: Vector
    drift: Vector
    born: IntArray
    gone: IntArray

    @cached_property
    def n_groups(self) -> IntArray:
        """Number of groups at every knot, (L,)."""
        return self.total(np.ones(len(self.first))).astype(np.intp)

    def total(self, of_group: Vector) -> Vector:
        """Return, for every knot, the sum of ``of_group`` (N,) over the groups that exist there, (L,)."""
        length = len(self.penalty) + 1
        change = np.bincount(self.born, of_group, length) - np.bincount(self.gone, of_group, length)
        return np.cumsum(change)[:-1]

    def groups(self, knot: int) -> Groups:
        """Return the groups at one knot, from low to high; costs O(m)."""
        return self._solution(knot, float(self.penalty[knot]))

    def at(self, penalty: float) -> Groups:
        """Return the groups at any penalty of at least 0; costs O(m).

        >>> path = near_isotonic_path(np.ones(3), np.array([0.0, 1.0, 0.0]))
        >>> path.at(0.25).value, path.at(100.0).value
        (array([0.  , 0.75, 0.25]), array([0. , 0.5]))
        """
        return self._solution(int(np.searchsorted(self.penalty, penalty, side="right")) - 1, penalty)

    def _solution(self, knot: int, penalty: float) -> Groups:
        here = np.flatnonzero((self.born <= knot) & (knot < self.gone))
        here = here[np.argsort(self.first[here])]
        weight, outcome_sum, drift = self.weight[here], self.outcome_sum[here], self.drift[here]
        # From the last knot on nothing drifts; the product would be NaN for an infinite penalty.
        moved = outcome_sum + drift * penalty if drift.any() else outcome_sum
        return Groups(self.first[here], weight, outcome_sum, moved / weight)


def near_isotonic_path(weight: Vector, outcome_sum: Vector) -> NearIsotonicPath:
    r"""Fit levels in their order, with a price on every fall instead of a ban.

    .. math:: \min_z \; \tfrac12 \sum_i w_i (\bar o_i - z_i)^2 + \lambda \sum_i (z_i - z_{i+1})_+

    for all :math:`\lambda \ge 0` at once :cite:`tibshirani2011`. A level is given by its total weight
    :math:`w_i` and its weighted sum of outcomes :math:`w_i \bar o_i`; at :math:`\lambda = 0` each has its own
    mean, and beyond the last knot the fit is isotonic.

    Whether the solution falls or rises from one group to the next cannot change before the two meet, and then
    they are one for good. So a group A has the value

    .. math:: z_A(\lambda) = \frac{\sum_{i \in A} w_i \bar o_i + \lambda d_A}{\sum_{i \in A} w_i},
       \qquad d_A = [\text{falls before } A] - [\text{falls after } A]

    in which all three terms add up when groups merge, and no error builds up along the path. When two neighbours
    would meet is known in closed form; a heap gives the next to do so. Costs O(m log m) for m levels, O(m) memory.

    >>> path = near_isotonic_path(np.ones(4), np.array([0.0, 1.0, 0.0, 1.0]))
    >>> path.penalty, path.n_groups
    (array([0. , 0.5]), array([4, 3]))
    >>> path.groups(1).first, path.groups(1).value
    (array([0, 1, 3]), array([0. , 0.5, 1. ]))
    """
    # Neighbours of equal mean are one from the beginning; cross products tell so without a division.
    differ = outcome_sum[:-1] * weight[1:] != outcome_sum[1:] * weight[:-1]
    starts = np.flatnonzero(np.concatenate([[True], differ]))
    weights, sums = np.add.reduceat(weight, starts), np.add.reduceat(outcome_sum, starts)
    falls = np.concatenate([[0.0], sums[:-1] * weights[1:] > sums[1:] * weights[:-1], [0.0]])
    return _merged(starts, weights, sums, falls[:-1] - falls[1:])


def _merged(starts: IntArray, weights: Vector, sums: Vector, drifts: Vector) -> NearIsotonicPath:
    """Let groups run into each other, in the order of the penalties at which they do.

    Plain lists, since one element at a time is read and written.
    """
    n_start = len(starts)
    first, weight, total, drift = starts.tolist(), weights.tolist(), sums.tolist(), drifts.tolist()
    left, right = list(range(-1, n_start - 1)), [*range(1, n_start), -1]
    born, gone = [0] * n_start, [-1] * n_start
    meets = [*_meeting_penalties(weights, sums, drifts).tolist(), inf]
    heap = [(penalty, group) for group, penalty in enumerate(meets) if penalty < inf]
    heapify(heap)
    knots, tolerance = [0.0], ROUNDING * float(weights.sum())

    while heap:
        penalty, lower = heappop(heap)
        if meets[lower] != penalty:
            continue  # a neighbour has changed since, or the group is no more
        if penalty > knots[-1] + tolerance:
            knots.append(penalty)
        knot, upper, merged = len(knots) - 1, right[lower], len(first)
        before, after = left[lower], right[upper]
        gone[lower] = gone[upper] = knot
        meets[lower] = meets[upper] = -1.0
        first.append(first[lower])
        weight.append(weight[lower] + weight[upper])
        total.append(total[lower] + total[upper])
        drift.append(drift[lower] + drift[upper])
        left.append(before)
        right.append(after)
        born.append(knot)
        gone.append(-1)
        meets.append(inf)
        if before >= 0:
            right[before] = merged
        if after >= 0:
            left[after] = merged
        for group, neighbour in ((before, merged), (merged, after)):
            if group < 0 or neighbour < 0:
                continue
            speed = drift[neighbour] * weight[group] - drift[group] * weight[neighbour]
            here, there = total[group] * weight[neighbour], total[neighbour] * weight[group]
            if speed:
                meeting = max((here - there) / speed, penalty)  # earlier only by rounding
            else:
                # At rest to each other: they have just met, or never will.
                meeting = penalty if abs(here - there) <= ROUNDING * (abs(here) + abs(there)) else inf
            if meeting < inf and meeting != meets[group]:
                heappush(heap, (meeting, group))
            meets[group] = meeting

    ends = np.array(gone)
    return NearIsotonicPath(
        penalty=np.array(knots),
        first=np.array(first),
        weight=np.array(weight),
        outcome_sum=np.array(total),
        drift=np.array(drift),
        born=np.array(born),
        gone=np.where(ends < 0, len(knots), ends),
    )


def _meeting_penalties(weights: Vector, sums: Vector, drifts: Vector) -> Vector:
    """Return the penalty at which each group would meet the next if nothing else happened, (m - 1,)."""
    speed = drifts[1:] * weights[:-1] - drifts[:-1] * weights[1:]
    gap = sums[:-1] * weights[1:] - sums[1:] * weights[:-1]
    meeting: Vector = np.divide(gap, speed, out=np.full(len(gap), inf), where=speed != 0)
    return meeting
