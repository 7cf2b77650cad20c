"""Random calibration forest: subtract the mean error in the bins of many random trees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from calibrant.arrays import IntArray, Matrix, Vector
from calibrant.calibrator import Traits
from calibrant.calibrators.neighbourhood.neighbourhood import Assumption, LocalMeans, Neighbourhood
from calibrant.calibrators.neighbourhood.points import Crop, Points, traced_crop
from calibrant.calibrators.neighbourhood.random_forest.trees import (
    Growth,
    LeafSums,
    Trees,
    grown_trees,
    n_draws,
    place_sums,
    weighted_targets,
)
from calibrant.errors import ParameterError
from calibrant.fit_cost import FitCost
from calibrant.graph import TracedPredictions
from calibrant.graph.trees import TreeMeans
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.row_blocks import even_blocks, in_threads, n_threads_available
from calibrant.numerics.tree_walk import walk
from calibrant.options import check_choice, check_whole, random_source

__all__ = ["RandomCalibrationForest"]


@dataclass(eq=False)
class Routes:
    """Positions of rows in trees, for increasing numbers of bins.

    The places of all trees are numbered through: first the splits of all trees, then the leaves of all trees.

    Attributes
    ----------
    trees : Trees
        T trees.
    rows : ndarray of shape (m, K)
        Predictions.
    places : ndarray of shape (m, T)
        Where every row is in each tree.

    Examples
    --------
    One tree: on the left of 0.4 a leaf, on the right a second split at 0.7.

    >>> from calibrant.calibrators.neighbourhood.random_forest.trees import Stages
    >>> trees = Trees(
    ...     n_splits=np.array([2]),
    ...     classes=np.array([0, 0]),
    ...     thresholds=np.array([0.4, 0.7]),
    ...     children=np.array([[-1, 1], [-2, -3]]),
    ...     stages=Stages(n_bins=np.array([2, 3]), levels=np.array([0, 1])),
    ... )
    >>> routes = Routes(trees, np.array([[0.1, 0.9], [0.5, 0.5], [0.8, 0.2]]))
    >>> routes.advance(2)                                       # two leaves: one that is final, and the second split
    array([[2], [1], [1]])
    >>> routes.advance()
    array([[2], [3], [4]])
    """

    trees: Trees
    rows: Matrix
    places: IntArray = field(init=False)

    def __post_init__(self) -> None:
        trees = self.trees
        self._below = trees.below
        first_leaves = len(trees.classes) + trees.first_leaves
        self.places = np.tile(
            np.where(trees.n_splits > 0, trees.first_splits, first_leaves), (len(self.rows), 1)
        )

    def advance(self, n_bins: int | None = None) -> IntArray:
        """Go down all splits of trees with so many bins, or to the end, and return the places."""
        trees = self.trees
        goes_on = None if n_bins is None or trees.stages is None else trees.stages.n_bins <= n_bins
        walk(self.rows, self.places, trees.classes, trees.thresholds, self._below, goes_on)
        return self.places


# Pairs of a tree and a point that grow at once: few enough for memory, many enough for long vectors.
PAIRS_GROWN = 2**19

# The same for pairs of a tree and a row on their way down, and entries of the sums in a block of trees.
PAIRS_ROUTED = 2**17
SUMS = 2**21

# Blocks of trees for threads to share, if there are as many trees.
LEAST_BLOCKS = 8

# A row on its own takes about as long as so many classes of the sums in all leaves.
FEW = 8

# Entries of a block of means: for one number of bins, for each of several, and of all that threads have at once.
BLOCK_ENTRIES = 2**22
BLOCK_ENTRIES_OF_SEVERAL = 2**20
ENTRIES_AT_ONCE = 2**25

# Numbers of bins with as many rows per bin are tried first, if the largest number has fewer than the second.
ROWS_OF_COARSE_BIN, ROWS_OF_FINE_BIN = 4, 16

# Numbers in the leaves of all trees of a graph, 32 MB.
MOST_LEAF_VALUES = 2**22


@dataclass(eq=False)
class ForestMeans(LocalMeans):
    """Means of targets over the bin of each tree in which a row falls, averaged over the trees.

    All numbers of bins share the trees, since those with fewer bins are the beginnings of those with more.

    Attributes
    ----------
    trees : Trees
        T trees; without stages, they can be asked about ``n_bins`` alone.
    leaf_sums : LeafSums
        What is in their leaves.
    n_classes : int
        Number of targets, K.
    n_bins : int
        Number of bins to which the trees were grown.
    """

    trees: Trees
    leaf_sums: LeafSums
    n_classes: int
    n_bins: int

    # The sums of a tree serve all rows, so threads share out the trees.
    splits_rows = False

    def __post_init__(self) -> None:
        entries = BLOCK_ENTRIES if self.trees.stages is None else BLOCK_ENTRIES_OF_SEVERAL
        self.block_rows = max(1, entries // self.n_classes)
        self.numbers_per_row = self.trees.n_trees * self.n_classes

    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        """Yield the means for every number of bins, in the order given.

        They do not depend on the number of threads: trees are put into blocks without a look at it, and the totals of
        blocks are added one after the other.
        """
        least = self.n_bins if self.trees.stages is None else 1
        for size in sizes:
            if not least <= size <= self.n_bins:
                raise ValueError(f"sizes must be from {least} to {self.n_bins} for these trees, not {size}.")
        only_whole_trees = all(size == self.n_bins for size in sizes)
        if only_whole_trees and self.leaf_sums.leaves is not None and FEW * len(rows) <= FEW + self.n_classes:
            around = self._around_few(rows)
            yield from (around for _ in sizes)
            return
        increasing = sorted({int(size) for size in sizes})
        blocks = even_blocks(self.trees.n_trees, self._trees_routed(len(rows)))

        def part(block: slice) -> Matrix:
            return self._totals(block, rows, increasing)

        totals = np.zeros((len(increasing), len(rows), self.n_classes))
        at_once = max(1, min(n_threads_available(), ENTRIES_AT_ONCE // max(1, totals.size)))
        numbers = self.trees.n_trees // len(blocks) * (len(rows) + self.n_bins) * self.n_classes
        for first in range(0, len(blocks), at_once):
            for several in in_threads(part, blocks[first : first + at_once], numbers):
                totals += several
        totals /= self.trees.n_trees
        yield from (totals[increasing.index(int(size))] for size in sizes)

    def _totals(self, block: slice, rows: Matrix, sizes: list[int]) -> Matrix:
        """Return the sums over some trees of the means for every number of bins, in increasing order, (S, m, K)."""
        trees = self.trees.between(block.start, block.stop)
        routes = Routes(trees, rows)
        places = [routes.advance(size).copy() for size in sizes]
        only_leaves = sizes == [self.n_bins]
        totals = np.zeros((len(sizes), len(rows), self.n_classes))
        # Rows find their way in many trees at once, but sums of so many would take too much memory.
        for part in even_blocks(trees.n_trees, self._trees_summed(only_leaves)):
            several = trees.between(part.start, part.stop)
            sums = self.leaf_sums.between(block.start + part.start, block.start + part.stop)
            if not only_leaves:
                sums = place_sums(several, sums)
            # From numbers among all trees of the block to numbers among these, of which the leaves may be all there is.
            to_splits = int(trees.first_splits[part.start])
            to_leaves = len(trees.classes) + to_splits + part.start
            if not only_leaves:
                to_leaves -= len(several.classes)
            for total, of_size in zip(totals, places, strict=True):
                own = of_size[:, part]
                total += _added_means(own - np.where(own < len(trees.classes), to_splits, to_leaves), sums)
        return totals

    def _around_few(self, rows: Matrix) -> Matrix:
        """Return means for a few rows by looking into the leaves they fall in, and into no others."""
        places = Routes(self.trees, rows).advance() - len(self.trees.classes)
        return np.array([self.leaf_sums.mean_around(leaves) for leaves in places - self.trees.first_leaves])

    def _trees_routed(self, n_rows: int) -> int:
        """Return in how many trees to find rows at once."""
        return max(1, min(-(-self.trees.n_trees // LEAST_BLOCKS), PAIRS_ROUTED // max(1, n_rows)))

    def _trees_summed(self, only_leaves: bool) -> int:
        """Return for how many trees to hold sums at once."""
        n_splits = int(self.trees.n_splits.max(initial=0))
        n_places = n_splits + 1 if only_leaves else 2 * n_splits + 1
        n_trees = SUMS // (n_places * (self.n_classes + 1))
        if self.leaf_sums.leaves is not None:
            n_trees = min(n_trees, PAIRS_GROWN // self.leaf_sums.leaves.shape[1])
        return max(1, n_trees)


def _added_means(places: NDArray[np.intp], sums: Matrix) -> Matrix:
    """Return for every row (m, T) of places the sum of the means there, (m, K); weights are the sums' last column."""
    n_rows, n_trees = places.shape
    ends = np.arange(0, places.size + 1, n_trees)
    # Fewer places are asked about than there are, so weights are divided by here and not in all the sums.
    shares = 1 / sums[:, -1].take(places.ravel())
    added: Matrix = csr_array((shares, places.ravel(), ends), shape=(n_rows, len(sums))) @ sums
    return added[:, :-1]


def grown_means(
    points: NDArray[np.floating],
    targets: Matrix,
    weights: Vector,
    seeds: Sequence[int],
    n_bins: int,
    growth: Growth,
) -> ForestMeans:
    """Grow trees among points, with several threads, and return the means in their bins.

    Parameters
    ----------
    points : ndarray of shape (u, K)
        Different predictions.
    targets : ndarray of shape (u, K)
        What is averaged.
    weights : ndarray of shape (u,)
        How much each point weighs.
    seeds : sequence of T ints
        Where the random numbers of each tree come from; they depend neither on points nor on other trees.
    n_bins : int
        Largest number of bins.
    growth : {"bins", "depth"}
        When trees stop to grow.
    """
    n_points, n_classes = points.shape
    n_tries = max(0, n_draws(n_bins, n_points, growth))
    columns = np.ascontiguousarray(points.T, dtype=np.float64)
    weighted = weighted_targets(targets, weights)

    def part(block: slice) -> tuple[Trees, LeafSums]:
        draws = np.array([np.random.default_rng(seed).random((n_tries, 2)) for seed in seeds[block]])
        trees, leaves = grown_trees(columns, draws, n_bins, growth)
        room = min(n_tries, n_points - 1) + 1
        return trees.compact(n_classes), LeafSums.of(trees, leaves, weighted, room)

    blocks = even_blocks(len(seeds), max(1, PAIRS_GROWN // n_points), n_threads_available())
    parts = in_threads(part, blocks, len(seeds) * n_points // len(blocks))
    trees = Trees.joined([trees for trees, _ in parts])
    return ForestMeans(trees, LeafSums.joined([sums for _, sums in parts]), n_classes, n_bins)


class RandomCalibrationForest(Neighbourhood):
    r"""Random calibration forest: subtract the mean error in the bin of a row, averaged over random trees.

    .. math:: \hat q(p) = \mathrm{crop}\Bigl( p - \frac{1}{T} \sum_{t=1}^{T}
              \frac{\sum_{i \in B_t(p)} w_i \, (p_i - y_i)}{\sum_{i \in B_t(p)} w_i} \Bigr)

    where :math:`B_t(p)` are the calibration rows in the same bin of tree t as the prediction :math:`p`. A tree divides
    the simplex at random, independently of the labels: a class is drawn, then a threshold from the range of its
    probabilities; rows below it go left, the others right. Both sides are divided again in breadth-first order, until the
    tree has ``n_bins`` bins :cite:`valk2022`.

    Parameters
    ----------
    n_trees : int, default=250
        Number of trees, T. More trees give a smoother map that depends less on the seed.
    n_bins : int, list of int or "auto", default="auto"
        Number of bins of every tree; more bins give smaller neighbourhoods. A list is for selection by held-out log-loss;
        ``"auto"`` is 2, 4, 8, ..., 4096.
    growth : {"bins", "depth"}, default="bins"
        ``"bins"`` is the text of :cite:`valk2022`: exactly ``n_bins`` bins, or the number of distinct predictions if that
        is smaller. ``"depth"`` is its program, the basis of the published figures: every bin is divided
        log2(n_bins) times, unless it has one row or the drawn class is constant in it. Most splits cut off few
        rows, so there are far fewer bins than ``n_bins``, a power of two.
    assumption : {"equal-errors", "equal-labels"}, default="equal-errors"
        What rows in a bin share: the calibration error, as in the formula, or the label distribution, which
        then replaces the prediction as in histogram binning.
    crop : {"clip", "outside"}, default="clip"
        Clip all entries to [epsilon, 1 - epsilon], the text of :cite:`valk2022`, or only those below 0 or above 1, its
        program; then divide rows by their sums.
    epsilon : float or "auto", default="auto"
        Least probability; ``"auto"`` is 0.0001 for up to ten classes and falls with their square, to 0.000001 for a
        hundred.
    cv : int, splitter of scikit-learn or splits, default=10
        Folds for the selection of ``n_bins``.
    random_state : int, Generator or None, default=0
        Source of the trees. An integer gives the same trees for any order of the rows, and the first trees of a larger
        forest are those of a smaller one.
    guard : bool, default=True
        Whether to keep the identity if a correction increases the loss, see the notes; False always applies it.

    Attributes
    ----------
    n_bins_ : int
        The selected or given number of bins.
    search_ : dict of str to ndarray
        The candidates ``"n_bins"``, their mean held-out ``"loss"``, its ``"excess"`` over that of the uncalibrated
        predictions, and the standard error of the excess, ``"excess_error"``; empty without a selection. Numbers with fewer
        than four rows per bin are candidates of ``"auto"`` unless the largest of the others is clearly worse than the best.
    points_ : ndarray of shape (u, K)
        The distinct predictions in the calibration set.
    errors_ : ndarray of shape (u, K)
        Mean of prediction minus label at each point.
    point_weights_ : ndarray of shape (u,)
        Total weight of the rows at each point.
    n_splits_ : ndarray of shape (n_trees,)
        Number of splits of each tree, one less than its bins. The following arrays are ordered by tree, with S splits in
        total.
    split_classes_ : ndarray of shape (S,)
        Column of each split.
    thresholds_ : ndarray of shape (S,)
        Rows below the threshold go left, the others right.
    children_ : ndarray of shape (S, 2)
        Index, within its tree, of the next split on the left and on the right, or -1 - index of a bin.
    bins_ : ndarray of shape (n_trees, u) or None
        Bin of each point in every tree; None if ``bin_sums_`` is smaller.
    bin_sums_ : ndarray of shape (S + n_trees, K + 1) or None
        Weighted sums of the errors (or labels) in every bin, with its weight in the last column; None if ``bins_``
        is smaller.
    epsilon_, identity_kept_, floor_of_zeros_
        As in :class:`NearestNeighbourCalibration`.

    Notes
    -----
    The guard and the folds for the selection of ``n_bins`` are described in :class:`NearestNeighbourCalibration`.

    Trees depend only on the distinct predictions, in a canonical order, so weights are equivalent to repeated rows for one
    ``random_state``: trees exactly, means up to rounding. The drawn classes depend on the order of the columns: a
    permutation gives another forest with the same distribution.

    Thresholds are uniform in the probability, so bins are fine in the centre of the simplex and coarse in its corners, where
    most predictions of a good classifier are; use temperature scaling first, as the thesis does. With many classes most
    splits are at classes that hardly matter. Rows beyond all calibration rows fall into the outermost bins.

    A forest with fewer bins is nested in one with more, so one forest per fold evaluates all numbers of bins. Growing costs
    O(T u) per level, with tens to a hundred levels for many bins, since small probabilities are split off one by one.
    Prediction costs O(T (depth + K)) per row, and O(T u K) for the sums in the bins. Memory is the smaller of T u bin
    indices and T n_bins (K + 1) sums, besides blocks of fixed size. ``"auto"`` grows a forest of 4096 bins for each of the
    ten folds: for 5,000 rows of ten classes it takes as long as about five fits with ``n_bins=4096``, or twenty-five with
    ``n_bins=128``; a list without the largest numbers is faster.

    Examples
    --------
    Predictions with confidences from 0.5 to 1, of which three of four are correct at every confidence.

    >>> p = np.tile(np.linspace(0.5, 1, 20), 4)
    >>> y = np.repeat([1, 1, 1, 0], 20)
    >>> forest = RandomCalibrationForest(n_trees=20, n_bins=8).fit(p, y)
    >>> forest.predict_proba([0.55, 0.75, 0.95])[:, 1].round(2)
    array([0.74, 0.75, 0.76])
    """

    fit_cost: ClassVar[FitCost | None] = FitCost(2.1, classes=0.5)
    traits = Traits(contains_identity=True, commutes_with_permutations=False)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"forest": {}}
    _size_name = "n_bins"

    bins_: NDArray[np.integer] | None

    def __init__(
        self,
        n_trees: int = 250,
        n_bins: int | Sequence[int] | Literal["auto"] = "auto",
        growth: Growth = "bins",
        assumption: Assumption = "equal-errors",
        crop: Crop = "clip",
        epsilon: float | Literal["auto"] = "auto",
        cv: Any = 10,
        random_state: int | np.random.Generator | None = 0,
        guard: bool = True,
    ) -> None:
        self.n_trees = n_trees
        self.n_bins = n_bins
        self.growth = growth
        self.assumption = assumption
        self.crop = crop
        self.epsilon = epsilon
        self.cv = cv
        self.random_state = random_state
        self.guard = guard

    def _grid(self) -> list[float]:
        return [2**exponent for exponent in range(1, 13)]

    def _check_options(self) -> None:
        check_whole("n_trees", self.n_trees)
        check_choice("growth", self.growth, ("bins", "depth"))
        random_source(self.random_state)

    def _check_size(self, size: Any) -> None:
        check_whole("n_bins", size)
        if self.growth == "depth" and int(size).bit_count() != 1:
            raise ParameterError(f"n_bins must be a power of two for growth='depth', not {size!r}.")

    def _stages(self, sizes: list[float], most: float) -> list[list[float]]:
        # Trees with more bins begin like those with fewer. Most of the time goes into bins of a few rows.
        coarse = [size for size in sizes if size * ROWS_OF_COARSE_BIN <= most]
        fine = sizes[len(coarse) :]
        if not isinstance(self.n_bins, str) or not coarse or not fine or sizes[-1] * ROWS_OF_FINE_BIN <= most:
            return [sizes]
        return [coarse, fine]

    def _local_means(self, points: Points, targets: Matrix, sizes: Sequence[float]) -> ForestMeans:
        seeds = random_source(self.random_state).integers(2**63, size=self.n_trees).tolist()
        return grown_means(points.probabilities, targets, points.weights, seeds, int(max(sizes)), self.growth)

    def _fit(self, data: LabelledPredictions) -> None:
        super()._fit(data)
        if self.identity_kept_ and self.bins_ is not None:
            self.bins_ = self.bins_[:, :0].copy()  # as the points themselves

    def _set_state(self, points: Points) -> None:
        grown = self._local_means(points, self._targets(points), [self.n_bins_])
        self.n_splits_ = grown.trees.n_splits
        self.split_classes_ = grown.trees.classes
        self.thresholds_ = grown.trees.thresholds
        self.children_ = grown.trees.children
        self.bins_ = grown.leaf_sums.leaves
        self.bin_sums_ = grown.leaf_sums.sums

    def _check_fitted(self) -> None:
        """Refuse trees, as from a forged file, in which a row would go round in circles or out of the arrays."""
        n_points, n_classes = self.points_.shape
        Trees(self.n_splits_, self.split_classes_, self.thresholds_, self.children_).check(n_classes)
        n_leaves = np.asarray(self.n_splits_) + 1
        if (self.bins_ is None) == (self.bin_sums_ is None):
            raise ValueError("must have either bins_ or bin_sums_.")
        if self.bins_ is not None:
            fits = self.bins_.shape == (len(n_leaves), n_points) and self.bins_.dtype.kind in "iu"
            if not fits or (self.bins_ < 0).any() or (self.bins_ >= n_leaves[:, np.newaxis]).any():
                raise ValueError("has bins_ that are no bins of its trees.")
        if self.bin_sums_ is not None and self.bin_sums_.shape != (int(n_leaves.sum()), n_classes + 1):
            raise ValueError("has bin_sums_ of another shape than its trees.")

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        n_numbers = (len(self.thresholds_) + len(self.n_splits_)) * given.n_classes
        if self.identity_kept_ or n_numbers > MOST_LEAF_VALUES:
            return super()._traced(given)
        sums = self._fitted_means(self.n_bins_).leaf_sums.between(0, len(self.n_splits_))
        own = given.probabilities.widened
        mean = own.then(
            TreeMeans(
                self.n_splits_.astype(np.intp),
                self.split_classes_.astype(np.intp),
                self.thresholds_,
                self.children_.astype(np.intp),
                sums[:, :-1] / sums[:, -1:],
            )
        )
        moved = mean if self._setting("assumption") == "equal-labels" else own - mean
        crop = self._setting("crop")
        return given.with_probabilities(traced_crop(moved, crop, self.epsilon_).narrowed())

    @property
    def _no_graph(self) -> str:
        n_leaves = len(self.thresholds_) + len(self.n_splits_)
        return (
            f"its trees have {n_leaves} bins in all, more than a graph can hold; set n_bins or n_trees to a smaller "
            "number, or use temperature scaling or a structured map."
        )

    def _fitted_means(self, size: float) -> ForestMeans:
        trees = Trees(self.n_splits_, self.split_classes_, self.thresholds_, self.children_)
        points = Points(self.points_, self.errors_, self.point_weights_)
        weighted = None
        if self.bins_ is not None:
            weighted = weighted_targets(self._targets(points), self.point_weights_)
        sums = LeafSums(self.n_splits_ + 1, weighted, self.bins_, self.bin_sums_)
        return ForestMeans(trees, sums, points.probabilities.shape[1], int(size))
