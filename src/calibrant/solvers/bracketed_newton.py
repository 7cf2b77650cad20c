"""Newton's method for one positive parameter, safeguarded by a bracket."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from calibrant.solvers.solution import Solution, Status

__all__ = ["Minimum", "bracketed_newton"]

Derivatives = tuple[float, float, float]

PATIENCE = 5  # passes after which a minimum inside the range would have shown itself


class Minimum(NamedTuple):
    """Result of a one-parameter search."""

    argument: float
    value: float
    decrement: float
    n_evaluations: int
    status: Status

    def solution(self, identity_loss: float = np.nan) -> Solution:
        """Return the result of a fit of one parameter."""
        return Solution(
            theta=np.array([self.argument]),
            value=self.value,
            loss=self.value,
            identity_loss=identity_loss,
            decrement=self.decrement,
            n_iterations=self.n_evaluations,
            n_evaluations=self.n_evaluations + 1,
            status=self.status,
        )


def bracketed_newton(
    function: Callable[[float], Derivatives],
    start: float,
    bounds: tuple[float, float],
    *,
    tolerance: float = 1e-10,
    max_evaluations: int = 100,
) -> Minimum:
    r"""Minimise a function of one positive number whose derivative changes sign once.

    Works on the logarithm t of the argument, with safeguards: the sign of the derivative narrows a bracket,
    a Newton step is taken where it stays inside, and a halving where it does not, so each pass at least
    halves the bracket once both ends are known.

    Parameters
    ----------
    function : callable
        Gives value, first and second derivative at a positive argument.
    start : float
        First argument tried.
    bounds : tuple of float
        Smallest and largest argument allowed.
    tolerance : float
        Stop when the next step would change the argument by less than this, relatively.

    Examples
    --------
    >>> found = bracketed_newton(lambda x: (x - np.log(x), 1 - 1 / x, 1 / x**2), 5.0, (1e-3, 1e3))
    >>> round(found.argument, 9), found.status.name
    (1.0, 'CONVERGED')
    """
    lower, upper = np.log(bounds[0]), np.log(bounds[1])
    low_known = high_known = False
    position = float(np.clip(np.log(start), lower, upper))
    previous_step = 0.0
    for n_evaluations in range(1, max_evaluations + 1):
        argument = float(np.exp(position))
        value, first, second = function(argument)
        slope = argument * first
        bend = slope + argument * argument * second
        decrement = slope * slope / (2 * bend) if bend > 0 else np.inf
        if slope > 0:
            upper, high_known = position, True
        elif slope < 0:
            lower, low_known = position, True
        newton = position - slope / bend if bend > 0 else np.nan
        if slope == 0 and bend == 0:
            # Flat up to rounding: no information, or an optimum.
            return Minimum(argument, value, 0.0, n_evaluations, Status.AT_BOUND)
        if slope == 0 or abs(newton - position) <= tolerance:
            return Minimum(argument, value, decrement, n_evaluations, Status.CONVERGED)
        if (slope < 0 and position >= np.log(bounds[1])) or (slope > 0 and position <= np.log(bounds[0])):
            return Minimum(argument, value, decrement, n_evaluations, Status.AT_BOUND)
        if upper - lower <= tolerance:
            return Minimum(argument, value, decrement, n_evaluations, Status.CONVERGED)
        if lower < newton < upper:
            step = newton - position
            if n_evaluations > PATIENCE and not (low_known and high_known):
                # Newton's steps creep along an exponential tail; from here on each is twice the last.
                step = np.copysign(max(abs(step), 2 * abs(previous_step)), step)
            # Far from the minimum Newton steps can be huge; a factor of ten per step is fast enough and safe.
            previous_step = float(np.clip(step, max(-2.3, lower - position), min(2.3, upper - position)))
            position += previous_step
        elif low_known and high_known:
            position = (lower + upper) / 2
        else:
            position = float(np.clip(position - np.copysign(2.3, slope), lower, upper))
    return Minimum(argument, value, decrement, n_evaluations, Status.OUT_OF_ITERATIONS)
