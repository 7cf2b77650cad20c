"""Random splits of many groups of points at once: a class, and a threshold within its range in the group."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Groups", "Splits", "random_splits"]

Integers = NDArray[np.intp]
Vector = NDArray[np.float64]

# Entries of a temporary in which all classes of some points are looked at.
ENTRIES = 2**22


class Groups(NamedTuple):
    """Groups of points, one after the other.

    Attributes
    ----------
    members : ndarray of shape (M,)
        Numbers of points, group by group, each with the shift of its group added; a point may be in many groups.
    lengths : ndarray of shape (N,)
        How many points each group has, at least one.
    shifts : ndarray of shape (N,)
        What to subtract from members to get points.
    """

    members: Integers
    lengths: Integers
    shifts: Integers

    @property
    def starts(self) -> Integers:
        """Place of every group's first member, (N,)."""
        return np.cumsum(self.lengths) - self.lengths

    def taken(self, chosen: NDArray[np.bool_]) -> "Groups":
        """Return some of the groups.

        >>> groups = Groups(np.array([5, 6, 7, 8]), np.array([1, 2, 1]), np.array([0, 0, 3]))
        >>> groups.taken(np.array([False, True, True]))
        Groups(members=array([6, 7, 8]), lengths=array([2, 1]), shifts=array([0, 3]))
        """
        if chosen.all():
            return self
        # Several times as fast as an index by a mask.
        members = np.compress(np.repeat(chosen, self.lengths), self.members)
        return Groups(members, self.lengths[chosen], self.shifts[chosen])


class Splits(NamedTuple):
    """How each of N groups is split.

    Attributes
    ----------
    classes : ndarray of shape (N,)
        Class whose probability decides.
    thresholds : ndarray of shape (N,)
        Members with less go left, the others right.
    goes_left : ndarray of shape (M,)
        Whether each member goes left.
    n_left : ndarray of shape (N,)
        How many of them do in every group.
    """

    classes: Integers
    thresholds: Vector
    goes_left: NDArray[np.bool_]
    n_left: Integers


def random_splits(points: Vector, groups: Groups, draws: Vector, *, always: bool) -> Splits:
    """Split every group at a random class and a uniformly random threshold between its least and its largest value.

    Parameters
    ----------
    points : ndarray of shape (K, u)
        Probabilities of all points, a row for each class.
    groups : Groups
        Groups of at least two points each, of which no two are equal.
    draws : ndarray of shape (N, 2)
        Uniform random numbers in [0, 1) for the class and for the threshold.
    always : bool
        Whether a class that is constant in the group is never taken, so that both sides get points. Otherwise all
        classes are equally likely, and of a constant one all points go right.

    Examples
    --------
    The first class has values from 0.1 to 0.7; a draw of one half puts the threshold in the middle.

    >>> points = np.array([[0.1, 0.2, 0.7], [0.9, 0.8, 0.3]])
    >>> groups = Groups(np.array([0, 1, 2]), np.array([3]), np.array([0]))
    >>> random_splits(points, groups, np.array([[0.3, 0.5]]), always=True)[1:]
    (array([0.4]), array([ True,  True, False]), array([2]))
    """
    n_classes = len(points)
    place = draws[:, 0] * n_classes
    classes = np.minimum(place.astype(np.intp), n_classes - 1)
    starts = groups.starts
    values = _values(points, groups, classes)
    least, largest = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    if always and (constant := least == largest).any():
        # Given the class, the rest of its draw is uniform again: with it one of the others is taken, so that all classes
        # that are not constant have the same chance.
        others = groups.taken(constant)
        classes[constant] = _varied_classes(points, others, (place - classes)[constant])
        again = _values(points, others, classes[constant])
        values[np.repeat(constant, groups.lengths)] = again
        least[constant] = np.minimum.reduceat(again, others.starts)
        largest[constant] = np.maximum.reduceat(again, others.starts)
    thresholds = largest - draws[:, 1] * (largest - least)
    if always:
        thresholds = np.where(
            thresholds > least, thresholds, largest
        )  # rounding may leave nothing on the left
    goes_left = values < np.repeat(thresholds, groups.lengths)
    n_left = np.add.reduceat(goes_left, starts, dtype=np.intp)
    return Splits(classes, thresholds, goes_left, n_left)


def _values(points: Vector, groups: Groups, classes: Integers) -> Vector:
    """Return what every member has of the class of its group."""
    places = np.repeat(classes * points.shape[1] - groups.shifts, groups.lengths)
    places += groups.members
    return points.ravel().take(places)


def _varied_classes(points: Vector, groups: Groups, draws: Vector) -> Integers:
    """Return for every group one of the classes that are not constant in it, by a draw from [0, 1)."""
    n_groups = len(groups.lengths)
    chosen = np.empty(n_groups, dtype=np.intp)
    most = max(1, ENTRIES // len(points))
    ends = np.cumsum(groups.lengths)
    first = 0
    while first < n_groups:
        begin = ends[first] - groups.lengths[first]
        last = max(first + 1, int(np.searchsorted(ends, begin + most, side="right")))
        several = slice(first, last)
        few = Groups(groups.members[begin : ends[last - 1]], groups.lengths[several], groups.shifts[several])
        varied = _is_varied(points, few, most)
        counts = varied.cumsum(axis=1)
        rank = np.minimum((draws[several] * counts[:, -1]).astype(np.intp), counts[:, -1] - 1)
        chosen[several] = (counts <= rank[:, np.newaxis]).sum(axis=1)
        first = last
    return chosen


def _is_varied(points: Vector, groups: Groups, most: int) -> NDArray[np.bool_]:
    """Return whether a class has different values in a group, (N, K); at most so many members are looked at at once."""
    numbers = np.repeat(np.arange(len(groups.lengths)), groups.lengths)
    members = groups.members - groups.shifts[numbers]
    firsts = members[groups.starts]
    varied = np.zeros((len(firsts), len(points)), dtype=np.bool_)
    for start in range(0, len(numbers), most):
        piece = slice(start, start + most)
        differs = points[:, members[piece]] != points[:, firsts[numbers[piece]]]  # (K, members)
        begins = np.flatnonzero(np.diff(numbers[piece], prepend=-1))
        varied[numbers[piece][begins]] |= np.logical_or.reduceat(differs, begins, axis=1).T
    return varied
