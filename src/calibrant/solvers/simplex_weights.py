"""Weights of a mixture: not negative, summing to one, of greatest likelihood or least squared error."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import BlockSums
from calibrant.solvers.simplex_newton import SimplexExpansion, simplex_newton
from calibrant.solvers.solution import Solution

__all__ = ["least_squares_weights", "likeliest_weights", "likeliest_weights_of_sums"]

Contribution = Callable[[Matrix, Vector | None], Vector]


def likeliest_weights(
    likelihoods: NDArray[np.floating], row_weights: Vector | None = None, *, tolerance: float = 1e-10
) -> Solution:
    r"""Return the mixture of given components that makes what happened most likely, as ``theta``.

    .. math:: \min_{w \ge 0,\, \sum_j w_j = 1} \; -\frac{1}{\sum_i v_i} \sum_i v_i \log \sum_j w_j A_{ij}

    Parameters
    ----------
    likelihoods : ndarray of shape (n, m)
        A: the probability that each of m components gave to what happened in each of n rows. Zeros are
        allowed as long as no row is all zeros.
    row_weights : ndarray of shape (n,), optional
        v, positive; every row counts once if there are none.
    tolerance : float
        Largest distance from the optimum, in nats; see the notes.

    Notes
    -----
    Sequential quadratic programming :cite:`kim2020`: the second-order expansion is minimised over the whole
    simplex by an active set, then the loss on the way there. Convexity bounds what is left to gain by

    .. math:: \max_j \frac{1}{\sum_i v_i} \sum_i \frac{v_i A_{ij}}{(A w)_i} - 1

    which is the ``decrement`` of the solution. Components that do not help get a weight of exactly zero,
    equal ones share theirs. A step costs O(n m^2), in blocks of rows and on several threads; a handful
    is enough.

    Examples
    --------
    Two kinds of events that each component is sure of: weights are their frequencies.

    >>> found = likeliest_weights(np.array([[1.0, 0.0, 0.5], [1.0, 0.0, 0.5], [0.0, 1.0, 0.1]]))
    >>> found.theta.round(6), found.status.name
    (array([0.666667, 0.333333, 0.      ]), 'CONVERGED')
    """
    likelihoods = np.asarray(likelihoods, dtype=np.float64)
    n_rows, n_components = likelihoods.shape
    largest = row_maxima(likelihoods)
    impossible = np.flatnonzero(~(largest > 0))
    if len(impossible):
        raise ValueError(
            f"row {impossible[0]} has no likelihood above 0, so that every mixture has an infinite loss."
        )
    # Every row divided by its largest entry: the mixture cannot underflow, and one constant comes back later.
    # One row per component: numpy is slow at rows of a few numbers.
    columns = np.ascontiguousarray((likelihoods / largest[:, np.newaxis]).T)
    total_weight = float(n_rows if row_weights is None else row_weights.sum())

    def summed(contribution: Contribution) -> Vector:
        return sums(
            lambda rows: contribution(columns[:, rows].T, None if row_weights is None else row_weights[rows])
        )

    with BlockSums.over(n_rows, n_components) as sums:
        solution = likeliest_weights_of_sums(summed, n_components, total_weight, tolerance=tolerance)
    value = solution.value - float(np.average(np.log(largest), weights=row_weights))
    return replace(solution, value=value, loss=value)


def likeliest_weights_of_sums(
    summed: Callable[[Contribution], Vector],
    n_components: int,
    total_weight: float,
    *,
    tolerance: float = 1e-10,
) -> Solution:
    """Return :func:`likeliest_weights` of rows that are elsewhere.

    Parameters
    ----------
    summed : callable
        Adds up what a function makes of the likelihoods of some rows, (n, m), and their weights or None.
    n_components : int
    total_weight : float
        Of all rows.
    tolerance : float
        As in :func:`likeliest_weights`.
    """
    return simplex_newton(_LogLoss(summed, total_weight), n_components, tolerance=tolerance)


def least_squares_weights(
    gram: Matrix, linear: Vector, constant: float = 0.0, *, tolerance: float = 1e-12
) -> Solution:
    r"""Return the mixture of given components with the least squared error, as ``theta``.

    .. math:: \min_{w \ge 0,\, \sum_j w_j = 1} \; w^\top G w - 2 b^\top w + c

    which is the mean of :math:`\lVert \sum_j w_j q_{ij} - y_i \rVert^2` where G holds the mean products
    :math:`q_{ij}^\top q_{ik}`, b the mean products :math:`q_{ij}^\top y_i` and c the mean of
    :math:`\lVert y_i \rVert^2`.

    Parameters
    ----------
    gram : ndarray of shape (m, m)
        G, symmetric and without negative eigenvalues; singular if components are equal.
    linear : ndarray of shape (m,)
        b.
    constant : float
        c, part of ``value`` only.
    tolerance : float
        Largest distance from the optimum, relative to the largest entry of G and b.

    Notes
    -----
    An active set, exact up to rounding; O(m^3) for each of about m changes of it. Treats equal and useless
    components as :func:`likeliest_weights` does.

    Examples
    --------
    The point nearest to (1, 1) between (2, 0) and (0, 1), at a distance of 1 / sqrt(5).

    >>> found = least_squares_weights(np.array([[4.0, 0.0], [0.0, 1.0]]), np.array([2.0, 1.0]), 2.0)
    >>> found.theta, round(found.value, 9)
    (array([0.4, 0.6]), 0.2)
    """
    gram, linear = np.asarray(gram, dtype=np.float64), np.asarray(linear, dtype=np.float64)
    scale = max(float(np.abs(gram).max()), float(np.abs(linear).max()))
    return simplex_newton(
        _SquaredError(gram, linear, constant), len(linear), scale=scale, tolerance=tolerance
    )


class _SquaredError:
    def __init__(self, gram: Matrix, linear: Vector, constant: float) -> None:
        self.gram = gram
        self.linear = linear
        self.constant = constant

    def expand(self, weights: Vector) -> SimplexExpansion:
        value = float(weights @ self.gram @ weights - 2 * self.linear @ weights) + self.constant
        return SimplexExpansion(value, 2 * (self.gram @ weights - self.linear), 2 * self.gram)

    def along(self, weights: Vector, step: Vector) -> tuple[float, float, float]:
        value, gradient, hessian = self.expand(weights)
        return value, float(gradient @ step), float(step @ hessian @ step)


class _LogLoss:
    def __init__(self, summed: Callable[[Contribution], Vector], total_weight: float) -> None:
        self.summed, self.total_weight = summed, total_weight

    def expand(self, weights: Vector) -> SimplexExpansion:
        size = len(weights)

        def block(likelihoods: Matrix, row_weights: Vector | None) -> Vector:
            part = likelihoods.T
            mixture = weights @ part
            # A row that these weights call impossible makes the value infinite, as it should be.
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                ratios = part / mixture
                counted = ratios if row_weights is None else row_weights * ratios
                surprise = -np.log(mixture)
                value = surprise.sum() if row_weights is None else row_weights @ surprise
                return np.concatenate([[value], counted.sum(axis=1), (counted @ ratios.T).ravel()])

        total = self.summed(block) / self.total_weight
        return SimplexExpansion(float(total[0]), -total[1 : 1 + size], total[1 + size :].reshape(size, size))

    def along(self, weights: Vector, step: Vector) -> tuple[float, float, float]:
        def block(likelihoods: Matrix, row_weights: Vector | None) -> Vector:
            part = likelihoods.T
            mixture = weights @ part
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # as above
                ratios = step @ part / mixture
                parts = np.stack([-np.log(mixture), -ratios, ratios**2])
                return parts.sum(axis=1) if row_weights is None else parts @ row_weights

        value, slope, curvature = self.summed(block) / self.total_weight
        return float(value), float(slope), float(curvature)
