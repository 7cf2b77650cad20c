"""Newton's method whose steps are found by preconditioned conjugate gradients."""

from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.objective import Expansion, Objective
from calibrant.objective.curvature import Curvature, Solver
from calibrant.solvers.solution import Solution, Status

__all__ = ["Place", "guarded", "newton_cg", "newton_steps", "solution_at"]

Vector = NDArray[np.float64]

# In nats; the last step makes the remaining error about the square of this.
TOLERANCE = 1e-8

MAX_EVALUATIONS = (
    3000  # passes after which rows are as good as separable and parameters on their way to infinity
)
SUFFICIENT_DECREASE = 0.1
RUNAWAY_RATIO, RUNAWAY_STEP = 0.05, 1e-3
SMALLEST_STEP = 2.0**-30
REFRESH_PRODUCTS, REFRESH_RATIO = 6, 0.1


class Place(Protocol):
    """What is known about a function where a solver stopped."""

    @property
    def theta(self) -> Vector:
        """The place."""

    @property
    def value(self) -> float:
        """What is minimised."""

    @property
    def data_loss(self) -> float:
        """The value without its penalty."""


def newton_cg(
    objective: Objective,
    start: Vector,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = 100,
    curvature: Curvature | None = None,
) -> Solution:
    r"""Minimise an objective to within about ``tolerance`` of its optimum.

    Every step solves :math:`H d = -g` by conjugate gradients with exact Hessian products until the
    residual is small against the gradient, or the curvature turns out not to be positive, and then halves
    d until the value falls. It stops when the Newton decrement :math:`-g^\top d / 2`, the predicted
    further fall, is below ``tolerance``: a test in nats that does not depend on the scale of the features.
    If the mean loss is then above that of the identity, the identity is returned.

    Parameters
    ----------
    objective : Objective
    start : ndarray
        Where to begin.
    tolerance : float
        Wanted accuracy of the value.
    max_iterations : int
        Newton steps at the most.
    curvature : Curvature, optional
        Preconditioner of a problem nearby, to save building one; it is replaced when it serves badly.

    References
    ----------
    :cite:`nocedal2006`, chapter 7.
    """
    with objective.open():
        solution, _ = newton_steps(
            objective,
            objective.expand(start),
            tolerance=tolerance,
            max_iterations=max_iterations,
            curvature=curvature,
        )
        return guarded(objective, solution)


def newton_steps(
    objective: Objective,
    start: Expansion,
    *,
    tolerance: float,
    max_iterations: int = 100,
    curvature: Curvature | None = None,
) -> tuple[Solution, Expansion]:
    """Do the steps of :func:`newton_cg` from where everything is known already; return where they end.

    For a path of problems that differ in their penalty only, this saves a pass for each.
    """
    current = start
    n_evaluations, decrement, status = 1, np.inf, Status.OUT_OF_ITERATIONS
    solve: Solver | None = None
    built_here = False
    n_iterations = 0
    while n_iterations < max_iterations and n_evaluations < MAX_EVALUATIONS:
        n_iterations += 1
        if solve is None:
            built_here = curvature is None
            curvature = curvature or current.curvature()
            solve = curvature.solver(objective.penalty.curvature)
        step, n_products = _newton_step(current, solve, tolerance)
        n_evaluations += n_products
        previous, decrement = decrement, -float(current.gradient @ step) / 2
        if n_products > REFRESH_PRODUCTS or decrement > REFRESH_RATIO * previous:
            # It needed many products, or sees too little of what is left to gain: out of date.
            curvature = solve = None
        if decrement <= tolerance:
            if tolerance <= TOLERANCE and not built_here:
                # A preconditioner from elsewhere hides directions that have become flat since: look again.
                curvature, solve, decrement = None, None, previous
                continue
            # The last step is taken if it helps; rounding may be all that is left to gain.
            candidate = objective.expand(current.theta + step)
            n_evaluations += 1
            current = candidate if candidate.value < current.value else current
            # Near a minimum decrements fall by their square; on the way to infinity by a factor at a time, with
            # steps that stay long.
            slow = decrement > RUNAWAY_RATIO * previous
            long = np.abs(step).max() > RUNAWAY_STEP * np.abs(current.theta).max()
            status = Status.RUNNING_AWAY if slow and long else Status.CONVERGED
            break
        accepted, n_tries = _line_search(objective, current, step, decrement)
        n_evaluations += n_tries
        if accepted is None:
            status = Status.OUT_OF_PRECISION
            break
        current, built_here = accepted, False
    return solution_at(current, decrement, n_iterations, n_evaluations, status), current


def solution_at(
    place: Place, decrement: float, n_iterations: int, n_evaluations: int, status: Status
) -> Solution:
    """Return the end of a fit at a place; the loss of the identity is left open."""
    return Solution(
        theta=place.theta,
        value=place.value,
        loss=place.data_loss,
        identity_loss=np.nan,
        decrement=decrement,
        n_iterations=n_iterations,
        n_evaluations=n_evaluations,
        status=status,
    )


def guarded(objective: Objective, solution: Solution) -> Solution:
    """Return the solution, or the identity if that has the lower mean loss on the same rows."""
    identity = objective.expand(objective.map.identity())
    solution = replace(solution, identity_loss=identity.data_loss, n_evaluations=solution.n_evaluations + 1)
    if solution.loss <= identity.data_loss:
        return solution
    return replace(
        solution,
        theta=identity.theta,
        value=identity.value,
        loss=identity.data_loss,
        status=Status.IDENTITY,
    )


def _newton_step(current: Expansion, solve: Solver, tolerance: float) -> tuple[Vector, int]:
    """Return an approximate Newton step, always a descent direction, and the products it took."""
    residual = -current.gradient
    preconditioned = solve(residual)
    size = float(residual @ preconditioned)
    if size <= 0:
        return preconditioned, 0
    # Solve loosely far away and ever more exactly near the end: superlinear, yet no product is wasted.
    target = size * min(0.1, np.sqrt(size)) ** 2
    direction = preconditioned
    step = np.zeros_like(residual)
    limit = 10 + min(len(residual), 300)
    for n_products in range(1, limit + 1):
        product = current.hessian_product(direction)
        curvature = float(direction @ product)
        if curvature <= 1e-14 * abs(size):
            # Flat or bending down (Brier only): go as far as we know it to be good.
            return (step if n_products > 1 else preconditioned), n_products
        length = size / curvature
        step += length * direction
        residual = residual - length * product
        preconditioned = solve(residual)
        new_size = float(residual @ preconditioned)
        if new_size <= max(target, 1e-3 * tolerance):
            break
        direction = preconditioned + (new_size / size) * direction
        size = new_size
    return step, n_products


def _line_search(
    objective: Objective, current: Expansion, step: Vector, decrement: float
) -> tuple[Expansion | None, int]:
    """Halve the step until the value falls enough; None if it does not at any length."""
    length, n_tries = 1.0, 0
    while length >= SMALLEST_STEP:
        candidate = objective.expand(current.theta + length * step)
        n_tries += 1
        if candidate.value <= current.value - 2 * SUFFICIENT_DECREASE * length * decrement:
            return candidate, n_tries
        if 2 * length * decrement <= 4 * np.finfo(np.float64).eps * abs(current.value):
            return None, n_tries
        length /= 2
    return None, n_tries
