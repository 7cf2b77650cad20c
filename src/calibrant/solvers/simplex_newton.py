"""Newton's method for a convex function of weights that are not negative and sum to one."""

from typing import NamedTuple, Protocol

import numpy as np

from calibrant.arrays import Matrix, Vector
from calibrant.solvers.solution import Solution, Status

__all__ = ["ConvexFunction", "SimplexExpansion", "simplex_newton"]


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


class SimplexExpansion(NamedTuple):
    """A convex function and its derivatives at some weights."""

    value: float
    gradient: Vector
    hessian: Matrix

    def gap(self, weights: Vector) -> float:
        """Return a bound of how far the value is above that of the best weights.

        A convex function is above its tangent, and a tangent is smallest in a corner of the simplex.
        """
        return max(0.0, float(weights @ self.gradient - self.gradient.min()))


class ConvexFunction(Protocol):
    """What is minimised, for example the loss of a mixture."""

    def expand(self, weights: Vector) -> SimplexExpansion:
        """Return value, gradient and Hessian at some weights."""
        ...

    def along(self, weights: Vector, step: Vector) -> tuple[float, float, float]:
        """Return value, slope and curvature at some weights in the direction of a step."""
        ...


def simplex_newton(
    function: ConvexFunction, size: int, *, scale: float = 1.0, tolerance: float = 1e-10
) -> Solution:
    """Return the weights at which a convex function is smallest, to rounding.

    Every step minimises the second-order expansion over the whole simplex, exactly, and goes to the lowest
    point on its way there. The end is where the tangent allows no further gain, by the conditions of Karush,
    Kuhn and Tucker. Weights that do not help are exactly zero; those that the function cannot tell apart share
    evenly what they get together, to some digits.

    Parameters
    ----------
    function : ConvexFunction
        Finite where all weights are equal.
    size : int
        Number of weights, m; up to about a hundred, since a step costs O(m^4) at the worst.
    scale : float
        How large values are before they cancel each other, the measure of what rounding hides.
    tolerance : float
        Largest distance from the smallest value, as a share of the scale.
    """
    weights = np.full(size, 1 / size)
    current = function.expand(weights)
    gap = current.gap(weights)
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
        gap = current.gap(weights)
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


def _line_search(
    function: ConvexFunction, current: SimplexExpansion, weights: Vector, step: Vector, scale: float
) -> tuple[tuple[Vector, SimplexExpansion] | None, int]:
    """Go to about the lowest point of a step, at most to its end; None if none is lower than the start."""
    # The step sums to zero, so a constant may be taken off the slopes, and their digits count then.
    gain = -float((current.gradient - weights @ current.gradient) @ step)
    if gain <= INVISIBLE * scale:
        candidate = (weights + step) / (weights + step).sum()
        expansion = function.expand(candidate)
        # Steps that gain nothing and hardly close the gap mark directions in which rounding has the say.
        better = expansion.gap(candidate) < current.gap(weights) / 2
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


def _best_of_expansion(expansion: SimplexExpansion, start: Vector) -> Vector:
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
