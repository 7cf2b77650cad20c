"""Tests of the label-shift model, and classes that predictions cannot distinguish."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2
from scipy.stats import t as student

from calibrant.arrays import Matrix, Vector
from calibrant.numerics.row_blocks import BlockSums

__all__ = [
    "Directions",
    "Estimator",
    "degrees_of_freedom",
    "indistinct_groups",
    "jackknife_variances",
    "shift_model_p_value",
]


# Curvature added in all directions, as a share of what there is: finite, and far below anything that data could tell.
RIDGE = 1e-12


@dataclass(frozen=True, eq=False)
class Directions:
    r"""Second-order picture of a convex function around its minimum over the simplex.

    Weights at zero stay there, except the one that a direction is about.

    Attributes
    ----------
    vectors : ndarray of shape (K, K)
        Row k: a change of all weights that sums to zero and adds one to weight k, of least curvature.
    curvatures : ndarray of shape (K,)
        Second derivative along each of them.
    response : ndarray of shape (K, K)
        How the minimum moves when a linear term is taken away from the function: minus the gradient times this.
    """

    vectors: Matrix
    curvatures: Vector
    response: Matrix

    @classmethod
    def around(cls, weights: Vector, hessian: Matrix, slopes: Vector) -> "Directions":
        """Return the directions at a minimum; ``slopes`` are minus the gradient, largest for what may enter next."""
        size = len(weights)
        hessian = hessian + RIDGE * max(float(np.trace(hessian)) / size, 1e-300) * np.eye(size)
        free = weights > 0
        inverse = np.linalg.inv(hessian[np.ix_(free, free)])
        sums = inverse.sum(axis=1)
        level = sums / sums.sum()  # of least curvature among those that add one to the sum
        tangent = inverse - np.outer(sums, level)
        response = np.zeros((size, size))
        response[np.ix_(free, free)] = tangent
        vectors = np.zeros((size, size))
        if free.sum() > 1:
            vectors[np.ix_(free, free)] = tangent / np.diagonal(tangent)[:, np.newaxis]
        else:
            # A single weight can only give way to one that enters: the one that would help most, or hurt least.
            alone = int(np.flatnonzero(free)[0])
            other = int(np.argmax(np.where(free, -np.inf, slopes)))
            vectors[alone, [alone, other]] = [1.0, -1.0]
        entering = np.flatnonzero(~free)
        vectors[np.ix_(entering, free)] = -hessian[np.ix_(entering, free)] @ tangent - level
        vectors[entering, entering] = 1.0
        curvatures = np.einsum("kj,jl,kl->k", vectors, hessian, vectors, optimize=True)
        return cls(vectors, curvatures, response)


FEW = 10  # rows below which a frequency is no normal variable


class Estimator(Protocol):
    """An estimate of class shares that knows how it depends on every row."""

    prior: Vector
    directions: Directions
    row_weights: Vector | None
    n_rows: float

    @property
    def target_variances(self) -> Vector:
        """Variances of the shares from the target rows alone."""
        ...

    def rows(self, block: slice) -> Matrix:
        """Return the scores of some rows."""
        ...

    def limits(self, quantiles: Vector, source_variances: Vector) -> tuple[Vector, Vector]:
        """Return lower and upper limits of the shares."""
        ...


def jackknife_variances(left_out: Matrix) -> Vector:
    """Return the variance of each column, from what it is when groups of rows are left out one by one; (G, m).

    >>> jackknife_variances(np.array([[1.0], [2.0], [3.0]])).round(4)     # the mean of 3, 2 and 1, without each
    array([1.3333])
    """
    n_groups = len(left_out)
    if n_groups < 2:
        return np.zeros(left_out.shape[1])
    return np.asarray((n_groups - 1) * left_out.var(axis=0))


def degrees_of_freedom(target: Vector, source: Vector, n_groups: int) -> Vector:
    """Return those of the sum of a variance that is known well and one from so many groups (Satterthwaite)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(source > 0, target / source, np.inf)
    return np.asarray(np.minimum((1 + ratio) ** 2 * max(n_groups - 1, 1), 1e9))


def shift_model_p_value(
    estimator: Estimator,
    predicted: Matrix,
    confusion: Matrix,
    group_residuals: Matrix,
) -> float:
    """Return the probability of a gap as large as that between predictions of the target and those implied.

    The gap of a class is its mean prediction, or the share of rows for which it is predicted, minus that implied
    by the estimated shares. Gaps are divided by their standard errors, which take into account that shares were
    estimated from the same rows; the largest one decides, and Bonferroni's factor K makes up for the choice.

    Parameters
    ----------
    estimator : Estimator
    predicted : ndarray of shape (n, K)
        Predictions of the target rows of another kind than those that the estimate makes use of.
    confusion : ndarray of shape (K, K)
        Column k: mean of the same over source rows of class k.
    group_residuals : ndarray of shape (G, K)
        Gaps without each group of source rows.
    """
    weights = estimator.row_weights
    reaction = confusion @ estimator.directions.response
    size = len(confusion)

    def block(rows: slice) -> Vector:
        effects = predicted[rows] - estimator.rows(rows) @ reaction.T
        counted = effects if weights is None else effects * weights[rows, np.newaxis]
        observed = predicted[rows] if weights is None else predicted[rows] * weights[rows, np.newaxis]
        return np.concatenate(
            [counted.sum(axis=0), np.einsum("ik,ik->k", counted, effects), observed.sum(axis=0)]
        )

    with BlockSums.over(*predicted.shape) as sums:
        first, second, observed = (sums(block) / estimator.n_rows).reshape(3, size)
    implied = confusion @ estimator.prior
    # A class that is predicted never has no variance to be seen; that of a few rows is taken for granted.
    of_few = np.minimum(implied, FEW / estimator.n_rows)
    of_rows = np.maximum(second - first**2, of_few) / estimator.n_rows
    of_source = jackknife_variances(group_residuals)
    errors = np.sqrt(of_rows + of_source)
    gaps = np.divide(observed - implied, errors, out=np.zeros(size), where=errors > 0)
    freedom = degrees_of_freedom(of_rows, of_source, len(group_residuals))
    return float(min(1.0, size * (2 * student.sf(np.abs(gaps), freedom)).min()))


# Standard errors by which predictions must be related to the labels in every contrast of classes: exchangeable
# classes get there once in 370 times.
EVIDENCE = 3.0
MISSED = float(chi2.sf(EVIDENCE**2, 1))

# Two classes belong together if the contrasts without evidence join them by more than this, where 1/2 is a pair.
JOINED = 0.1

ROUNDING = 1e-12  # of a sum of squares that should be zero


def indistinct_groups(
    probabilities: Matrix, labels: NDArray[np.intp], row_weights: Vector | None = None
) -> list[list[int]]:
    r"""Return groups of classes between which labelled rows do not show any difference in predictions.

    The singular vectors of :math:`D_m^{-1/2} \, E[q y^\top] \, D_y^{-1/2}`, with the margins in D, are contrasts a of
    predictions and b of classes that go together, as in correspondence analysis. If predictions carry no news about d
    contrasts of classes, the d smallest singular values are noise, and

    .. math:: T_d = n \sum_{j \le d} \sigma_j^2 \approx \sum_m \lambda_m \chi^2_1, \qquad
              \sum_m \lambda_m = E \Big[ \sum_{j \le d} a_j^2 \sum_{j \le d} b_j^2 \Big] .

    The largest d for which :math:`T_d` is not improbable, as three standard errors are, is taken for true: along these
    contrasts shares could be moved without anything to be seen. Beginning with the largest d, as one does to find a
    rank, makes the probability of evidence where there is none that of the first wrong step.

    Parameters
    ----------
    probabilities : ndarray of shape (n, K)
        Calibrated predictions q.
    labels : ndarray of shape (n,)
        Class numbers; every class occurs.
    row_weights : ndarray of shape (n,) or None
        How many rows each counts for.

    Notes
    -----
    The variance of a contrast is that among rows of the classes which it is about: predictions of other rows, which
    hardly move between those classes, would make it look smaller. The quantile is that of a chi-square variable with
    the mean of :math:`T_d` and no more degrees of freedom than :math:`\lambda` can have been spread over, at least
    d for d classes that are alike. One degree only is safe for any :math:`\lambda`.

    O(nK^2), and O(K^2) more for each d that is not beyond doubt; memory for a copy of the predictions.

    Examples
    --------
    The second and third class always get the same probability.

    >>> q = np.repeat([[0.8, 0.1, 0.1], [0.2, 0.4, 0.4]], 50, axis=0)
    >>> indistinct_groups(q, np.repeat([0, 1, 2, 0, 1, 2], [40, 5, 5, 10, 20, 20]))
    [[1, 2]]
    """
    size = probabilities.shape[1]
    weights = np.ones(len(labels)) if row_weights is None else row_weights
    n_rows = float(weights.sum())
    joint = np.stack([np.bincount(labels, weights * column, minlength=size) for column in probabilities.T])
    margins = np.sqrt(np.maximum(joint.sum(axis=1), np.finfo(np.float64).tiny))
    counts = np.bincount(labels, weights, minlength=size)
    left, strengths, right = np.linalg.svd(joint / np.outer(margins, np.sqrt(counts)))
    # One pair is constant: all predictions, all classes. The others from the weakest on.
    constant = int(np.argmax(np.abs(right @ np.sqrt(counts))))
    order = np.delete(np.arange(size), constant)[::-1]
    squares = np.cumsum(n_rows * strengths[order] ** 2)
    scores = probabilities @ (np.sqrt(n_rows) * left[:, order] / margins[:, np.newaxis])
    spreads = np.stack([np.bincount(labels, weights * column**2, minlength=size) for column in scores.T])
    n_weak = _n_without_evidence(squares, np.cumsum(spreads / counts, axis=0), right[order])
    if not n_weak:
        return []
    weak = right[order[:n_weak]]
    projector = weak.T @ weak
    n_parts, part = connected_components(csr_matrix(np.abs(projector) > JOINED), directed=False)
    groups = [np.flatnonzero(part == number).tolist() for number in range(n_parts)]
    groups = [group for group in groups if len(group) > 1]
    # A contrast spread thinly over many classes joins no two of them by much.
    leverages = np.diagonal(projector)
    return groups or [np.flatnonzero(leverages >= leverages.max() / 2).tolist()]


def _n_without_evidence(squares: Vector, spreads: Matrix, contrasts: Matrix) -> int:
    """Return the largest d for which the d weakest contrasts are no more than noise.

    Parameters
    ----------
    squares : ndarray of shape (K - 1,)
        Sum of squares of the d weakest, for each d.
    spreads : ndarray of shape (K - 1, K)
        What predictions vary along the d weakest, for each d, within every class.
    contrasts : ndarray of shape (K - 1, K)
        Of classes, the weakest first.
    """
    means = np.einsum("dk,dk->d", np.cumsum(contrasts**2, axis=0), spreads)
    doubtful: list[int] = np.flatnonzero(squares <= EVIDENCE**2 * means + ROUNDING).tolist()
    for last in reversed(doubtful):
        weak, spread, mean = contrasts[: last + 1], spreads[last], float(means[last])
        # The sum of squared lambda is at most this, and exactly this if each class varies in one direction.
        most = float(spread @ (weak.T @ weak) ** 2 @ spread)
        freedom = mean**2 / most if most > 0 else 1.0
        if squares[last] <= chi2.isf(MISSED, freedom) / freedom * mean + ROUNDING:
            return last + 1
    return 0
