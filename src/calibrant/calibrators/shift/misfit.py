"""Whether target rows look like source rows with other class shares, by predictions made and implied."""

from typing import Protocol

import numpy as np
from scipy.stats import t as student

from calibrant.arrays import Matrix, Vector
from calibrant.calibrators.shift.simplex_directions import Directions
from calibrant.numerics.row_blocks import BlockSums

__all__ = ["Estimator", "degrees_of_freedom", "jackknife_variances", "misfit_p_value"]


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


def misfit_p_value(
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
