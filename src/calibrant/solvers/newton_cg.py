"""Newton's method by preconditioned conjugate gradients, with lower bounds on the parameters."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.objective import Expansion, Objective
from calibrant.objective.curvature import Curvature
from calibrant.solvers.solution import Solution, Status

__all__ = ["TOLERANCE", "guarded", "newton_cg", "newton_steps"]

Inverse = Callable[[Vector], Vector]

TOLERANCE = 1e-8  # in nats; the last step makes the remaining error about the square of this
MAX_EVALUATIONS = (
    3000  # passes after which rows are as good as separable and parameters on their way to infinity
)
SUFFICIENT_DECREASE = 0.1
SMALLEST_STEP = 2.0**-30
# Near a minimum decrements fall by their square; on the way to infinity each is 1 / e of the one before, and steps
# stay long. With ``confirm_runaway`` one more step tells the two apart, by the second ratio.
RUNAWAY_RATIO, CONFIRMED_RATIO, RUNAWAY_STEP = 0.05, 0.2, 1e-3
# A preconditioner that needs more products than this, or sees too little of what is left to gain, is replaced.
REFRESH_PRODUCTS, REFRESH_RATIO = 6, 0.1
# A parameter this near to its bound, and pushed to it, counts as there.
NEAR_BOUND = 1e-2


def newton_cg(
    objective: Objective,
    start: Vector,
    *,
    max_iterations: int = 100,
    curvature: Curvature | None = None,
) -> Solution:
    r"""Minimise an objective to within about 1e-8 nats of its optimum; never worse than the identity.

    See :func:`newton_steps` for the steps. If they get stuck where probabilities are 0 and 1 to rounding, and curvature
    vanishes, they start again at zero, the uniform predictions. If the mean loss ends above that of the identity, the
    identity is returned.
    """

    def ended(start: Vector, curvature: Curvature | None) -> Solution:
        return newton_steps(
            objective,
            objective.expand(start),
            max_iterations=max_iterations,
            curvature=curvature,
        )[0]

    with objective.open():
        solution = ended(start, curvature)
        if solution.status is Status.OUT_OF_PRECISION:
            solution = min(solution, ended(np.zeros_like(start), None), key=lambda found: found.value)
        return guarded(objective, solution)


@np.errstate(over="ignore", invalid="ignore")  # of a value that overflows, and so is not lower
def newton_steps(
    objective: Objective,
    start: Expansion,
    lower: Vector | None = None,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = 100,
    curvature: Curvature | None = None,
    confirm_runaway: bool = False,
) -> tuple[Solution, Expansion, Curvature | None]:
    r"""Minimise an objective over :math:`\theta_j \ge l_j` to within about ``tolerance`` of its optimum.

    Every step solves :math:`H d = -g` by conjugate gradients with exact Hessian products until the residual is small
    against the gradient, or the curvature is not positive, and then halves d until the value falls. Bounds are met by
    two-metric projection :cite:`bertsekas1982`: parameters at or near their bound that the gradient pushes there are
    put there, those that would cross their bound stop at it, and the others are solved for again.
    It stops when the Newton decrement :math:`-g^\top d / 2`, the predicted further fall, is below ``tolerance``: a
    test in nats that does not depend on the scale of the features. That last step is taken too if it helps. See
    :cite:`nocedal2006`, chapter 7.

    ``curvature`` is the preconditioner of a problem nearby, which is replaced when it serves badly. With
    ``confirm_runaway``, one more step is taken before parameters are said to diverge.

    Returns the solution, which is never higher than the start and leaves the loss of the identity open, the objective
    where the steps ended, and the last preconditioner.
    """
    current = start
    bounds = np.full(len(current.theta), -np.inf) if lower is None else lower
    n_iterations, n_evaluations = 0, 1
    decrement, status = np.inf, Status.OUT_OF_ITERATIONS
    solve: Inverse | None = None
    built_here = suspected = False
    while n_iterations < max_iterations and n_evaluations < MAX_EVALUATIONS:
        n_iterations += 1
        if solve is None:
            built_here = curvature is None
            curvature = current.curvature() if curvature is None else curvature
            solve = curvature.solver(objective.penalty)
        step, n_products = _projected_step(current, bounds, solve, tolerance)
        n_evaluations += n_products
        previous, decrement = decrement, max(0.0, -float(current.gradient @ step) / 2)
        if decrement == 0 and np.abs(current.gradient) @ np.abs(current.theta) > tolerance:
            # Not the optimum: there is a slope, but rounding hides the curvature.
            status = Status.OUT_OF_PRECISION
            break
        if decrement <= tolerance and (built_here or tolerance > TOLERANCE):
            # The last step is taken if it helps; rounding may be all that is left to gain.
            candidate = objective.expand(np.maximum(current.theta + step, bounds))
            n_evaluations += 1
            helpful = candidate.value < current.value
            current, other = (candidate, current) if helpful else (current, candidate)
            if other is not start:  # whoever gave it may still need it
                other.discard()
            ratio = 1.0 if previous == np.inf else decrement / previous
            if confirm_runaway:
                if helpful and ratio > RUNAWAY_RATIO and not suspected:
                    suspected, curvature, solve = True, None, None
                    continue
                away = helpful and suspected and ratio > CONFIRMED_RATIO
            else:
                long = np.abs(step).max() > RUNAWAY_STEP * np.abs(current.theta).max()
                away = bool(long) and previous < np.inf and ratio > RUNAWAY_RATIO
            status = Status.RUNNING_AWAY if away else Status.CONVERGED
            break
        if decrement <= tolerance:
            # A preconditioner from elsewhere hides directions that have become flat since: look again.
            curvature, solve, decrement = None, None, previous
            continue
        if n_products > REFRESH_PRODUCTS or decrement > REFRESH_RATIO * previous:
            # It needed many products, or sees too little of what is left to gain: out of date.
            curvature = solve = None
        accepted, n_tries = _line_search(objective, current, bounds, step)
        n_evaluations += n_tries
        if accepted is None:
            status = Status.OUT_OF_PRECISION
            break
        if current is not start:
            current.discard()
        current, built_here, suspected = accepted, False, False
    solution = Solution(
        theta=current.theta,
        value=current.value,
        loss=current.data_loss,
        identity_loss=np.nan,
        decrement=decrement,
        n_iterations=n_iterations,
        n_evaluations=n_evaluations,
        status=status,
    )
    return solution, current, curvature


def guarded(objective: Objective, solution: Solution) -> Solution:
    """Return the solution, or the identity if that has the lower mean loss on the same rows."""
    identity = objective.expand(objective.map.identity())
    identity.discard()
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


def _projected_step(
    current: Expansion, lower: Vector, solve: Inverse, tolerance: float
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
    current: Expansion, free: NDArray[np.bool_], step: Vector, solve: Inverse, tolerance: float
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
            # Flat, or not convex: go as far as we know it to be good.
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
    objective: Objective, current: Expansion, lower: Vector, step: Vector
) -> tuple[Expansion | None, int]:
    """Halve the step until the value falls enough, bounds respected; None if it does not at any length."""
    length, n_tries = 1.0, 0
    while length >= SMALLEST_STEP:
        place = np.maximum(current.theta + length * step, lower)
        candidate = objective.expand(place)
        n_tries += 1
        promise = -float(current.gradient @ (place - current.theta))
        if candidate.value <= current.value - SUFFICIENT_DECREASE * promise:
            return candidate, n_tries
        candidate.discard()
        if promise <= 4 * np.finfo(np.float64).eps * abs(current.value):
            return None, n_tries
        length /= 2
    return None, n_tries
