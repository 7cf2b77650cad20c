"""Calibration points: distinct predictions with weights and mean errors, their distances, and cropping."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.errors import ParameterError
from calibrant.graph import Value
from calibrant.graph.curves import Piecewise
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.kernels import content_order, starts_of_equals
from calibrant.options import check_choice, is_number

__all__ = [
    "BLOCK_ENTRIES",
    "Crop",
    "Distances",
    "KullbackLeibler",
    "Points",
    "SquaredEuclidean",
    "check_crop",
    "cropped",
    "rows_in_a_block",
    "settled_epsilon",
    "traced_crop",
]


@dataclass(frozen=True, eq=False)
class Points:
    """Distinct predictions, in an order that depends only on their content.

    A repeated row and a row of weight 2 are the same point, so methods on points do not distinguish them, and do not depend
    on the order of the rows.

    Attributes
    ----------
    probabilities : ndarray of shape (u, K)
        The distinct predictions, in their float type.
    errors : ndarray of shape (u, K)
        Weighted mean of prediction minus one-hot label over the calibration rows with this prediction.
    weights : ndarray of shape (u,)
        Total weight of these rows.

    Examples
    --------
    >>> data = LabelledPredictions.parse([[0.75, 0.25], [0.25, 0.75], [0.75, 0.25]], [0, 1, 1])
    >>> points = Points.of(data)
    >>> points.probabilities, points.weights
    (array([[0.75, 0.25], [0.25, 0.75]]), array([2., 1.]))
    >>> points.errors
    array([[ 0.25, -0.25], [ 0.25, -0.25]])
    """

    probabilities: NDArray[np.floating]
    errors: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, data: LabelledPredictions) -> Self:
        """Merge equal rows. Costs one sort."""
        probabilities = data.predictions.probabilities
        weights = np.ones(data.n_rows) if data.weights is None else data.weights
        order = content_order(probabilities, (data.labels, weights))
        starts = starts_of_equals(probabilities, order)
        # In float64, so that a fit does not depend on the float type of the predictions.
        errors = probabilities[order].astype(np.float64)
        errors[np.arange(data.n_rows), data.labels[order]] -= 1
        if len(starts) == data.n_rows:
            return cls(probabilities[order], errors, weights[order])
        totals = np.add.reduceat(weights[order], starts)
        errors *= weights[order, np.newaxis]
        means = np.add.reduceat(errors, starts, axis=0)
        means /= totals[:, np.newaxis]
        return cls(probabilities[order[starts]], means, totals)

    def labels(self) -> NDArray[np.float64]:
        """Return the mean label of every point, (u, K): the share of its rows in every class."""
        labels: NDArray[np.float64] = np.subtract(self.probabilities, self.errors, dtype=np.float64)
        return labels

    def take(self, places: Any) -> Self:
        """Return some of the points (an index array, boolean mask or slice)."""
        return type(self)(self.probabilities[places], self.errors[places], self.weights[places])

    @property
    def n_points(self) -> int:
        """Number of different predictions, u."""
        return len(self.weights)


Crop = Literal["clip", "outside"]
"""``"clip"`` moves every entry into [epsilon, 1 - epsilon]; ``"outside"`` only those below 0 or above 1."""


LARGEST_EPSILON = 1e-4  # of the literature, for ten classes


def check_crop(crop: Any, epsilon: Any) -> None:
    """Refuse an unknown ``crop``, or an epsilon out of range."""
    check_choice("crop", crop, ("clip", "outside"))
    if epsilon == "auto" and isinstance(epsilon, str):
        return
    if not is_number(epsilon) or not 0 < epsilon < 0.5:
        raise ParameterError(f"epsilon must be 'auto' or lie strictly between 0 and 0.5, but is {epsilon!r}.")


def settled_epsilon(epsilon: float | Literal["auto"], n_classes: int) -> float:
    """Return epsilon itself, or for ``"auto"`` the one of the literature: 1e-4 for ten classes, 1e-6 for a hundred.

    >>> settled_epsilon("auto", 3), settled_epsilon("auto", 10), settled_epsilon("auto", 100)
    (0.0001, 0.0001, 1e-06)
    """
    return min(LARGEST_EPSILON, 0.01 / n_classes**2) if isinstance(epsilon, str) else float(epsilon)


def cropped(scores: Matrix, crop: Crop, epsilon: float) -> Matrix:
    r"""Map rows to the simplex by clipping and normalisation.

    .. math:: q'_k = \min(\max(q_k, \epsilon), 1 - \epsilon), \qquad q''_k = q'_k / \textstyle\sum_j q'_j

    which is Algorithm 2 of :cite:`valk2022` (``"clip"``). Its program is milder (``"outside"``): entries below 0 become
    epsilon, entries above 1 become 1 - epsilon, and all others stay, those from 0 to epsilon too; exact zeros are then
    possible.

    >>> cropped(np.array([[1.02, -0.03, 0.01]]), "clip", 0.001).round(4)
    array([[0.9891, 0.001 , 0.0099]])
    """
    if crop == "clip":
        inside = np.clip(scores, epsilon, 1 - epsilon)
    else:
        inside = np.where(scores < 0, epsilon, np.where(scores > 1, 1 - epsilon, scores))
    inside /= inside.sum(axis=1, keepdims=True)
    return inside


def traced_crop(scores: Value, crop: Crop, epsilon: float) -> Value:
    """Return :func:`cropped` of symbolic scores."""
    if crop == "clip":
        inside = scores.clip(epsilon, 1 - epsilon)
    else:
        above_one = float(np.nextafter(1.0, 2.0))
        inside = scores.then(
            Piecewise(
                knots=np.array([0.0, above_one]),
                n_knots=np.array([2]),
                origins=np.zeros(3),
                coefficients=np.array([[epsilon, 0.0, 1 - epsilon], [0.0, 1.0, 0.0]]),
            )
        )
    return inside / inside.row("sum")


# A squared distance from a matrix product has an error of a few units in the last place of the squared norms.
ROUNDING = 8 * float(np.finfo(np.float64).eps)

# Entries of a block of distances: large enough for fast matrix products, small enough to hold a few of them.
BLOCK_ENTRIES = 2**20

# With fewer rows, reading all points would dominate the work.
FEWEST_ROWS = 4


def rows_in_a_block(n_points: int) -> int:
    """Return the number of rows per block of distances to ``n_points`` points.

    >>> rows_in_a_block(4096), rows_in_a_block(10**7)
    (256, 4)
    """
    return max(FEWEST_ROWS, BLOCK_ENTRIES // max(1, n_points))


@dataclass(frozen=True, eq=False)
class Distances(ABC):
    """Distances from any predictions to given points (u, K)."""

    points: Matrix

    @abstractmethod
    def of(self, rows: Matrix) -> Matrix:
        """Return the distance of every row to every point, (m, u), never negative."""

    def ordering(self, rows: Matrix) -> Matrix:
        """Return keys that order points by distance: values of the formula, which may be negative by rounding."""
        return self.of(rows)


@dataclass(frozen=True, eq=False)
class SquaredEuclidean(Distances):
    r"""The square of :math:`\|p - p_i\|_2`.

    By the product of all differences from the mean of the points, so that the rounding error is relative to their
    spread. What is no more than that error counts as zero.

    >>> SquaredEuclidean(np.array([[0.5, 0.5], [1.0, 0.0]])).of(np.array([[1.0, 0.0]]))
    array([[0.5, 0. ]])
    """

    centre: Vector = field(init=False)
    factors: Matrix = field(init=False)

    def __post_init__(self) -> None:
        centre = self.points.mean(axis=0)
        shifted = self.points - centre
        norms = np.einsum("ik,ik->i", shifted, shifted)
        # |a|^2 + |b|^2 - 2ab as a single product, without further passes over the block.
        factors = np.column_stack([-2 * shifted, np.ones(len(norms)), norms])
        object.__setattr__(self, "centre", centre)
        object.__setattr__(self, "factors", factors)

    def of(self, rows: Matrix) -> Matrix:
        shifted = rows - self.centre
        norms = np.einsum("ik,ik->i", shifted, shifted)
        squares: Matrix = np.column_stack([shifted, norms, np.ones(len(norms))]) @ self.factors.T
        squares[squares <= ROUNDING * (norms.max() + self.factors[:, -1].max())] = 0.0
        return squares


@dataclass(frozen=True, eq=False)
class KullbackLeibler(Distances):
    r"""The divergence :math:`\sum_k p_k \ln(p_k / p_{ik})`, the row p first.

    A term is zero if :math:`p_k = 0`, and infinite if :math:`p_k > 0` and :math:`p_{ik} = 0`. Rows in float32 sum to one
    up to 1e-7 or so, and the formula may then fall below zero by as much; a distance is zero in that case, while the
    order of points is that of the formula.

    >>> divergence = KullbackLeibler(np.array([[0.5, 0.5], [1.0, 0.0]]))
    >>> divergence.of(np.array([[1.0, 0.0], [0.5, 0.5]])).round(4)
    array([[0.6931, 0.    ], [0.    ,    inf]])
    """

    logarithms: Matrix = field(init=False)
    zeros: Matrix | None = field(init=False)

    def __post_init__(self) -> None:
        is_zero = self.points == 0
        # A zero's logarithm takes no part in the product: zero times minus infinity would not be a number.
        logarithms = np.where(is_zero, 1.0, self.points)
        object.__setattr__(self, "logarithms", np.log(logarithms, out=logarithms))
        object.__setattr__(self, "zeros", is_zero.astype(np.float64) if is_zero.any() else None)

    def of(self, rows: Matrix) -> Matrix:
        divergences = self.ordering(rows)
        return np.maximum(divergences, 0.0, out=divergences)

    def ordering(self, rows: Matrix) -> Matrix:
        own = np.log(np.where(rows == 0, 1.0, rows))
        entropies = np.einsum("ik,ik->i", rows, own)
        divergences: Matrix = rows @ self.logarithms.T
        np.subtract(entropies[:, np.newaxis], divergences, out=divergences)
        if self.zeros is not None:
            divergences[(rows > 0).astype(np.float64) @ self.zeros.T > 0] = np.inf
        return divergences
