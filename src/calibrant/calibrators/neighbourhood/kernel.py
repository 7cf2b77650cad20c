"""Kernel calibration: subtract a kernel-weighted mean of the calibration errors."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from calibrant.arrays import Matrix, Vector
from calibrant.calibrator import Traits
from calibrant.calibrators.neighbourhood.neighbourhood import (
    MOST_JUDGED,
    Assumption,
    LocalMeans,
    Neighbourhood,
)
from calibrant.calibrators.neighbourhood.points import (
    BLOCK_ENTRIES,
    Crop,
    KullbackLeibler,
    Points,
    SquaredEuclidean,
)
from calibrant.errors import ParameterError
from calibrant.fit_cost import FitCost
from calibrant.numerics.row_blocks import in_threads, row_blocks
from calibrant.options import check_choice, check_flag, is_number
from calibrant.predictions import Predictions

__all__ = ["KernelCalibration"]

SimplexKernel = Literal["dirichlet", "rbf"]
"""``"dirichlet"`` is the density of a Dirichlet distribution, ``"rbf"`` a Gaussian kernel."""

LARGEST = float(np.finfo(np.float64).max)

# From here on Stirling's series has twelve digits, while the difference of its two sides loses them.
STIRLING = 1e3


@dataclass(frozen=True, eq=False)
class KernelWeights(ABC):
    r"""A kernel of the form :math:`c_i(s) \, e^{-r(s) \, d(p, p_i)}`, with a rate r and factors c that depend on its size s.

    Factors that are equal for all points cancel in means and are omitted.
    """

    points: Matrix

    @abstractmethod
    def distances(self, rows: Matrix) -> Matrix:
        """Return d of every row to every point, (m, u), as a new array; infinite where the kernel is zero."""

    @abstractmethod
    def rate(self, size: float) -> float:
        """Return the rate r for a size."""

    def log_factors(self, size: float) -> Vector | None:  # noqa: ARG002 (most kernels have none)
        """Return the logarithm of c for every point, (u,), or None where all are one."""
        return None


@dataclass(frozen=True, eq=False)
class GaussianWeights(KernelWeights):
    r""":math:`\exp(-\gamma \|p - p_i\|_2^2)`; the size is :math:`\gamma`."""

    @cached_property
    def _squares(self) -> SquaredEuclidean:
        return SquaredEuclidean(self.points)

    def distances(self, rows: Matrix) -> Matrix:
        return self._squares.of(rows)

    def rate(self, size: float) -> float:
        return size


@dataclass(frozen=True, eq=False)
class DirichletAroundRows(KernelWeights):
    r"""Density at the point of a Dirichlet distribution around the row, :math:`\alpha = p / h + 1`; the size is h.

    Its normalising constant belongs to the row and cancels, so does the row's entropy; what is left is
    :math:`\exp(-\mathrm{KL}(p \,\|\, p_i) / h)`.
    """

    @cached_property
    def _divergence(self) -> KullbackLeibler:
        return KullbackLeibler(self.points)

    def distances(self, rows: Matrix) -> Matrix:
        return self._divergence.ordering(rows)

    def rate(self, size: float) -> float:
        return min(1 / size, LARGEST)


@dataclass(frozen=True, eq=False)
class DirichletAroundPoints(KernelWeights):
    r"""Density at the row of a Dirichlet distribution around the point, :math:`\alpha = p_i / h + 1`; the size is h.

    That is :math:`\exp(-\mathrm{KL}(p_i \,\|\, p) / h)` times a factor of the point, large in the corners of the simplex
    and small inside.
    """

    def distances(self, rows: Matrix) -> Matrix:
        return KullbackLeibler(rows).ordering(self.points).T

    def rate(self, size: float) -> float:
        return min(1 / size, LARGEST)

    def log_factors(self, size: float) -> Vector:
        r"""Return :math:`\sum_k (x_k \ln x_k - x_k - \ln \Gamma(x_k + 1))` with :math:`x = p_i / h`."""
        blocks = row_blocks(*self.points.shape)
        return np.concatenate([_stirling_gaps(self.points[rows], size).sum(axis=1) for rows in blocks])


def _stirling_gaps(points: Matrix, size: float) -> Matrix:
    """Return x ln x - x - ln Gamma(x + 1) for x = points / size, without loss of digits where x is large."""
    with np.errstate(over="ignore"):
        x = np.minimum(points / size, LARGEST)
    far = x > STIRLING
    large, near = x[far], np.where(far, 0.0, x)
    gaps: Matrix = xlogy(near, near) - near - gammaln(near + 1)
    gaps[far] = -0.5 * (np.log(2 * np.pi) + np.log(large)) - 1 / 12 / large
    return gaps


# Squarings in a row: each doubles the relative error, so that these leave thirteen digits.
SQUARINGS = 8

# Factors of points that are further apart than exp of this are put into the exponent: a product of two numbers that
# are each above exp(-708) is then still a number.
WIDEST_FACTORS = 300.0


class KernelMeans(LocalMeans):
    """Means of targets (u, K) at points, each weighing its own weight times the kernel.

    Parameters
    ----------
    kernel : KernelWeights
        The kernel, with the points.
    targets : ndarray of shape (u, K)
        What is averaged.
    weights : ndarray of shape (u,)
        Weights of the points.
    sizes : sequence of float
        The sizes for which means will be asked.
    """

    def __init__(
        self, kernel: KernelWeights, targets: Matrix, weights: Vector, sizes: Sequence[float]
    ) -> None:
        self._kernel = kernel
        factors = in_threads(kernel.log_factors, sizes, kernel.points.size)
        self._log_factors = dict(zip(sizes, factors, strict=True))
        # The last column adds up the weights in the same product.
        self._loads = np.column_stack([targets * weights[:, np.newaxis], weights])
        self.numbers_per_row = len(weights)
        self.block_rows = max(1, BLOCK_ENTRIES // max(len(weights), len(sizes) * self._loads.shape[1]))

    @classmethod
    def among(
        cls, points: Points, targets: Matrix, sizes: Sequence[float], kernel: type[KernelWeights]
    ) -> "KernelMeans":
        """Return means of targets at calibration points by a kernel of some kind."""
        return cls(kernel(points.probabilities.astype(np.float64)), targets, points.weights, sizes)

    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        distances = self._kernel.distances(rows)
        nearest = distances.min(axis=1, keepdims=True)
        # Weights are relative to that of the nearest point, which is then never zero; a row that is infinitely far
        # from all points has no neighbour.
        distances -= np.where(np.isfinite(nearest), nearest, 0.0)
        rates = [self._kernel.rate(size) for size in sizes]
        found: dict[int, Matrix] = {}
        for number, weights in _powers(distances, rates):
            factors = self._log_factors[sizes[number]]
            if factors is not None:
                weights = _multiplied(weights, factors, distances, rates[number])
            sums = weights @ self._loads
            with np.errstate(invalid="ignore"):
                found[number] = sums[:, :-1] / sums[:, -1:]
        return (found[number] for number in range(len(sizes)))


def _powers(distances: Matrix, rates: Sequence[float]) -> Iterator[tuple[int, Matrix]]:
    """Yield the number of every rate and exp(-rate d), from the lowest rate to the highest; the array is used again.

    A rate that is twice the one before squares its exponentials, which costs a tenth of new ones.
    """
    order = np.argsort(rates, kind="stable").tolist()
    weights = np.empty_like(distances)
    before, squarings = np.nan, SQUARINGS
    for number in order:
        rate = rates[number]
        with np.errstate(under="ignore", over="ignore"):
            if rate == 2 * before and squarings < SQUARINGS:
                np.multiply(weights, weights, out=weights)
                squarings += 1
            else:
                np.multiply(distances, -rate, out=weights)
                np.exp(weights, out=weights)
                squarings = 0
        before = rate
        yield number, weights


def _multiplied(weights: Matrix, log_factors: Vector, distances: Matrix, rate: float) -> Matrix:
    """Return weights exp(-rate d) times the factors of points, up to a constant for every row."""
    highest = log_factors.max()
    if highest - log_factors.min() <= WIDEST_FACTORS:
        multiplied: Matrix = weights * np.exp(log_factors - highest)
        return multiplied
    with np.errstate(over="ignore"):
        exponents = log_factors - rate * distances
    highest_of_rows = exponents.max(axis=1, keepdims=True)
    exponents -= np.where(np.isfinite(highest_of_rows), highest_of_rows, 0.0)
    return np.exp(exponents, out=exponents)


class KernelCalibration(Neighbourhood):
    r"""Kernel calibration: subtract the kernel-weighted mean error of the calibration rows.

    .. math:: \hat q = \mathrm{crop}\Bigl(\hat p -
              \frac{\sum_i w_i K(\hat p, \hat p_i) (\hat p_i - y_i)}{\sum_i w_i K(\hat p, \hat p_i)}\Bigr)

    with the calibration rows :math:`\hat p_i`, their labels :math:`y_i` as one-hot rows, their weights :math:`w_i`, and a
    kernel

    .. math::

        K_\mathrm{RBF}(\hat p, \hat p_i) = \exp(-\gamma \|\hat p - \hat p_i\|_2^2), \qquad
        K_\mathrm{DIR}(\hat p, \hat p_i) = \frac{\Gamma(\sum_k \alpha_k)}{\prod_k \Gamma(\alpha_k)}
        \prod_k \hat p_{ik}^{\alpha_k - 1}, \quad \alpha = \hat p / h + 1

    as in :cite:`valk2022`; the second, by :cite:`ouimet2022`, is a density on the simplex that is narrow near its corners
    and wide in its centre. Cropping maps rows outside the simplex back to it.

    Parameters
    ----------
    kernel : {"dirichlet", "rbf"}, default="dirichlet"
        The kernel.
    bandwidth : float, list of float or "auto", default="auto"
        Bandwidth h of the Dirichlet kernel, with which neighbourhoods grow, or :math:`\gamma` of the other, with which they
        *shrink*; or a list for selection by held-out log-loss. ``"auto"`` is :math:`1.6 \cdot 2^j` with j from -9 to 6.
    centre : {"prediction", "calibration"}, default="prediction"
        Mode of the Dirichlet kernel: the row to calibrate, as in the formula above, or the calibration row, as in the program
        of the thesis, which exchanges :math:`\hat p` and :math:`\hat p_i`. No effect on the other kernel, which is symmetric.
    assumption : {"equal-errors", "equal-labels"}, default="equal-errors"
        What similar predictions share: the error, as in the formula above, or the label distribution; then
        :math:`\hat q` is the weighted mean label.
    crop : {"clip", "outside"}, default="clip"
        Clip all entries to [epsilon, 1 - epsilon], as in the thesis, or only replace those below 0 or above 1 by epsilon or
        1 - epsilon, as in its program; then divide by the sum.
    epsilon : float or "auto", default="auto"
        Smallest entry before the division; ``"auto"`` is 1e-4 up to ten classes and 0.01 / K^2 for more.
    cv : int, splitter or list of splits, default=10
        Folds for the selection of ``bandwidth``: a number of folds, which depend on the content of the rows and not on their
        order, a splitter of scikit-learn, or pairs of train and test rows.
    guard : bool, default=True
        Whether to keep the identity if a correction increases the loss, see the notes; False always applies it.

    Attributes
    ----------
    bandwidth_ : float
        The selected bandwidth.
    search_ : dict of str to ndarray
        The candidates ``"bandwidth"``, their mean held-out ``"loss"``, its ``"excess"`` over that of the uncalibrated
        predictions, and the standard error of the excess, ``"excess_error"``; empty without a selection.
    points_, errors_, point_weights_, epsilon_, identity_kept_, floor_of_zeros_
        As in :class:`NearestNeighbourCalibration`.

    Notes
    -----
    The guard and the folds for the selection of ``bandwidth`` are described in :class:`NearestNeighbourCalibration`.

    With ``centre="prediction"`` the normalising constant of the Dirichlet kernel depends only on the row and cancels: the
    weights are :math:`\exp(-\mathrm{KL}(\hat p \,\|\, \hat p_i) / h)`. With ``centre="calibration"`` it depends on the
    calibration row and increases the weights in the corners. The published figures for DenseNet-40 and ResNet-110 on
    CIFAR-10 are those of the program, ``centre="calibration"`` and ``crop="outside"``; the formula in the text gives
    different ones, and neither is better by all measures.
    :func:`~calibrant.calibrators.neighbourhood.kernel.kernel_values` returns the kernels with all constants.

    Zeros are exact: with ``centre="prediction"`` a calibration row with probability 0 for a class is no neighbour of a row
    with a positive one, with ``centre="calibration"`` vice versa. A row without neighbours is only cropped. Weights are
    computed from logarithms relative to the nearest row, so they never all underflow; far from all calibration rows the
    nearest ones dominate.

    The method is non-parametric and needs a large calibration set, the more classes the larger. With three classes and
    thousands of rows it does well alone; with ten or more it is best after a parametric method, as in
    ``temperature+kernel-dirichlet``. The predicted class may change.

    With u distinct calibration rows, m rows cost O(m u K) in two matrix products and one exponential per pair. The
    selection costs one such pass over all rows; for bandwidths that double, all exponentials but one in nine are squares of
    previous ones, and each takes one additional product. Temporaries are a few blocks of about a million pairs.

    Examples
    --------
    Rows at 0.9 that are correct in seven of ten cases, and calibrated ones at 0.3: the correction decreases with the
    distance from the first.

    >>> p = [[0.9, 0.1]] * 10 + [[0.3, 0.7]] * 10
    >>> y = [0] * 7 + [1] * 3 + [0] * 3 + [1] * 7
    >>> fitted = KernelCalibration(bandwidth=0.2).fit(p, y)
    >>> fitted.predict_proba([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [0.3, 0.7]]).round(3)
    array([[0.704, 0.296], [0.557, 0.443], [0.479, 0.521], [0.299, 0.701]])
    """

    fit_cost: ClassVar[FitCost | None] = FitCost(
        0.037, rows=2.0, classes=0.5, linear_from=MOST_JUDGED, copies=8.0
    )
    traits = Traits(contains_identity=True)
    structure: ClassVar[tuple[str, ...]] = (*Neighbourhood.structure, "kernel")
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
        if self._setting("kernel") == "rbf":
            return KernelMeans.among(points, targets, sizes, GaussianWeights)
        around = DirichletAroundRows if self.centre == "prediction" else DirichletAroundPoints
        return KernelMeans.among(points, targets, sizes, around)


def check_bandwidth(bandwidth: Any) -> None:
    """Refuse all but positive finite numbers.

    >>> check_bandwidth(True)
    Traceback (most recent call last):
    calibrant.errors.ParameterError: bandwidth must be a positive number, a list of such or 'auto', but True is not a
    number.
    """
    if not is_number(bandwidth):
        fault = "a number"
    elif not 0 < bandwidth < np.inf:
        fault = "positive and finite"
    else:
        return
    raise ParameterError(
        f"bandwidth must be a positive number, a list of such or 'auto', but {bandwidth!r} is not {fault}."
    )


def kernel_values(
    first: Any,
    second: Any,
    kernel: SimplexKernel = "dirichlet",
    bandwidth: float = 0.1,
    *,
    logarithms: bool = False,
) -> NDArray[np.float64]:
    r"""Kernel of every pair of two sets of predictions, normalising constants included.

    .. math::

        K_\mathrm{RBF}(p, q) = \exp(-\gamma \|p - q\|_2^2), \qquad
        K_\mathrm{DIR}(p, q) = \frac{\Gamma(\sum_k \alpha_k)}{\prod_k \Gamma(\alpha_k)} \prod_k q_k^{\alpha_k - 1},
        \quad \alpha = p / h + 1

    The second is the density at q of a Dirichlet distribution with its mode at p, :cite:`ouimet2022` as used in
    :cite:`valk2022`; exchanging p and q changes it.

    Parameters
    ----------
    first : array of shape (m, K)
        Predictions p, the centres of the kernel.
    second : array of shape (u, K)
        Predictions q, at which the kernel is evaluated.
    kernel : {"dirichlet", "rbf"}, default="dirichlet"
        The kernel.
    bandwidth : float, default=0.1
        h of the Dirichlet kernel, :math:`\gamma` of the other.
    logarithms : bool, default=False
        Return natural logarithms, which neither overflow nor underflow; densities of many classes do.

    Returns
    -------
    ndarray of shape (m, u)

    Notes
    -----
    If :math:`q_k = 0`, the density is zero for :math:`p_k > 0`, and the entry has no effect for :math:`p_k = 0`. A direct
    evaluation of the formula in O(m u K), for plots and tests; :class:`~calibrant.KernelCalibration` omits constants
    that cancel and uses matrix products.

    Examples
    --------
    The Dirichlet kernel extends further into the centre of the simplex than into its corner.

    >>> kernel_values([[0.75, 0.2, 0.05]], [[0.75, 0.2, 0.05], [0.85, 0.1, 0.05], [0.65, 0.3, 0.05]]).round(2)
    array([[19.91, 12.73, 15.32]])
    """
    check_choice("kernel", kernel, ("dirichlet", "rbf"))
    check_bandwidth(bandwidth)
    check_flag("logarithms", logarithms)
    p = Predictions.parse(first).probabilities.astype(np.float64)
    q = Predictions.parse(second).probabilities.astype(np.float64)
    if p.shape[1] != q.shape[1]:
        raise ParameterError(
            f"first and second must have the same classes, but have {p.shape[1]} and {q.shape[1]} columns."
        )
    values = np.empty((len(p), len(q)))
    step = max(1, BLOCK_ENTRIES // q.size)
    with np.errstate(over="ignore", divide="ignore"):
        for start in range(0, len(p), step):
            centres = p[start : start + step, np.newaxis]
            if kernel == "rbf":
                values[start : start + step] = -bandwidth * ((centres - q) ** 2).sum(axis=2)
            else:
                powers = centres / bandwidth
                constants = gammaln((powers + 1).sum(axis=2)) - gammaln(powers + 1).sum(axis=2)
                values[start : start + step] = constants + xlogy(powers, q).sum(axis=2)
        return values if logarithms else np.exp(values, out=values)
