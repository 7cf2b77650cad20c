"""Random trees that partition the simplex into bins, grown level by level for many trees at once."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from calibrant.arrays import IntArray, Matrix, Vector
from calibrant.numerics.tree_walk import check_trees, places_below

__all__ = [
    "Groups",
    "Growth",
    "LeafSums",
    "Splits",
    "Stages",
    "Trees",
    "grown_trees",
    "n_draws",
    "place_sums",
    "random_splits",
    "weighted_targets",
]


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

    members: IntArray
    lengths: IntArray
    shifts: IntArray

    @property
    def starts(self) -> IntArray:
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

    classes: IntArray
    thresholds: Vector
    goes_left: NDArray[np.bool_]
    n_left: IntArray


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


def _values(points: Vector, groups: Groups, classes: IntArray) -> Vector:
    """Return what every member has of the class of its group."""
    places = np.repeat(classes * points.shape[1] - groups.shifts, groups.lengths)
    places += groups.members
    return points.ravel().take(places)


def _varied_classes(points: Vector, groups: Groups, draws: Vector) -> IntArray:
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


Growth = Literal["bins", "depth"]
"""``"bins"`` goes on until there are so many bins; ``"depth"`` until all bins have been split so often."""


class Stages(NamedTuple):
    """When splits were made.

    Attributes
    ----------
    n_bins : ndarray of shape (S,)
        Number of bins a tree must be allowed to have to include a split; not less than for any split before.
    levels : ndarray of shape (S,)
        How many splits lead to a split.
    """

    n_bins: NDArray[np.int32]
    levels: NDArray[np.int32]

    @classmethod
    def joined(cls, parts: "list[Stages]") -> "Stages":
        """Return the stages of several blocks of trees, one after the other."""
        return cls(
            np.concatenate([part.n_bins for part in parts]), np.concatenate([part.levels for part in parts])
        )


@dataclass(frozen=True, eq=False)
class Trees:
    """The splits of T trees, tree by tree, in each of them in the order in which they were made.

    A tree with J splits has the splits 0 to J - 1, of which 0 is the root's, and the leaves 0 to J. Fewer bins are fewer
    of the first splits: a smaller tree is the beginning of a larger one.

    Attributes
    ----------
    n_splits : ndarray of shape (T,)
        Number of splits of every tree.
    classes : ndarray of shape (S,)
        Class whose probability decides, S in all.
    thresholds : ndarray of shape (S,)
        Rows with less of it go left, the others right.
    children : ndarray of shape (S, 2)
        What is on the left and on the right: the number in its tree of the next split, or ``~number`` of a leaf.
    stages : Stages or None
        When each split was made; None if only whole trees are wanted.
    """

    n_splits: IntArray
    classes: NDArray[np.integer]
    thresholds: Vector
    children: NDArray[np.integer]
    stages: Stages | None = None

    @property
    def n_trees(self) -> int:
        """Number of trees, T."""
        return len(self.n_splits)

    def between(self, first: int, last: int) -> "Trees":
        """Return the trees from one number to before another."""
        edges = np.append(0, np.cumsum(self.n_splits))
        splits = slice(edges[first], edges[last])
        return Trees(
            self.n_splits[first:last],
            self.classes[splits],
            self.thresholds[splits],
            self.children[splits],
            None if self.stages is None else Stages(self.stages.n_bins[splits], self.stages.levels[splits]),
        )

    @property
    def first_splits(self) -> IntArray:
        """Number of splits in all trees before each tree, (T,)."""
        return np.cumsum(self.n_splits) - self.n_splits

    @property
    def first_leaves(self) -> IntArray:
        """Number of leaves in all trees before each tree, (T,)."""
        return self.first_splits + np.arange(self.n_trees)

    @property
    def below(self) -> IntArray:
        """Places on the left and on the right of every split, (S, 2): splits of all trees, then leaves of all trees."""
        return places_below(self.n_splits, self.children)

    @classmethod
    def joined(cls, parts: "list[Trees]") -> "Trees":
        """Return the trees of several blocks, one after the other; without stages if any block has none."""
        stages = [part.stages for part in parts if part.stages is not None]
        return cls(
            np.concatenate([part.n_splits for part in parts]),
            np.concatenate([part.classes for part in parts]),
            np.concatenate([part.thresholds for part in parts]),
            np.concatenate([part.children for part in parts]),
            Stages.joined(stages) if len(stages) == len(parts) else None,
        )

    def check(self, n_classes: int) -> None:
        """Raise ``ValueError`` unless every split and every leaf is reached from the root of its tree by one path."""
        check_trees(self.n_splits, self.classes, self.thresholds, self.children, n_classes)

    def compact(self, n_classes: int) -> "Trees":
        """Return the same trees in the shortest integers."""
        largest = int(self.n_splits.max(initial=0))
        return replace(
            self,
            classes=self.classes.astype(np.min_scalar_type(n_classes - 1)),
            children=self.children.astype(np.min_scalar_type(-1 - largest)),
        )


def n_draws(n_bins: int, n_points: int, growth: Growth) -> int:
    """Return how many splits may be tried in a tree of so many bins: the nodes of two points and more.

    >>> n_draws(4, 100, "bins"), n_draws(4, 3, "bins"), n_draws(4, 3, "depth")
    (3, 2, 3)
    """
    return min(n_bins, n_points) - 1 if growth == "bins" else min(n_bins - 1, 2 * n_points)


def grown_trees(
    points: Vector, draws: Vector, n_bins: int, growth: Growth
) -> tuple[Trees, NDArray[np.unsignedinteger]]:
    """Grow trees to so many bins.

    Nodes of a level take their turn in the order in which they were made. With ``"bins"`` each one of two points or more
    is split at a class that is not constant in it, until there are so many bins. With ``"depth"``, as many levels
    deep as a power of two says, a node stays whole if the class drawn is constant in it.

    Parameters
    ----------
    points : ndarray of shape (K, u)
        Different predictions, a row for each class.
    draws : ndarray of shape (T, D, 2)
        Uniform random numbers for the class and the threshold of the splits that are tried in every tree, in order;
        :func:`n_draws` of them.
    n_bins : int
        Largest number of bins.
    growth : {"bins", "depth"}
        When to stop.

    Returns
    -------
    trees : Trees
        What was grown.
    leaves : ndarray of shape (T, u)
        In which leaf of every tree each point is.

    Examples
    --------
    Two trees of three points; in the second one the class for the root is the other one.

    >>> points = np.array([[0.1, 0.2, 0.7], [0.9, 0.8, 0.3]])
    >>> draws = np.array([[[0.3, 0.5], [0.3, 0.5]], [[0.6, 0.5], [0.3, 0.5]]])
    >>> trees, leaves = grown_trees(points, draws, 3, "bins")
    >>> trees.classes, trees.thresholds.round(3)
    (array([0, 0, 1, 0]), array([0.4 , 0.15, 0.6 , 0.15]))
    >>> leaves
    array([[1, 2, 0], [1, 2, 0]], dtype=uint8)
    """
    return _Growing(points, draws, n_bins, growth).finished()


class _Level(NamedTuple):
    """Nodes of the same depth, in any order, with their points.

    The members of ``groups`` are pairs, tree * u + point; ``slots`` says where a node's number belongs among the
    children; ``sequence`` in which order the nodes were made, tree by tree.
    """

    groups: Groups
    trees: IntArray
    slots: IntArray
    sequence: IntArray

    def taken(self, chosen: NDArray[np.bool_]) -> "_Level":
        if chosen.all():
            return self
        places = np.cumsum(chosen) - 1
        sequence = places[np.compress(chosen[self.sequence], self.sequence)]
        return _Level(self.groups.taken(chosen), self.trees[chosen], self.slots[chosen], sequence)

    def ranks(self, chosen: NDArray[np.bool_], n_trees: int) -> IntArray:
        """Return how many chosen nodes of the same tree were made before each node."""
        in_order, trees = chosen[self.sequence], self.trees[self.sequence]
        before: IntArray = np.cumsum(in_order) - in_order
        of_trees = np.bincount(trees, in_order, n_trees).astype(np.intp)
        ranks = np.empty(len(trees), dtype=np.intp)
        ranks[self.sequence] = before - (np.cumsum(of_trees) - of_trees)[trees]
        return ranks


class _Growing:
    """Trees while they grow."""

    def __init__(self, points: Vector, draws: Vector, n_bins: int, growth: Growth) -> None:
        self.points, self.draws, self.growth = points, draws, growth
        self.n_points = points.shape[1]
        self.n_trees, self.n_tries = draws.shape[:2]
        self.depth = n_bins.bit_length() - 1 if growth == "depth" else None
        room = self.room = max(1, min(self.n_tries, self.n_points - 1))  # splits a tree can have
        self.tried = np.zeros(self.n_trees, dtype=np.intp)
        self.n_splits = np.zeros(self.n_trees, dtype=np.intp)
        self.n_leaves = np.zeros(self.n_trees, dtype=np.intp)
        self.classes = np.zeros((self.n_trees, room), dtype=np.intp)
        self.thresholds = np.zeros((self.n_trees, room))
        self.levels = np.zeros((self.n_trees, room), dtype=np.int32)
        # The roots' own numbers come last; nobody asks for them.
        self.children = np.zeros(2 * self.n_trees * room + self.n_trees, dtype=np.intp)
        self.leaves = np.zeros(self.n_trees * self.n_points, dtype=np.min_scalar_type(room))

    def finished(self) -> tuple[Trees, NDArray[np.unsignedinteger]]:
        trees = np.arange(self.n_trees)
        pairs = np.arange(self.n_trees * self.n_points)
        level = _Level(
            Groups(pairs, np.full(self.n_trees, self.n_points), trees * self.n_points),
            trees,
            len(self.children) - self.n_trees + trees,
            trees,
        )
        depth = 0
        while len(level.trees):
            level = self._split(level, depth)
            depth += 1
        used = np.flatnonzero(np.arange(self.room) < self.n_splits[:, np.newaxis])
        # Rows by number, several times as fast as by a mask of two dimensions.
        classes, thresholds, levels = (
            of_splits.ravel().take(used) for of_splits in (self.classes, self.thresholds, self.levels)
        )
        children = self.children[: -self.n_trees].reshape(-1, 2).take(used, axis=0)
        n_bins = used % self.room + 2 if self.growth == "bins" else 2 ** (levels + 1)
        stages = Stages(n_bins.astype(np.int32), levels)
        grown = Trees(self.n_splits, classes, thresholds, children, stages)
        return grown, self.leaves.reshape(self.n_trees, self.n_points)

    def _split(self, level: _Level, depth: int) -> _Level:
        """Split the nodes of a level that can be, close the others, and return the next level."""
        tryable = level.groups.lengths > 1
        if depth == self.depth:
            tryable[:] = False
        turns = self.tried[level.trees] + level.ranks(tryable, self.n_trees)
        tryable &= turns < self.n_tries
        self._close(level, ~tryable)
        level = level.taken(tryable)
        if len(level.trees) == 0:
            return level
        self.tried += np.bincount(level.trees, minlength=self.n_trees)
        draws = self.draws[level.trees, turns[tryable]]
        splits = random_splits(self.points, level.groups, draws, always=self.growth == "bins")
        real = splits.n_left > 0
        goes_left = splits.goes_left
        if not real.all():
            self._close(level, ~real)
            goes_left = np.compress(np.repeat(real, level.groups.lengths), goes_left)
            level = level.taken(real)
        every = np.ones(len(level.trees), dtype=np.bool_)
        numbers = self.n_splits[level.trees] + level.ranks(every, self.n_trees)
        self.n_splits += np.bincount(level.trees, minlength=self.n_trees)
        own = level.trees * self.room + numbers
        self.children[level.slots] = numbers
        self.classes.ravel()[own] = splits.classes[real]
        self.thresholds.ravel()[own] = splits.thresholds[real]
        self.levels.ravel()[own] = depth
        n_left = splits.n_left[real]
        pairs, lengths, shifts = level.groups
        below = Groups(
            np.concatenate([np.compress(goes_left, pairs), np.compress(~goes_left, pairs)]),
            np.concatenate([n_left, lengths - n_left]),
            np.tile(shifts, 2),
        )
        slots = np.concatenate([2 * own, 2 * own + 1])
        sequence = np.column_stack([level.sequence, level.sequence + len(own)]).ravel()
        return _Level(below, np.tile(level.trees, 2), slots, sequence)

    def _close(self, level: _Level, chosen: NDArray[np.bool_]) -> None:
        """Make leaves of some nodes."""
        if not chosen.any():
            return
        numbers = (self.n_leaves[level.trees] + level.ranks(chosen, self.n_trees))[chosen]
        self.n_leaves += np.bincount(level.trees[chosen], minlength=self.n_trees)
        self.children[level.slots[chosen]] = ~numbers
        groups = level.groups.taken(chosen)
        self.leaves[groups.members] = np.repeat(numbers, groups.lengths)


@dataclass(frozen=True, eq=False)
class LeafSums:
    """Weighted sums of targets in the leaves of trees, and of the weights, in whichever form takes less memory.

    Attributes
    ----------
    n_leaves : ndarray of shape (T,)
        Number of leaves of every tree.
    weighted : ndarray of shape (u, K + 1) or None
        Targets times weight of every point, with the weight in the last column, see :func:`weighted_targets`.
    leaves : ndarray of shape (T, u) or None
        In which leaf of every tree each point is.
    sums : ndarray of shape (L, K + 1) or None
        The sums themselves, leaf by leaf and tree by tree, which make the other two superfluous.
    """

    n_leaves: IntArray
    weighted: Matrix | None
    leaves: NDArray[np.integer] | None
    sums: Matrix | None = None

    @classmethod
    def of(cls, trees: Trees, leaves: NDArray[np.integer], weighted: Matrix, room: int) -> "LeafSums":
        """Return sums for grown trees; as such, if even with ``room`` leaves a tree they are smaller than a point's leaves.

        The form must not depend on how many leaves a tree did get: those of several blocks of trees are put together.
        """
        n_leaves = trees.n_splits + 1
        members = cls(n_leaves, weighted, leaves)
        n_points, n_columns = weighted.shape
        if room * n_columns * weighted.itemsize > n_points * leaves.itemsize:
            return members
        return cls(n_leaves, None, None, members.between(0, len(n_leaves)))

    @classmethod
    def joined(cls, parts: "list[LeafSums]") -> "LeafSums":
        """Return the sums of several blocks of trees, one after the other."""
        n_leaves = np.concatenate([part.n_leaves for part in parts])
        leaves = [part.leaves for part in parts if part.leaves is not None]
        sums = [part.sums for part in parts if part.sums is not None]
        return cls(
            n_leaves,
            parts[0].weighted,
            np.concatenate(leaves) if leaves else None,
            np.concatenate(sums) if sums else None,
        )

    def between(self, first: int, last: int) -> Matrix:
        """Return the sums in all leaves of the trees from one number to before another, (leaves, K + 1)."""
        n_leaves = self.n_leaves[first:last]
        if self.sums is not None:
            start = int(self.n_leaves[:first].sum())
            return self.sums[start : start + int(n_leaves.sum())]
        assert self.leaves is not None
        assert self.weighted is not None
        # Type of the sparse matrix's own index, into which it would be copied otherwise.
        firsts = (np.cumsum(n_leaves) - n_leaves).astype(np.int32)
        places = self.leaves[first:last] + firsts[:, np.newaxis]  # (trees, u)
        n_points = places.shape[1]
        # A column for each point, with a one for its leaf in every tree: the product adds rows of the targets to leaves.
        membership = csc_array(
            (
                np.ones(places.size),
                np.ascontiguousarray(places.T).ravel(),
                np.arange(0, places.size + 1, last - first, dtype=np.int32),
            ),
            shape=(int(n_leaves.sum()), n_points),
        )
        sums: Matrix = membership @ self.weighted
        return sums

    def mean_around(self, own: IntArray) -> Vector:
        """Return the mean over trees of the targets' mean in one leaf of each, (K,), without sums in other leaves."""
        assert self.leaves is not None
        assert self.weighted is not None
        # Places in the table as one row are several times as fast to find as rows and columns.
        n_points = len(self.weighted)
        tree, point = np.divmod(np.flatnonzero(self.leaves == own[:, np.newaxis]), n_points)
        totals = np.bincount(tree, self.weighted[:, -1].take(point), len(own))
        shares = np.bincount(point, 1 / totals[tree], n_points)
        mean: Vector = shares @ self.weighted[:, :-1] / len(own)
        return mean


def weighted_targets(targets: Matrix, weights: Vector) -> Matrix:
    """Return the summands of all sums, (u, K + 1): targets (u, K) times weights (u,), and the weights.

    >>> weighted_targets(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0]))
    array([[ 1.,  2.,  1.], [30., 40., 10.]])
    """
    return np.column_stack([targets * weights[:, np.newaxis], weights])


def place_sums(trees: Trees, leaf_sums: Matrix) -> Matrix:
    """Return sums at all places, first at the splits of all trees, then in all leaves, (S + L, K + 1).

    One tree of two points, which its only split parts; its leaves have a total of 1 and of 2 at a weight of 1 each.

    >>> from calibrant.calibrators.neighbourhood.random_forest.trees import grown_trees
    >>> trees, _ = grown_trees(np.array([[0.2, 0.8], [0.8, 0.2]]), np.full((1, 1, 2), 0.5), 2, "bins")
    >>> place_sums(trees, np.array([[1.0, 1.0], [2.0, 1.0]]))
    array([[3., 2.], [1., 1.], [2., 1.]])
    """
    assert trees.stages is not None
    n_all, levels = len(trees.classes), trees.stages.levels
    below = trees.below
    sums = np.empty((n_all + len(leaf_sums), leaf_sums.shape[1]))
    sums[n_all:] = leaf_sums
    # From the deepest splits up: what is below a split is at least one level deeper, and complete.
    order = np.argsort(levels, kind="stable")
    edges = np.searchsorted(levels[order], np.arange(int(levels.max(initial=-1)) + 2))
    for level in range(len(edges) - 2, -1, -1):
        splits = order[edges[level] : edges[level + 1]]
        left, right = below[splits].T
        sums[splits] = sums.take(left, axis=0) + sums.take(right, axis=0)
    return sums
