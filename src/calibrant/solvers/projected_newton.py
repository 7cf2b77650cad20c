"""Newton's method by conjugate gradients for a convex objective with lower bounds."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.solvers.newton_cg import Place, solution_at
from calibrant.solvers.solution import Solution, Status

__all__ = ["BoundedObjective", "SmoothExpansion", "projected_newton"]

Vector = NDArray[np.float64]
Solver = Callable[[Vector], Vector]

TOLERANCE = 1e-8  # in nats; the last step makes the remaining error about the square of this
MAX_EVALUATIONS = 3000
SUFFICIENT_DECREASE = 0.1
SMALLEST_STEP = 2.0**-30
# Near a minimum decrements fall by their square; on the way to infinity each is 1 / e of the one before. Those that fall
# by less than the first of these are looked at again, and by less than the second is to run away.
SUSPICIOUS_RATIO, RUNAWAY_RATIO = 0.05, 0.2
# A preconditioner that needs more products than this, or sees too little of what is left to gain, is replaced.
REFRESH_PRODUCTS, REFRESH_RATIO = 6, 0.1
# A parameter this near to its bound, and pushed to it, counts as there.
NEAR_BOUND = 1e-2


class SmoothExpansion(Place, Protocol):
    """A convex function at one place."""

    @property
    def gradient(self) -> Vector:
        """The slopes of the value."""

    def hessian_product(self, direction: Vector) -> Vector:
        """Return the Hessian times a direction."""

    def curvature(self) -> Any:
        """Return an approximation of the Hessian that :meth:`BoundedObjective.inverse_of` understands."""

    def discard(self) -> None:
        """Hear that nobody will ask again, so that memory can be used for something else."""


class BoundedObjective(Protocol):
    """What is minimised."""

    def expand(self, theta: Vector) -> Any:
        """Return the :class:`SmoothExpansion` at a place."""

    def inverse_of(self, curvature: Any) -> Solver:
        """Return a symmetric positive definite approximate inverse of the Hessian."""


def projected_newton(
    objective: BoundedObjective,
    start: Any,
    lower: Vector,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = 100,
    curvature: Any = None,
) -> tuple[Solution, Any, Any]:
    r"""Minimise a convex objective over :math:`\theta_j \ge l_j` to within about ``tolerance`` of its optimum.

    Two-metric projection :cite:`bertsekas1982`: parameters at their bound, or next to it, that the gradient pushes
    there are put there; all others take the Newton step :math:`H d = -g` among themselves, which
    conjugate gradients find by exact Hessian products until the residual is small against the gradient. Those that
    would cross their bound stop at it and the others are solved for again. Then the step is halved until the
    value falls. It ends when the step promises less than ``tolerance``; that last step is taken too if it helps. If its
    promise was about as large as that of the step before, one more step tells parameters that grow without end, where
    the next one promises about as much again, from steps that had been found too roughly.

    Parameters
    ----------
    objective : BoundedObjective
        What is minimised.
    start : SmoothExpansion
        Where to begin, within the bounds.
    lower : ndarray of shape (P,)
        Least value of every parameter; minus infinity for no bound.
    tolerance : float
        Wanted accuracy of the value.
    max_iterations : int
        Newton steps at the most.
    curvature : object, optional
        Preconditioner of a problem nearby, to save building one; it is replaced when it serves badly.

    Returns
    -------
    solution : Solution
        Never higher than the start.
    expansion : SmoothExpansion
        The objective where the steps ended, to go on from for another penalty.
    curvature : object
        The last preconditioner.
    """
    current = start
    n_iterations, n_evaluations = 0, 1
    decrement, status = np.inf, Status.OUT_OF_ITERATIONS
    solve: Solver | None = None
    built_here = suspected = False
    while n_iterations < max_iterations and n_evaluations < MAX_EVALUATIONS:
        n_iterations += 1
        if solve is None:
            built_here = curvature is None
            curvature = current.curvature() if curvature is None else curvature
            solve = objective.inverse_of(curvature)
        step, n_products = _projected_step(current, lower, solve, tolerance)
        n_evaluations += n_products
        previous, decrement = decrement, max(0.0, -float(current.gradient @ step) / 2)
        if decrement <= tolerance and (built_here or tolerance > TOLERANCE):
            # The last step is taken if it helps; rounding may be all that is left to gain.
            candidate = objective.expand(np.maximum(current.theta + step, lower))
            n_evaluations += 1
            helpful = candidate.value < current.value
            current, other = (candidate, current) if helpful else (current, candidate)
            other.discard()
            ratio = 1.0 if previous == np.inf else decrement / previous
            if helpful and ratio > SUSPICIOUS_RATIO and not suspected:
                suspected, curvature, solve = True, None, None
                continue
            away = helpful and suspected and ratio > RUNAWAY_RATIO
            status = Status.RUNNING_AWAY if away else Status.CONVERGED
            break
        if decrement <= tolerance:
            # A preconditioner from elsewhere hides directions that have become flat since: look again.
            curvature, solve, decrement = None, None, previous
            continue
        if n_products > REFRESH_PRODUCTS or decrement > REFRESH_RATIO * previous:
            curvature = solve = None
        accepted, n_tries = _line_search(objective, current, lower, step)
        n_evaluations += n_tries
        if accepted is None:
            status = Status.OUT_OF_PRECISION
            break
        current.discard()
        current, built_here, suspected = accepted, False, False
    return solution_at(current, decrement, n_iterations, n_evaluations, status), current, curvature


def _projected_step(
    current: SmoothExpansion, lower: Vector, solve: Solver, tolerance: float
) -> tuple[Vector, int]:
    """Return an approximate Newton step that ends within the bounds, always downhill, and the products it took."""
    gradient = current.gradient
    slack = current.theta - lower
    movable = ~((slack <= min(NEAR_BOUND, float(np.abs(gradient).max()))) & (gradient > 0))
    free = movable.copy()
    step = np.where(free, 0.0, -slack) if not free.all() else np.zeros_like(gradient)
    first, n_products = None, 0
    while True:
        n_products += _conjugate_gradients(current, free, step, solve, tolerance)
        crossing = free & (step < -slack)
        if first is None:
            first = step.copy()
        if not crossing.any():
            break
        # Those that would cross their bound stop there, and the others look for the best place again.
        step[crossing] = -slack[crossing]
        free &= ~crossing
    # To stop at bounds may be uphill, then the projection of the first step has to do; and so may be products that are
    # little but rounding, then the step of the preconditioner.
    for found in (step, first):
        if float(gradient @ found) < 0:
            return found, n_products
    return np.where(movable, solve(np.where(movable, -gradient, 0.0)), 0.0), n_products


def _conjugate_gradients(
    current: SmoothExpansion, free: NDArray[np.bool_], step: Vector, solve: Solver, tolerance: float
) -> int:
    """Move the free parameters of ``step`` to about where their slopes vanish, in place; return the products."""
    n_products = 0
    slopes = current.gradient
    if step.any():
        slopes = slopes + current.hessian_product(step)
        n_products += 1
    residual = np.where(free, -slopes, 0.0)
    preconditioned = np.where(free, solve(residual), 0.0)
    size = float(residual @ preconditioned)
    # Solve loosely far away and ever more exactly near the end: superlinear, yet no product is wasted.
    target = max(size * min(0.1, np.sqrt(max(size, 0.0))) ** 2, 1e-3 * tolerance)
    direction = preconditioned
    limit = 10 + min(len(residual), 300)
    while size > target and n_products < limit:
        product = current.hessian_product(direction)
        n_products += 1
        curvature = float(direction @ product)
        if curvature <= 1e-14 * size:
            # Flat as far as numbers can tell: go as far as we know it to be good.
            step += direction if not step.any() else 0.0
            break
        length = size / curvature
        step += length * direction
        residual = residual - length * np.where(free, product, 0.0)
        preconditioned = np.where(free, solve(residual), 0.0)
        size, previous = float(residual @ preconditioned), size
        direction = preconditioned + (size / previous) * direction
    return n_products


def _line_search(
    objective: BoundedObjective, current: SmoothExpansion, lower: Vector, step: Vector
) -> tuple[SmoothExpansion | None, int]:
    """Halve the step until the value falls enough, bounds respected; None if it does not at any length."""
    length, n_tries = 1.0, 0
    while length >= SMALLEST_STEP:
        place = np.maximum(current.theta + length * step, lower)
        candidate: SmoothExpansion = objective.expand(place)
        n_tries += 1
        promise = -float(current.gradient @ (place - current.theta))
        if candidate.value <= current.value - SUFFICIENT_DECREASE * promise:
            return candidate, n_tries
        candidate.discard()
        if promise <= 4 * np.finfo(np.float64).eps * abs(current.value):
            return None, n_tries
        length /= 2
    return None, n_tries
