"""Kernel calibration: the error of all calibration rows, weighted by how close they are, is taken away."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Traits
from calibrant.calibrators.neighbourhood.crop import Crop
from calibrant.calibrators.neighbourhood.kernel_means import KernelMeans
from calibrant.calibrators.neighbourhood.kernel_values import SimplexKernel, check_bandwidth
from calibrant.calibrators.neighbourhood.kernel_weights import (
    DirichletAroundPoints,
    DirichletAroundRows,
    GaussianBell,
)
from calibrant.calibrators.neighbourhood.local_means import LocalMeans
from calibrant.calibrators.neighbourhood.neighbourhood import Assumption, Neighbourhood
from calibrant.calibrators.neighbourhood.points import Points
from calibrant.options import check_choice

__all__ = ["KernelCalibration"]


class KernelCalibration(Neighbourhood):
    r"""Take away the mean error of all calibration rows, weighted by a kernel of how close they are.

    .. math:: \hat q = \mathrm{crop}\Bigl(\hat p -
              \frac{\sum_i w_i K(\hat p, \hat p_i) (\hat p_i - y_i)}{\sum_i w_i K(\hat p, \hat p_i)}\Bigr)

    with the calibration rows :math:`\hat p_i`, their labels :math:`y_i` as one-hot rows, their weights :math:`w_i`, and a
    kernel

    .. math::

        K_\mathrm{RBF}(\hat p, \hat p_i) = \exp(-\gamma \|\hat p - \hat p_i\|_2^2), \qquad
        K_\mathrm{DIR}(\hat p, \hat p_i) = \frac{\Gamma(\sum_k \alpha_k)}{\prod_k \Gamma(\alpha_k)}
        \prod_k \hat p_{ik}^{\alpha_k - 1}, \quad \alpha = \hat p / h + 1

    as in :cite:`valk2022`; the second, by :cite:`ouimet2022`, is a density on the simplex that is narrow near its corners
    and wide in its middle. Cropping brings rows that left the simplex back to it.

    Parameters
    ----------
    kernel : {"dirichlet", "rbf"}, default="dirichlet"
        Which of the two.
    bandwidth : float, list of float or "auto", default="auto"
        h of the Dirichlet kernel, with which neighbourhoods grow, or :math:`\gamma` of the other, with which they
        *shrink*; or those to choose from by held-out log-loss. ``"auto"`` are :math:`1.6 \cdot 2^j` with j from -9 to 6.
    centre : {"prediction", "calibration"}, default="prediction"
        Where the Dirichlet kernel has its mode: at the row that is to be calibrated, as in the formula above, or at the
        calibration row, as in the program of the thesis: :math:`\hat p` and :math:`\hat p_i` change places. No matter for
        the other kernel, which is symmetric.
    assumption : {"equal-errors", "equal-labels"}, default="equal-errors"
        What near predictions have in common: the error, as in the formula above, or the distribution of the label; in
        that case :math:`\hat q` is the weighted mean label.
    crop : {"clip", "outside"}, default="clip"
        Move all entries into [epsilon, 1 - epsilon], as the thesis says, or only those below 0 or above 1 to epsilon or
        1 - epsilon, as its program does; then divide by the sum.
    epsilon : float or "auto", default="auto"
        Smallest entry before the division; ``"auto"`` is 1e-4 up to ten classes and 0.01 / K^2 for more.
    cv : int, splitter or list of splits, default=10
        How rows are held out where there is a choice of ``bandwidth``: a number of folds that depend on what the rows
        contain and not on their order, a splitter of scikit-learn, or pairs of train and test rows.
    guard : bool, default=True
        Whether to keep the identity where a correction would do harm, see the notes; False applies it all the same.

    Attributes
    ----------
    bandwidth_ : float
        Bandwidth in use.
    search_ : dict of str to ndarray
        ``"bandwidth"`` that were tried, their mean ``"loss"`` on rows held out, its ``"excess"`` over that of doing
        nothing, and the standard error of the excess, ``"excess_error"``; empty if there was no choice.
    points_, errors_, point_weights_, epsilon_, identity_kept_, floor_of_zeros_
        As in :class:`NearestNeighbourCalibration`.

    Notes
    -----
    The guard, and how rows are held out where there is a choice of ``bandwidth``, are described in
    :class:`NearestNeighbourCalibration`.

    In the first form of the Dirichlet kernel the normalising constant belongs to the row and cancels: the weights are
    :math:`\exp(-\mathrm{KL}(\hat p \,\|\, \hat p_i) / h)`. In the second it belongs to the calibration row, and raises the
    weight of those in the corners. Of the published figures, those for DenseNet-40 and ResNet-110 on CIFAR-10 are found
    with what the program does, ``centre="calibration"`` and ``crop="outside"``, while the formula in the text gives
    others; neither is better by all measures. :func:`~calibrant.calibrators.neighbourhood.kernel_values.kernel_values`
    has the kernels themselves, with all constants.

    A zero is taken at its word: with ``centre="prediction"`` a calibration row that gives a class nothing is no neighbour
    of a row that gives it something, with ``centre="calibration"`` the other way round. A row without any neighbour stays
    as it is, up to cropping. Weights are relative to that of the nearest row and taken from logarithms, so that no
    bandwidth makes all of them zero; far from all calibration rows the nearest ones decide.

    The method knows no shape and therefore needs many rows, the more the more classes there are. With three classes and
    thousands of rows it does well alone; with ten or more it is at its best after a parametric method, as in
    ``temperature+kernel-dirichlet``. The predicted class may change.

    With u different calibration rows, m rows cost O(m u K) in two matrix products and one exponential for each pair. A
    choice by folds costs one such pass over all rows; of bandwidths that double from one to the next, all
    exponentials but one in nine are squares of those before, and each takes one product more. Temporaries are a few
    blocks of about a million pairs.

    Examples
    --------
    Rows at 0.9 that are right in seven cases of ten, and honest ones at 0.3: the further from the first, the smaller
    the correction.

    >>> p = [[0.9, 0.1]] * 10 + [[0.3, 0.7]] * 10
    >>> y = [0] * 7 + [1] * 3 + [0] * 3 + [1] * 7
    >>> fitted = KernelCalibration(bandwidth=0.2).fit(p, y)
    >>> fitted.predict_proba([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [0.3, 0.7]]).round(3)
    array([[0.704, 0.296], [0.557, 0.443], [0.479, 0.521], [0.299, 0.701]])
    """

    traits = Traits(contains_identity=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {
        "kernel-dirichlet": {},
        "kernel-rbf": {"kernel": "rbf"},
    }
    _size_name = "bandwidth"

    bandwidth_: float

    def __init__(
        self,
        kernel: SimplexKernel = "dirichlet",
        bandwidth: float | Sequence[float] | Literal["auto"] = "auto",
        centre: Literal["prediction", "calibration"] = "prediction",
        assumption: Assumption = "equal-errors",
        crop: Crop = "clip",
        epsilon: float | Literal["auto"] = "auto",
        cv: Any = 10,
        guard: bool = True,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.centre = centre
        self.assumption = assumption
        self.crop = crop
        self.epsilon = epsilon
        self.cv = cv
        self.guard = guard

    def _grid(self) -> list[float]:
        return [1.6 * 2.0**exponent for exponent in range(-9, 7)]

    def _check_options(self) -> None:
        check_choice("kernel", self.kernel, ("dirichlet", "rbf"))
        check_choice("centre", self.centre, ("prediction", "calibration"))

    def _check_size(self, size: Any) -> None:
        check_bandwidth(size)

    def _local_means(
        self, points: Points, targets: NDArray[np.float64], sizes: Sequence[float]
    ) -> LocalMeans:
        if self.kernel == "rbf":
            return KernelMeans.among(points, targets, sizes, GaussianBell)
        around = DirichletAroundRows if self.centre == "prediction" else DirichletAroundPoints
        return KernelMeans.among(points, targets, sizes, around)
