"""Nearest-neighbour calibration: subtract the mean error of the nearest calibration rows."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import ceil
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.spatial import KDTree

from calibrant.arrays import Matrix, Vector
from calibrant.calibrator import Traits
from calibrant.calibrators.neighbourhood.neighbourhood import (
    MOST_JUDGED,
    Assumption,
    LocalMeans,
    Neighbourhood,
)
from calibrant.calibrators.neighbourhood.points import (
    Crop,
    Distances,
    KullbackLeibler,
    Points,
    SquaredEuclidean,
    rows_in_a_block,
)
from calibrant.fit_cost import FitCost
from calibrant.options import check_choice, check_whole

__all__ = ["NearestNeighbourCalibration"]


# Relative rounding of a sum of weights.
ROUNDING = 1e-12


def edges_of_sizes(distances: Matrix, weights: Vector, sizes: Sequence[float]) -> list[Vector]:
    """Return for every size the distance at which each row has reached it, or that of its farthest point.

    Parameters
    ----------
    distances : ndarray of shape (m, u)
        From every row to every point; may be infinite.
    weights : ndarray of shape (u,)
        Weight of every point.
    sizes : sequence of float
        Total weights of neighbourhoods.

    Notes
    -----
    O(m u) for all sizes if all points weigh the same, otherwise O(m u log u), or less where few points surely weigh the
    largest size.

    Examples
    --------
    >>> edges_of_sizes(np.array([[0.3, 0.1, 0.2]]), np.array([1.0, 1.0, 2.0]), [1, 2, 4])
    [array([0.1]), array([0.2]), array([0.3])]
    """
    if weights.min() == weights.max():
        return _edges_among_equals(distances, weights, sizes)
    enough = points_to_reach(weights, max(sizes))
    # Points that surely weigh the largest size, if they are few, need not be sorted among all others.
    if 2 * enough <= len(weights):
        some = np.argpartition(distances, enough - 1, axis=1)[:, :enough]
        near = np.take_along_axis(distances, some, axis=1)
        order = np.argsort(near, axis=1)
        totals = np.cumsum(weights[np.take_along_axis(some, order, axis=1)], axis=1)
    else:
        near, order = distances, np.argsort(distances, axis=1)
        totals = np.cumsum(weights[order], axis=1)
    rows = np.arange(len(distances))
    return [near[rows, order[rows, places_reached(totals, size)]] for size in sizes]


def _edges_among_equals(distances: Matrix, weights: Vector, sizes: Sequence[float]) -> list[Vector]:
    """Return the same if all points weigh the same, so that nothing need be sorted."""
    ranks = [points_to_reach(weights, size * (1 - ROUNDING)) for size in sizes]
    nearest, edges = distances.copy(), {}
    # The largest first: every further partition works on the part that the one before has put in front.
    for rank in sorted(set(ranks), reverse=True):
        nearest.partition(rank - 1, axis=1)
        nearest = nearest[:, :rank]
        edges[rank] = nearest[:, -1].copy()
    return [edges[rank] for rank in ranks]


def points_to_reach(weights: Vector, size: float) -> int:
    """Return how many points surely weigh a size, whichever they are; at most all of them.

    >>> points_to_reach(np.array([0.5, 1.0, 1.0, 1.0]), 1.5), points_to_reach(np.array([1e-310, 1.0]), 2)
    (3, 2)
    """
    lightest = float(weights.min())
    # The quotient by a weight that is next to nothing may be infinite, and is not taken then.
    return len(weights) if size >= len(weights) * lightest else ceil(size / lightest)


def places_reached(totals: Matrix, size: float) -> NDArray[np.intp]:
    """Return the first place of every row at which running totals of weights reach a size, or the last place.

    >>> places_reached(np.array([[1.0, 2.0, 4.0], [3.0, 4.0, 5.0], [1.0, 1.5, 2.0]]), 3)
    array([2, 0, 2])
    """
    before = np.count_nonzero(totals < size * (1 - ROUNDING), axis=1)
    places: NDArray[np.intp] = np.minimum(before, totals.shape[1] - 1)
    return places


# Distances closer than this are equal: the rounding of a matrix product must not decide who is a neighbour.
TIE = 1e-12


class Summands:
    """What points contribute to a mean: their weights, and their targets times these.

    Parameters
    ----------
    weights : ndarray of shape (u,)
        Weight of every point.
    targets : ndarray of shape (u, K)
        What to average.

    Attributes
    ----------
    weights : ndarray of shape (u,)
        As given.
    total : float
        Their sum.
    n_targets : int
        Number of columns to average.
    """

    def __init__(self, weights: Vector, targets: Matrix) -> None:
        self.weights = weights
        self.total = float(weights.sum())
        self.n_targets = targets.shape[1]
        # The sums of weights come from the same product as those of the targets.
        self._columns = np.empty((len(targets), self.n_targets + 1))
        np.multiply(targets, weights[:, np.newaxis], out=self._columns[:, :-1])
        self._columns[:, -1] = weights

    def mean(
        self, near: Vector, rows: NDArray[np.intp], points: NDArray[np.intp], edges: Vector, size: float
    ) -> Matrix:
        """Return the means (m, K) over neighbours that are listed, row after row, with all that are at the edge.

        Parameters
        ----------
        near : ndarray of shape (e,)
            Distance of every neighbour; at most that of the edge of its row, up to :data:`TIE`.
        rows, points : ndarray of shape (e,)
            To which row it belongs, in increasing order, and which point it is.
        edges : ndarray of shape (m,)
            Distance at which the size is reached.
        size : float
            Total weight of a neighbourhood.
        """
        at_edge = near >= edges[rows] - TIE
        weights = self.weights[points]
        inside = np.bincount(rows, np.where(at_edge, 0.0, weights), len(edges)).astype(np.float64)
        outermost = np.bincount(rows, np.where(at_edge, weights, 0.0), len(edges)).astype(np.float64)
        shares = np.where(at_edge, _shares(inside, outermost, size)[rows], 1.0)
        starts = np.searchsorted(rows, np.arange(len(edges) + 1))
        sums = csr_matrix((shares, points, starts), shape=(len(edges), len(self.weights))) @ self._columns
        return _quotients(sums)

    def mean_of_many(self, distances: Matrix, edges: Vector, size: float) -> Matrix:
        """Return the means (m, K) over all points that are not beyond the edge, by distances to all (m, u)."""
        taken = (distances <= edges[:, np.newaxis] + TIE).astype(np.float64)
        sums = taken @ self._columns
        # Mostly the edge is the distance of one point that fits in as a whole, and there is nothing to share.
        crowded = np.flatnonzero(sums[:, -1] > size * (1 + ROUNDING))
        if len(crowded):
            near = taken[crowded]
            at_edge = distances[crowded] >= edges[crowded, np.newaxis] - TIE
            outermost = (near * at_edge) @ self.weights
            inside = (near * ~at_edge) @ self.weights
            near *= np.where(at_edge, _shares(inside, outermost, size)[:, np.newaxis], 1.0)
            sums[crowded] = near @ self._columns
        return _quotients(sums)


def _shares(inside: Vector, outermost: Vector, size: float) -> Vector:
    """Return the share of the weight at the edge that still fits in, at most one."""
    with np.errstate(over="ignore"):  # by a weight that is next to nothing
        shares = np.divide(size - inside, outermost, out=np.ones_like(inside), where=outermost > 0)
    return np.clip(shares, 0.0, 1.0)


def _quotients(sums: Matrix) -> Matrix:
    """Return sums of targets over sums of weights; NaN without any neighbour."""
    with np.errstate(invalid="ignore"):
        quotients: Matrix = sums[:, :-1] / sums[:, -1:]
    return quotients


# From this many points for every neighbour on, a list of neighbours is cheaper than a product with many zeros.
SPARSE = 16

LARGEST = float(np.finfo(np.float64).max)

# Processor time for a row and a point, on one core, and what every class adds.
SECONDS_OF_PAIR, SECONDS_OF_CLASS = 3e-9, 6e-11


class NearestMeans(LocalMeans):
    """Weighted means over the nearest points, found by a matrix product and partial sorts.

    The size of a neighbourhood is the total weight of its points. Points are taken in the order of their distance;
    those at the distance at which the size is reached share what is left of it in proportion to their weights. Points
    at an infinite distance are never taken.

    Parameters
    ----------
    distances : Distances
        Knows the points, (u, K).
    weights : ndarray of shape (u,)
        Weight of every point.
    targets : ndarray of shape (u, K)
        What to average.

    Notes
    -----
    For m rows and S sizes O(m u K) for the distances, O(m u) for finding the S distances at which sizes are reached
    (O(m u log u) unless all points weigh the same), and O(m u K) in matrix products for every size that is not
    small beside u. Memory O(m u).

    Examples
    --------
    >>> from calibrant.calibrators.neighbourhood.points import SquaredEuclidean
    >>> points = SquaredEuclidean(np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]))
    >>> near = NearestMeans(points, np.array([1.0, 1.0, 2.0]), np.array([[10.0], [20.0], [30.0]]))
    >>> list(near.means(np.array([[1.0, 0.0]]), [2, 3]))    # the last point counts once of twice: (10 + 20 + 30) / 3
    [array([[15.]]), array([[20.]])]
    """

    def __init__(self, distances: Distances, weights: Vector, targets: Matrix) -> None:
        self._distances = distances
        self._summands = Summands(weights, targets)
        self.numbers_per_row = len(weights)
        self.seconds_per_number = SECONDS_OF_PAIR + SECONDS_OF_CLASS * targets.shape[1]
        self.block_rows = rows_in_a_block(len(weights))

    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        distances = self._distances.ordering(rows)
        found = edges_of_sizes(distances, self._summands.weights, sizes)
        for size, edges in zip(sizes, found, strict=True):
            # Were an infinite distance the edge, those infinitely far would be at it.
            edges = np.minimum(edges, LARGEST)
            if SPARSE * size <= self._summands.total:
                places = np.flatnonzero(distances <= edges[:, np.newaxis] + TIE)
                numbers, points = np.divmod(places, distances.shape[1])
                yield self._summands.mean(distances.ravel()[places], numbers, points, edges, size)
            else:
                yield self._summands.mean_of_many(distances, edges, size)


# Measured: with more classes a query visits too many leaves, and with more neighbours it keeps them sorted for longer
# than a product with all points and a partition of it would take.
MOST_CLASSES = 6
POINTS_PER_NEIGHBOUR = 32


def tree_is_faster(weights: Vector, n_classes: int, largest: float) -> bool:
    """Tell whether a tree finds neighbours up to the largest size sooner than distances to all points do.

    >>> tree_is_faster(np.ones(100_000), 3, 512), tree_is_faster(np.ones(5_000), 3, 512)
    (True, False)
    """
    return n_classes <= MOST_CLASSES and POINTS_PER_NEIGHBOUR * _candidates(weights, largest) <= len(weights)


class NeighbourTreeMeans(LocalMeans):
    """The same means as :class:`NearestMeans` by Euclidean distance, in less than linear time a row.

    The tree gives so many of the nearest points that the size is surely reached, and one more. Where even the last of
    them is at the edge there may be others just as near; such rows are compared with all points.

    Parameters
    ----------
    points : ndarray of shape (u, K)
        Calibration points.
    weights : ndarray of shape (u,)
        Weight of every point.
    targets : ndarray of shape (u, K)
        What to average.
    largest : float
        The largest size that will be asked for.

    Notes
    -----
    About O(log u + k) a row for k neighbours and few classes. Memory O(u K), and that of one block.

    Examples
    --------
    >>> points = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    >>> near = NeighbourTreeMeans(points, np.ones(3), np.array([[10.0], [20.0], [30.0]]), largest=2)
    >>> list(near.means(np.array([[1.0, 0.0]]), [1, 2]))
    [array([[10.]]), array([[15.]])]
    """

    def __init__(self, points: Matrix, weights: Vector, targets: Matrix, largest: float) -> None:
        self._tree = KDTree(points)
        self._targets = targets
        self._summands = Summands(weights, targets)
        self._n_candidates = min(len(weights), _candidates(weights, largest))
        self.numbers_per_row = len(weights)
        self.block_rows = rows_in_a_block(self._n_candidates)

    @cached_property
    def _all(self) -> NearestMeans:
        """Means by distances to all points; most data never need them."""
        points = np.asarray(self._tree.data)
        return NearestMeans(SquaredEuclidean(points), self._summands.weights, self._targets)

    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        near, points = self._tree.query(rows, k=np.arange(1, self._n_candidates + 1))
        near **= 2
        totals = np.cumsum(self._summands.weights[points], axis=1)
        numbers = np.arange(len(rows))
        edges = [near[numbers, places_reached(totals, size)] for size in sizes]
        ends = near[:, -1] if self._n_candidates < len(self._summands.weights) else np.inf
        crowded = np.flatnonzero(np.max(edges, axis=0) + TIE >= ends)
        by_all = self._means_by_all(rows[crowded], sizes) if len(crowded) else None
        for number, (size, edge) in enumerate(zip(sizes, edges, strict=True)):
            places = np.flatnonzero(near <= edge[:, np.newaxis] + TIE)
            mean = self._summands.mean(
                near.ravel()[places], places // near.shape[1], points.ravel()[places], edge, size
            )
            if by_all is not None:
                mean[crowded] = by_all[number]
            yield mean

    def _means_by_all(self, rows: Matrix, sizes: Sequence[float]) -> Matrix:
        """Return the means of some rows by their distances to all points, (S, m, K), a few rows at a time."""
        means = np.empty((len(sizes), len(rows), self._summands.n_targets))
        for start in range(0, len(rows), self._all.block_rows):
            block = slice(start, start + self._all.block_rows)
            for number, mean in enumerate(self._all.means(rows[block], sizes)):
                means[number, block] = mean
        return means


def _candidates(weights: Vector, largest: float) -> int:
    """Return how many points surely weigh the largest size, and one more."""
    return points_to_reach(weights, largest) + 1


class NearestNeighbourCalibration(Neighbourhood):
    r"""Nearest-neighbour calibration (KNN): subtract the mean error of the k nearest calibration rows.

    .. math:: \hat q = \mathrm{crop}\Bigl(\hat p - \frac{1}{k} \sum_{i \in N_k(\hat p)} (\hat p_i - y_i)\Bigr)

    with the calibration rows :math:`\hat p_i`, their labels :math:`y_i` as one-hot rows, and :math:`N_k` the k rows of
    smallest distance: Euclidean, or the Kullback-Leibler divergence
    :math:`\mathrm{KL}(\hat p \,\|\, \hat p_i) = \sum_k \hat p_k \ln (\hat p_k / \hat p_{ik})` from the row to
    calibrate, in which a term is zero if :math:`\hat p_k = 0` and infinite if only :math:`\hat p_{ik} = 0`
    :cite:`valk2022`. Cropping maps rows outside the simplex back to it.

    Parameters
    ----------
    metric : {"kl", "euclidean"}, default="kl"
        Distance between predictions.
    n_neighbours : int, list of int or "auto", default="auto"
        Number k of neighbours, or a list for selection by held-out log-loss; ``"auto"`` is 32, 64, ..., 4096.
    assumption : {"equal-errors", "equal-labels"}, default="equal-errors"
        What similar predictions share: the error, as in the formula above, or the label distribution; then
        :math:`\hat q` is the mean label of the neighbours.
    crop : {"clip", "outside"}, default="clip"
        Clip all entries to [epsilon, 1 - epsilon], as in the thesis, or only replace those below 0 or above 1 by epsilon or
        1 - epsilon, as in its program; then divide by the sum.
    epsilon : float or "auto", default="auto"
        Smallest entry before the division; ``"auto"`` is 1e-4 up to ten classes and 0.01 / K^2 for more.
    cv : int, splitter or list of splits, default=10
        Folds for the selection of ``n_neighbours``: a number of folds, which depend on the content of the rows and not on
        their order, a splitter of scikit-learn, or pairs of train and test rows.
    guard : bool, default=True
        Whether to keep the identity if a correction increases the loss, see the notes; False always applies it.

    Attributes
    ----------
    n_neighbours_ : int
        The selected or given number of neighbours; a number above the total weight of the calibration set means all rows.
    search_ : dict of str to ndarray
        The candidates ``"n_neighbours"``, their mean held-out ``"loss"``, its ``"excess"`` over that of the uncalibrated
        predictions, and the standard error of the excess, ``"excess_error"``; empty without a selection.
    points_ : ndarray of shape (u, K)
        The distinct predictions in the calibration set.
    errors_ : ndarray of shape (u, K)
        Mean of prediction minus label at each point.
    point_weights_ : ndarray of shape (u,)
        Number, or total weight, of calibration rows at each point.
    epsilon_ : float
        Smallest entry before the division.
    identity_kept_ : bool
        Whether the identity is used because the correction increases the loss; no points are stored then.
    floor_of_zeros_ : float
        Replacement of exact zeros in that case: ``epsilon_``, or the floor if that has a lower training loss.

    Notes
    -----
    *Guard.* With ``guard`` the identity is used, except for zeros and with a warning, in two cases. The correction raises the
    training log-loss (on 10,000 of the distinct rows, if there are more). Or a selection of the size shows no held-out gain:
    neither is the log-loss lower by one standard error, nor the Brier score by two while the log-loss is not higher by
    two. Rows with equal predictions are held out together, so that no held-out row has a duplicate among its neighbours;
    splits of a splitter are used as they are.

    *Ties and weights.* k counts weights: a row of weight 2 is two neighbours, one of weight 0.1 a tenth of one. Weights with a
    mean below 1, such as weights with sum 1, are relative and are rescaled to mean 1. Rows at the distance at which k is
    reached share the remainder in proportion to their weights. Divergences, or squared Euclidean distances, that differ by
    at most 1e-12 are equal. So the result depends neither on the order of the rows nor on rounding. The program of the
    thesis takes an arbitrary selection of equally near rows, and distinguishes Euclidean distances below 1e-6, which are
    rounding errors for certain rows in float32. With fewer than k rows, all of them are neighbours, except rows at an
    infinite distance. A prediction without neighbours is only cropped. Sizes that include all rows of every fold are
    equivalent, and evaluated once.

    *Zeros.* If a classifier gives many exact zeros, as random forests do, most rows have few neighbours by the divergence:
    only rows with a positive probability for every class of the row's support. Use ``knn-euclidean`` then, or a temperature
    first, which removes zeros: ``temperature+knn-kl``.

    *Sample size.* The method is non-parametric and needs a large calibration set: hundreds of rows for every corner of the
    simplex with predictions. It is best after a parametric method, as in ``temperature+knn-kl``. The predicted class may
    change.

    *Cost.* With u distinct calibration rows, distances of m rows cost O(m u K) in matrix products, and the search for the
    k-th neighbour O(m u) for all k together. A selection by F folds costs one such pass over all rows, and two additional
    products per k. For few Euclidean neighbours among many rows of up to six classes, a tree finds them in about
    O(log u + k) per row. Temporaries are a few blocks of about a million distances, or of four rows of them.

    Examples
    --------
    >>> fitted = NearestNeighbourCalibration(n_neighbours=4).fit([[0.9, 0.1]] * 4 + [[0.2, 0.8]], [0, 0, 0, 1, 1])
    >>> fitted.predict_proba([[0.9, 0.1], [0.8, 0.2]]).round(4)       # three of four correct at 0.9
    array([[0.75, 0.25], [0.65, 0.35]])
    """

    fit_cost: ClassVar[FitCost | None] = FitCost(
        0.05, rows=2.0, classes=0.5, linear_from=MOST_JUDGED, copies=8.0
    )
    traits = Traits(contains_identity=True)
    structure: ClassVar[tuple[str, ...]] = (*Neighbourhood.structure, "metric")
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {
        "knn-kl": {},
        "knn-euclidean": {"metric": "euclidean"},
    }
    _size_name = "n_neighbours"

    n_neighbours_: int

    def __init__(
        self,
        metric: Literal["kl", "euclidean"] = "kl",
        n_neighbours: int | Sequence[int] | Literal["auto"] = "auto",
        assumption: Assumption = "equal-errors",
        crop: Crop = "clip",
        epsilon: float | Literal["auto"] = "auto",
        cv: Any = 10,
        guard: bool = True,
    ) -> None:
        self.metric = metric
        self.n_neighbours = n_neighbours
        self.assumption = assumption
        self.crop = crop
        self.epsilon = epsilon
        self.cv = cv
        self.guard = guard

    def _grid(self) -> list[float]:
        return [2**exponent for exponent in range(5, 13)]

    def _check_options(self) -> None:
        check_choice("metric", self.metric, ("kl", "euclidean"))

    def _check_size(self, size: Any) -> None:
        check_whole("n_neighbours", size)

    def _different_sizes(self, sizes: list[float], most: float) -> list[float]:
        return [size for size in sizes if size < most] + [size for size in sizes if size >= most][:1]

    def _local_means(
        self, points: Points, targets: NDArray[np.float64], sizes: Sequence[float]
    ) -> LocalMeans:
        probabilities = points.probabilities.astype(np.float64, copy=False)
        if self._setting("metric") == "kl":
            return NearestMeans(KullbackLeibler(probabilities), points.weights, targets)
        if tree_is_faster(points.weights, probabilities.shape[1], max(sizes)):
            return NeighbourTreeMeans(probabilities, points.weights, targets, max(sizes))
        return NearestMeans(SquaredEuclidean(probabilities), points.weights, targets)
