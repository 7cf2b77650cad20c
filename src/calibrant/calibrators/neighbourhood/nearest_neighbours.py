"""Nearest-neighbour calibration: the mean error of the nearest calibration rows is taken away."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Traits
from calibrant.calibrators.neighbourhood.crop import Crop
from calibrant.calibrators.neighbourhood.distances import KullbackLeibler, SquaredEuclidean
from calibrant.calibrators.neighbourhood.local_means import LocalMeans
from calibrant.calibrators.neighbourhood.nearest_means import NearestMeans
from calibrant.calibrators.neighbourhood.neighbour_tree import NeighbourTreeMeans, tree_is_faster
from calibrant.calibrators.neighbourhood.neighbourhood import Assumption, Neighbourhood
from calibrant.calibrators.neighbourhood.points import Points
from calibrant.options import check_choice, check_whole

__all__ = ["NearestNeighbourCalibration"]


class NearestNeighbourCalibration(Neighbourhood):
    r"""Take away the mean error of the k calibration rows that are nearest (KNN calibration).

    .. math:: \hat q = \mathrm{crop}\Bigl(\hat p - \frac{1}{k} \sum_{i \in N_k(\hat p)} (\hat p_i - y_i)\Bigr)

    with the calibration rows :math:`\hat p_i`, their labels :math:`y_i` as one-hot rows, and :math:`N_k` the k rows of
    lowest distance: Euclidean, or the divergence
    :math:`\mathrm{KL}(\hat p \,\|\, \hat p_i) = \sum_k \hat p_k \ln (\hat p_k / \hat p_{ik})` from the row that is to be
    calibrated, in which a term is zero if :math:`\hat p_k = 0` and infinite if only :math:`\hat p_{ik} = 0`
    :cite:`valk2022`. Cropping brings rows that left the simplex back to it.

    Parameters
    ----------
    metric : {"kl", "euclidean"}, default="kl"
        How far two predictions are from each other.
    n_neighbours : int, list of int or "auto", default="auto"
        Number k of neighbours, or those to choose from by held-out log-loss; ``"auto"`` are 32, 64, ..., 4096.
    assumption : {"equal-errors", "equal-labels"}, default="equal-errors"
        What near predictions have in common: the error, as in the formula above, or the distribution of the label; in
        that case :math:`\hat q` is the mean label of the neighbours.
    crop : {"clip", "outside"}, default="clip"
        Move all entries into [epsilon, 1 - epsilon], as the thesis says, or only those below 0 or above 1 to epsilon or
        1 - epsilon, as its program does; then divide by the sum.
    epsilon : float or "auto", default="auto"
        Smallest entry before the division; ``"auto"`` is 1e-4 up to ten classes and 0.01 / K^2 for more.
    cv : int, splitter or list of splits, default=10
        How rows are held out where there is a choice of ``n_neighbours``: a number of folds that depend on what the
        rows contain and not on their order, a splitter of scikit-learn, or pairs of train and test rows.
    guard : bool, default=True
        Whether to keep the identity where a correction would do harm, see the notes; False applies it all the same.

    Attributes
    ----------
    n_neighbours_ : int
        Number of neighbours in use. A number that was given stays as it is; one above the total weight of the
        calibration rows means all of them.
    search_ : dict of str to ndarray
        ``"n_neighbours"`` that were tried, their mean ``"loss"`` on rows held out, its ``"excess"`` over that of doing
        nothing, and the standard error of the excess, ``"excess_error"``; empty if there was no choice.
    points_ : ndarray of shape (u, K)
        The different calibration rows.
    errors_ : ndarray of shape (u, K)
        Mean of prediction less label at each of them.
    point_weights_ : ndarray of shape (u,)
        Number, or total weight, of calibration rows at each of them.
    epsilon_ : float
        Smallest entry before the division.
    identity_kept_ : bool
        Whether predictions stay as they are, because the correction would do harm; no points are stored then.
    floor_of_zeros_ : float
        What exact zeros count as then: ``epsilon_``, or the floor if the calibration rows like it better.

    Notes
    -----
    With ``guard``, predictions stay as they came, zeros apart, and a warning says so, if the correction raises the log-loss of
    the calibration rows themselves (of 10,000 of the different ones, if there are more), or if rows held out show no gain
    where there is a choice of size: neither a log-loss lower by a standard error, nor a Brier score lower by two while
    log-loss is not higher by two. All rows with the same prediction are held out together, so that no row is judged by a
    copy of itself; a splitter is taken at its word.

    k counts rows by their weights: a row of weight two is two neighbours, one of weight 0.1 a tenth of one. Weights that
    average below one, such as those that sum to one, say which rows matter more and not how many there are; they are
    first scaled up to average one. Rows are taken in the order of distance; those at the distance where k is reached
    share what is left of it in proportion to their weights. Divergences, or squared Euclidean distances, that differ by
    no more than 1e-12 are equal. So neither the order of rows nor the rounding of distances decides anything. The
    thesis's program takes any k of those that are equally near, and resolves Euclidean distances below 1e-6, which are
    rounding among rows that are certain in float32. With fewer than k rows, all of them are neighbours. A row at an
    infinite distance never is; a prediction without any neighbour stays as it is, up to cropping. Sizes
    which take in all rows of every fold are one and the same, and tried once.

    A classifier that gives many exact zeros, as random forests do, leaves most rows few neighbours by the divergence:
    only those that give something to every class to which the row itself gives something. Take ``knn-euclidean`` there,
    or a temperature first, which leaves no zeros: ``temperature+knn-kl``.

    The method knows no shape and therefore needs many rows: hundreds for every corner of the simplex in which
    predictions fall. It is at its best after a parametric method, as in ``temperature+knn-kl``. The predicted class may
    change.

    With u different calibration rows, distances of m rows cost O(m u K) in matrix products, and the search for the
    k-th of them O(m u) for all k at once; a choice by F folds costs one such pass over all rows, and two products
    more for every k. Where Euclidean neighbours are few among many rows of up to six classes, a tree finds them in
    about O(log u + k) a row. Temporaries are a few blocks of about a million distances, or of four rows of them.

    Examples
    --------
    >>> fitted = NearestNeighbourCalibration(n_neighbours=4).fit([[0.9, 0.1]] * 4 + [[0.2, 0.8]], [0, 0, 0, 1, 1])
    >>> fitted.predict_proba([[0.9, 0.1], [0.8, 0.2]]).round(4)       # three of four right at 0.9
    array([[0.75, 0.25], [0.65, 0.35]])
    """

    traits = Traits(contains_identity=True)
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
        if self.metric == "kl":
            return NearestMeans(KullbackLeibler(probabilities), points.weights, targets)
        if tree_is_faster(points.weights, probabilities.shape[1], max(sizes)):
            return NeighbourTreeMeans(probabilities, points.weights, targets, max(sizes))
        return NearestMeans(SquaredEuclidean(probabilities), points.weights, targets)
