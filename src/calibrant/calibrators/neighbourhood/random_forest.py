"""Random calibration forest: what went wrong in the bins of many random trees is taken away."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Traits
from calibrant.calibrators.neighbourhood.crop import Crop
from calibrant.calibrators.neighbourhood.neighbourhood import Assumption, Neighbourhood
from calibrant.calibrators.neighbourhood.points import Points
from calibrant.calibrators.neighbourhood.random_trees import Growth, Trees
from calibrant.calibrators.neighbourhood.tree_means import ForestMeans, grown_means
from calibrant.calibrators.neighbourhood.tree_sums import LeafSums, weighted_targets
from calibrant.errors import ParameterError
from calibrant.options import check_choice, check_whole, random_source

__all__ = ["RandomCalibrationForest"]

Matrix = NDArray[np.float64]


class RandomCalibrationForest(Neighbourhood):
    r"""Take away the mean error in the bin of each of many random trees.

    .. math:: \hat q(p) = \mathrm{crop}\Bigl( p - \frac{1}{T} \sum_{t=1}^{T}
              \frac{\sum_{i \in B_t(p)} w_i \, (p_i - y_i)}{\sum_{i \in B_t(p)} w_i} \Bigr)

    where :math:`B_t(p)` are the calibration rows in the same bin of tree t as the prediction :math:`p`. A tree divides
    the simplex at random, without a look at the labels: a class is drawn, then a threshold from the range of its
    probabilities, and rows with less go to one side, the others to the other side; each side is divided again, those
    made first before those made later, until there are as many bins as wanted :cite:`valk2022`.

    Parameters
    ----------
    n_trees : int, default=250
        Number of trees, T. More trees make a smoother map that depends less on the seed.
    n_bins : int, list of int or "auto", default="auto"
        Number of bins of every tree: the more there are, the smaller the neighbourhood of a prediction. From a list,
        the one with the lowest log-loss on rows held out is taken; ``"auto"`` stands for 2, 4, 8, ..., 4096.
    growth : {"bins", "depth"}, default="bins"
        ``"bins"`` is the text of :cite:`valk2022`: exactly so many bins, or as many as there are different
        predictions. ``"depth"`` is its program, on which the published figures rest: every bin is divided
        log2(n_bins) times, unless it has one row or the class drawn is constant in it. Most divisions cut off few
        rows, so that far fewer bins than ``n_bins``, a power of two, come out.
    assumption : {"equal-errors", "equal-labels"}, default="equal-errors"
        What rows in a bin share: the calibration error, as in the formula, or the distribution of the label, which
        then replaces the prediction as in histogram binning.
    crop : {"clip", "outside"}, default="clip"
        How entries that left the simplex come back: moved into [epsilon, 1 - epsilon], which is the text of
        :cite:`valk2022`, or only where they are below 0 or above 1, which is its program; rows are then divided by
        their sums.
    epsilon : float or "auto", default="auto"
        Least probability; ``"auto"`` is 0.0001 for up to ten classes and falls with their square, to 0.000001 for a
        hundred.
    cv : int, splitter of scikit-learn or splits, default=10
        Folds by which ``n_bins`` is chosen.
    random_state : int, Generator or None, default=0
        Source of the trees. The same number gives the same trees for any order of the rows, and a larger forest begins
        with the trees of a smaller one.
    guard : bool, default=True
        Whether to keep the identity where a correction would do harm, see the notes; False applies it all the same.

    Attributes
    ----------
    n_bins_ : int
        Number of bins that was chosen or given.
    search_ : dict of str to ndarray
        ``"n_bins"`` that were tried, their mean ``"loss"`` on rows held out, its ``"excess"`` over that of doing
        nothing, and the standard error of the excess, ``"excess_error"``; empty if there was no choice.
    points_ : ndarray of shape (u, K)
        The different predictions among the calibration rows.
    errors_ : ndarray of shape (u, K)
        Mean of prediction less label at each of them.
    point_weights_ : ndarray of shape (u,)
        Total weight of their rows.
    n_splits_ : ndarray of shape (n_trees,)
        Number of splits of each tree, one less than its bins. All that follows is tree by tree, S splits in all.
    split_classes_ : ndarray of shape (S,)
        Column that decides.
    thresholds_ : ndarray of shape (S,)
        Rows with less go left, the others right.
    children_ : ndarray of shape (S, 2)
        Number in its tree of the next split on the left and on the right, or -1 - number of a bin.
    bins_ : ndarray of shape (n_trees, u) or None
        Bin of each point in every tree; None where the sums of all bins are smaller.
    bin_sums_ : ndarray of shape (S + n_trees, K + 1) or None
        Weighted sums of the errors (or labels) in every bin, with its weight in the last column; None where ``bins_``
        is smaller.
    epsilon_, identity_kept_, floor_of_zeros_
        As in :class:`NearestNeighbourCalibration`.

    Notes
    -----
    The guard, and how rows are held out where there is a choice of ``n_bins``, are described in
    :class:`NearestNeighbourCalibration`.

    Trees see the different predictions alone, in an order of their own, so weights are the same as repeated rows for one
    ``random_state``: trees to the last digit, means up to rounding. The classes that are drawn depend on the order of
    the columns: a permutation of them gives another forest of the same kind.

    Thresholds are uniform in the probability itself, so bins are fine where predictions are unsure and coarse in the
    corners, where most predictions of a good classifier are; use temperature scaling first, as the thesis does. With
    many classes most divisions are made at classes that hardly matter. Rows beyond all calibration rows fall into the
    bins at the edge and are corrected as these are.

    A forest with few bins is the beginning of one with many, so all numbers of bins are judged with one forest per fold.
    Growing costs O(T u) a level, and with many bins there are some ten or a hundred levels, for small probabilities
    are split off one by one; predicting costs O(T (depth + K)) a row, and O(T u K) for the sums in the bins. Memory is
    the smaller of T u bin numbers and T n_bins (K + 1) sums, besides blocks of fixed size. ``"auto"`` grows a forest of
    4096 bins for each of the ten folds: for 5,000 rows of ten classes it takes about as long as five fits with
    ``n_bins=4096``, or as twenty-five with ``n_bins=128``; a list without the largest numbers is faster.

    Examples
    --------
    Predictions from 0.5 to 1 of which, however sure, three of four are right.

    >>> p = np.tile(np.linspace(0.5, 1, 20), 4)
    >>> y = np.repeat([1, 1, 1, 0], 20)
    >>> forest = RandomCalibrationForest(n_trees=20, n_bins=8).fit(p, y)
    >>> forest.predict_proba([0.55, 0.75, 0.95])[:, 1].round(2)
    array([0.74, 0.75, 0.76])
    """

    traits = Traits(contains_identity=True, commutes_with_permutations=False)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"forest": {}}
    _size_name = "n_bins"

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

    def _local_means(self, points: Points, targets: Matrix, sizes: Sequence[float]) -> ForestMeans:
        seeds = random_source(self.random_state).integers(2**63, size=self.n_trees).tolist()
        return grown_means(points.probabilities, targets, points.weights, seeds, int(max(sizes)), self.growth)

    def _remember(self, points: Points) -> None:
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

    def _fitted_means(self, size: float) -> ForestMeans:
        trees = Trees(self.n_splits_, self.split_classes_, self.thresholds_, self.children_)
        points = Points(self.points_, self.errors_, self.point_weights_)
        weighted = None
        if self.bins_ is not None:
            weighted = weighted_targets(self._targets(points), self.point_weights_)
        sums = LeafSums(self.n_splits_ + 1, weighted, self.bins_, self.bin_sums_)
        return ForestMeans(trees, sums, points.probabilities.shape[1], int(size))
