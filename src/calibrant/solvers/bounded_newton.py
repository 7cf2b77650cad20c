"""Newton's method for a convex function of a few parameters that have lower bounds."""

from collections.abc import Callable

import numpy as np

from calibrant.arrays import Vector
from calibrant.objective import ConvexExpansion
from calibrant.solvers.solution import Solution, Status

__all__ = ["bounded_newton"]


SUFFICIENT_DECREASE = 0.1
SMALLEST_STEP = 2.0**-30
# Decrements that fall by less than this, in steps that are longer than that, mark parameters on their way to
# infinity; near a minimum decrements fall by their square.
RUNAWAY_RATIO, RUNAWAY_STEP = 0.05, 1e-3
# Curvature that is added in all directions, as a share of what there is, so that directions in which the
# function is flat do not make the equations singular; it pulls to where a step starts and vanishes at the end.
PROXIMITY = 1e-10
# A function that bends and slopes by less than this is flat: what is added to it would vanish, too.
FLAT = 1e-250
ROUNDING = 4 * float(np.finfo(np.float64).eps)


def bounded_newton(
    expand: Callable[[Vector], ConvexExpansion],
    start: Vector,
    lower: Vector | float,
    *,
    tolerance: float = 1e-10,
    max_iterations: int = 100,
) -> Solution:
    r"""Minimise a convex function over :math:`\theta_j \ge l_j`.

    Every step minimises the second-order expansion exactly within the bounds, and backtracks until the value decreases.
    Parameters at a bound equal it exactly. It stops when the predicted decrease is less than ``tolerance``; one more step,
    if it helps, squares the remaining error.

    Parameters
    ----------
    expand : callable
        Gives value, gradient and Hessian.
    start : ndarray of shape (m,)
        Feasible starting point; up to some hundred parameters, since a step costs O(m^3) a few times.
    lower : ndarray of shape (m,) or float
        Least value of every parameter; minus infinity for no bound.
    tolerance : float
        Wanted accuracy of the value.
    max_iterations : int
        Largest number of steps.

    Returns
    -------
    Solution
        Its value never exceeds that of the start. Its ``loss`` is the value, including any penalty.

    Examples
    --------
    The point of the first quadrant nearest to (2, -1):

    >>> wanted = np.array([2.0, -1.0])
    >>> def distance(x):
    ...     return ConvexExpansion((x - wanted) @ (x - wanted) / 2, x - wanted, np.eye(2))
    >>> bounded_newton(distance, np.ones(2), 0.0).theta.round(6)
    array([2., 0.])
    """
    bounds = np.broadcast_to(np.asarray(lower, dtype=np.float64), start.shape)
    theta, current = start, expand(start)
    n_iterations, n_evaluations = 0, 1
    decrement, status = np.inf, Status.OUT_OF_ITERATIONS
    while n_iterations < max_iterations:
        n_iterations += 1
        goal = _best_of_expansion(current, theta, bounds)
        step = goal - theta
        previous, decrement = decrement, _predicted_decrease(current, step)
        if decrement <= tolerance:
            candidate = expand(goal)
            n_evaluations += 1
            slow = decrement > RUNAWAY_RATIO * previous
            long = bool(np.abs(step).max() > RUNAWAY_STEP * np.abs(theta).max())
            # Values that differ by rounding say nothing; the step then goes to the nearer of the two.
            if candidate.value <= current.value + ROUNDING * abs(current.value):
                theta, current = goal, candidate
            status = Status.RUNNING_AWAY if slow and long else Status.CONVERGED
            break
        length = 1.0
        while True:
            # The goal itself where the whole step is taken: what is at its bound must stay there to the last bit.
            place = goal if length == 1 else theta + length * step
            candidate = expand(place)
            n_evaluations += 1
            if candidate.value <= current.value - SUFFICIENT_DECREASE * length * decrement:
                break
            length /= 2
            hidden = length * decrement <= 2 * np.finfo(np.float64).eps * abs(current.value)
            if length < SMALLEST_STEP or hidden:
                candidate = current
                break
        if candidate is current:
            status = Status.OUT_OF_PRECISION
            break
        theta, current = place, candidate
    return Solution(
        theta=theta,
        value=current.value,
        loss=current.value,
        identity_loss=np.nan,
        decrement=decrement,
        n_iterations=n_iterations,
        n_evaluations=n_evaluations,
        status=status,
    )


def _predicted_decrease(expansion: ConvexExpansion, step: Vector) -> float:
    """Return the decrease of the expansion along a step."""
    return max(0.0, -float(expansion.gradient @ step + step @ expansion.hessian @ step / 2))


def _best_of_expansion(expansion: ConvexExpansion, start: Vector, lower: Vector) -> Vector:
    """Return where the quadratic expansion around ``start`` is smallest within the bounds.

    The primal active-set method :cite:`nocedal2006`, algorithm 16.3: parameters that are free move to where their
    slopes are zero; one that would fall below its bound is fixed there, and a fixed one with a negative slope is
    released.
    """
    size = len(start)
    curvature = np.trace(expansion.hessian) / size + np.abs(expansion.gradient).max()
    if curvature < FLAT:
        return start
    hessian = expansion.hessian + PROXIMITY * curvature * np.eye(size)
    rounding = 4 * np.finfo(np.float64).eps * np.abs(expansion.gradient).max()
    theta = start.copy()
    free = (theta > lower) | (expansion.gradient < -rounding)
    for _ in range(20 * size):
        slopes = expansion.gradient + hessian @ (theta - start)
        step = np.zeros(size)
        step[free] = -np.linalg.solve(hessian[np.ix_(free, free)], slopes[free])
        falling = np.flatnonzero(theta + step < lower)
        if len(falling):
            shares = (theta[falling] - lower[falling]) / -step[falling]
            first = shares.argmin()
            theta = np.maximum(theta + shares[first] * step, lower)
            theta[falling[first]] = lower[falling[first]]
            free[falling[first]] = False
            continue
        theta += step
        slopes = expansion.gradient + hessian @ (theta - start)
        lowest = int(np.where(free, np.inf, slopes).argmin())
        if free.all() or slopes[lowest] >= -rounding:
            break
        free[lowest] = True
    return theta
