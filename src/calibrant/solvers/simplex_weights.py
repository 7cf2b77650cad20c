"""Mixture weights on the simplex: by maximum likelihood, or by least squares."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import BlockSums
from calibrant.objective import ConvexExpansion
from calibrant.solvers.solution import Solution, Status

__all__ = ["least_squares_weights", "likeliest_weights", "likeliest_weights_of_sums"]

Contribution = Callable[[Matrix, Vector | None], Vector]


def likeliest_weights(likelihoods: NDArray[np.floating], row_weights: Vector | None = None) -> Solution:
    r"""Return the maximum-likelihood weights of a mixture of given components, as ``theta``.

    .. math:: \min_{w \ge 0,\, \sum_j w_j = 1} \; -\frac{1}{\sum_i v_i} \sum_i v_i \log \sum_j w_j A_{ij}

    Parameters
    ----------
    likelihoods : ndarray of shape (n, m)
        A: likelihood of each of n rows under each of m components. Zeros are allowed unless a row is all zeros.
    row_weights : ndarray of shape (n,), optional
        v, positive; 1 by default.

    Notes
    -----
    Sequential quadratic programming :cite:`kim2020`: an active-set method minimises the second-order
    expansion over the simplex, followed by a line search. By convexity, the loss exceeds its minimum by at most

    .. math:: \max_j \frac{1}{\sum_i v_i} \sum_i \frac{v_i A_{ij}}{(A w)_i} - 1

    which is the ``decrement`` of the solution. Useless components get a weight of exactly zero, identical ones share
    theirs equally. A step costs O(n m^2), in blocks of rows and on several threads; a few steps suffice.

    Examples
    --------
    Two kinds of events, each certain under one component: weights are their frequencies.

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
            f"row {impossible[0]} has no likelihood above 0, so every mixture has an infinite loss."
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
        solution = likeliest_weights_of_sums(summed, n_components, total_weight)
    value = solution.value - float(np.average(np.log(largest), weights=row_weights))
    return replace(solution, value=value, loss=value)


def likeliest_weights_of_sums(
    summed: Callable[[Contribution], Vector],
    n_components: int,
    total_weight: float,
) -> Solution:
    """Return :func:`likeliest_weights` of rows of likelihoods, (n, m), and weights over which ``summed`` adds up."""
    return simplex_newton(_LogLoss(summed, total_weight), n_components)


def least_squares_weights(gram: Matrix, linear: Vector, constant: float = 0.0) -> Solution:
    r"""Return the least-squares weights of a mixture of given components, as ``theta``.

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
    return simplex_newton(_SquaredError(gram, linear, constant), len(linear), scale=scale, tolerance=1e-12)


class _SquaredError:
    def __init__(self, gram: Matrix, linear: Vector, constant: float) -> None:
        self.gram = gram
        self.linear = linear
        self.constant = constant

    def expand(self, weights: Vector) -> ConvexExpansion:
        value = float(weights @ self.gram @ weights - 2 * self.linear @ weights) + self.constant
        return ConvexExpansion(value, 2 * (self.gram @ weights - self.linear), 2 * self.gram)

    def along(self, weights: Vector, step: Vector) -> tuple[float, float, float]:
        value, gradient, hessian = self.expand(weights)
        return value, float(gradient @ step), float(step @ hessian @ step)


class _LogLoss:
    def __init__(self, summed: Callable[[Contribution], Vector], total_weight: float) -> None:
        self.summed, self.total_weight = summed, total_weight

    def expand(self, weights: Vector) -> ConvexExpansion:
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
        return ConvexExpansion(float(total[0]), -total[1 : 1 + size], total[1 + size :].reshape(size, size))

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


MAX_STEPS = 200

MAX_TRIES = 60

# The slope along a step that counts as flat, as a share of the slope at its start. A weight near zero acts as
# a barrier: where a step ends behind it, the next ones would double that weight one at a time.
FLAT = 0.1

# Curvature that is added in all directions, as a share of what there is, so that equal components share their
# weight instead of making the equations singular; it pulls to where a step starts and so vanishes at the end.
PROXIMITY = 1e-10

# A predicted gain below this share of the scale cannot be seen in values any more, only in slopes.
INVISIBLE = 1e-11


class ConvexFunction(Protocol):
    """A convex function on the simplex, such as the loss of a mixture."""

    def expand(self, weights: Vector) -> ConvexExpansion:
        """Return value, gradient and Hessian at some weights."""
        ...

    def along(self, weights: Vector, step: Vector) -> tuple[float, float, float]:
        """Return value, slope and curvature at some weights in the direction of a step."""
        ...


def simplex_newton(
    function: ConvexFunction, size: int, *, scale: float = 1.0, tolerance: float = 1e-10
) -> Solution:
    """Minimise a convex function over the simplex, up to rounding.

    Every step minimises the second-order expansion exactly over the simplex, followed by a line search. It stops when
    the Karush-Kuhn-Tucker conditions hold up to the tolerance, a share of ``scale``, the size of values before they cancel
    each other. Useless weights are exactly zero; weights that the function cannot distinguish are equal, to some digits.
    A step costs O(m^4) at the worst.
    """
    weights = np.full(size, 1 / size)
    current = function.expand(weights)
    gap = _gap(current, weights)
    n_steps, n_evaluations, status = 0, 1, Status.CONVERGED
    while gap > tolerance * scale:
        if n_steps == MAX_STEPS:
            status = Status.OUT_OF_ITERATIONS
            break
        step = _best_of_expansion(current, weights) - weights
        accepted, n_tries = _line_search(function, current, weights, step, scale)
        n_evaluations += n_tries
        if accepted is None:
            status = Status.OUT_OF_PRECISION
            break
        weights, current = accepted
        gap = _gap(current, weights)
        n_steps += 1
    return Solution(
        theta=weights,
        value=current.value,
        loss=current.value,
        identity_loss=np.nan,
        decrement=gap,
        n_iterations=n_steps,
        n_evaluations=n_evaluations,
        status=status,
    )


def _gap(current: ConvexExpansion, weights: Vector) -> float:
    """Return an upper bound on the distance from the minimum: that of the tangent, which is lowest at a vertex."""
    return max(0.0, float(weights @ current.gradient - current.gradient.min()))


def _line_search(
    function: ConvexFunction, current: ConvexExpansion, weights: Vector, step: Vector, scale: float
) -> tuple[tuple[Vector, ConvexExpansion] | None, int]:
    """Go to about the lowest point of a step, at most to its end; None if none is lower than the start."""
    # The step sums to zero, so a constant can be subtracted from the slopes, which saves digits.
    gain = -float((current.gradient - weights @ current.gradient) @ step)
    if gain <= INVISIBLE * scale:
        candidate = (weights + step) / (weights + step).sum()
        expansion = function.expand(candidate)
        # A step that hardly reduces the gap is dominated by rounding.
        better = np.isfinite(expansion.value) and _gap(expansion, candidate) < _gap(current, weights) / 2
        return ((candidate, expansion) if better else None), 1
    low, high, length = 0.0, 1.0, 1.0
    for n_tries in range(1, MAX_TRIES + 1):
        candidate = weights + length * step
        candidate /= candidate.sum()
        value, slope, curvature = function.along(candidate, step)
        flat = slope <= FLAT * gain and (length == 1 or slope >= -FLAT * gain)
        if flat and value < current.value:
            return (candidate, function.expand(candidate)), n_tries + 1
        if slope < 0:
            low = length
        else:
            high = length
        newton = length - slope / curvature if curvature > 0 else np.nan
        length = newton if low < newton < high else (low + high) / 2
    return None, n_tries


def _best_of_expansion(expansion: ConvexExpansion, start: Vector) -> Vector:
    """Return the weights at which the quadratic expansion around ``start`` is smallest.

    The primal active-set method :cite:`nocedal2006`, algorithm 16.3: weights that are free move to where all
    of their slopes are equal; one that would fall below zero is fixed there, and a fixed one whose slope is
    lower than those of the free ones is released.
    """
    size = len(start)
    curvature = np.trace(expansion.hessian) / size + np.abs(expansion.gradient).max()
    hessian = expansion.hessian + PROXIMITY * curvature * np.eye(size)
    weights = start.copy()
    free = weights > 0
    for _ in range(20 * size):
        slopes = expansion.gradient + hessian @ (weights - start)
        step = np.zeros(size)
        step[free] = _step_to_equal_slopes(hessian[np.ix_(free, free)], slopes[free])
        falling = np.flatnonzero(weights + step < 0)
        if len(falling):
            shares = weights[falling] / -step[falling]
            first = shares.argmin()
            weights = np.maximum(weights + shares[first] * step, 0)
            weights[falling[first]] = 0
            free[falling[first]] = False
            continue
        weights += step
        if free.all():
            break
        slopes = expansion.gradient + hessian @ (weights - start)
        lowest = int(np.where(free, np.inf, slopes).argmin())
        level = slopes[free].mean()
        if slopes[lowest] >= level - 4 * np.finfo(np.float64).eps * np.abs(slopes).max():
            break
        free[lowest] = True
    return weights


def _step_to_equal_slopes(hessian: Matrix, slopes: Vector) -> Vector:
    """Return the step d, summing to zero, after which all entries of slopes + H d are equal."""
    # Slopes are nearly equal towards the end; without their mean no digits are lost on it.
    solved = np.linalg.solve(hessian, np.column_stack([slopes - slopes.mean(), np.ones(len(slopes))]))
    step: Vector = solved[:, 1] * (solved[:, 0].sum() / solved[:, 1].sum()) - solved[:, 0]
    return step
