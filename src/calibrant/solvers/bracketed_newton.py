"""Newton's method for one positive parameter, safe inside a bracket."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from calibrant.solvers.solution import Status

__all__ = ["Minimum", "bracketed_newton"]

Derivatives = tuple[float, float, float]


class Minimum(NamedTuple):
    """Where a one-parameter search stopped."""

    argument: float
    value: float
    decrement: float
    n_evaluations: int
    status: Status


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
    >>> bracketed_newton(lambda x: (x - np.log(x), 1 - 1 / x, 1 / x**2), 5.0, (1e-3, 1e3)).argument
    1.0
    """
    lower, upper = np.log(bounds[0]), np.log(bounds[1])
    low_known = high_known = False
    position = float(np.clip(np.log(start), lower, upper))
    for n_evaluations in range(1, max_evaluations + 1):
        argument = float(np.exp(position))
        value, first, second = function(argument)
        slope = argument * first
        bend = slope + argument**2 * second
        decrement = slope**2 / (2 * bend) if bend > 0 else np.inf
        if slope > 0:
            upper, high_known = position, True
        elif slope < 0:
            lower, low_known = position, True
        newton = position - slope / bend if bend > 0 else np.nan
        if slope == 0 or abs(newton - position) <= tolerance:
            return Minimum(argument, value, decrement, n_evaluations, Status.CONVERGED)
        if (slope < 0 and position >= np.log(bounds[1])) or (slope > 0 and position <= np.log(bounds[0])):
            return Minimum(argument, value, decrement, n_evaluations, Status.AT_BOUND)
        if upper - lower <= tolerance:
            return Minimum(argument, value, decrement, n_evaluations, Status.CONVERGED)
        if lower < newton < upper:
            # Far from the bottom Newton can leap; a factor of ten a time is fast enough and safe.
            position += float(np.clip(newton - position, -2.3, 2.3))
        elif low_known and high_known:
            position = (lower + upper) / 2
        else:
            position = float(np.clip(position - np.copysign(2.3, slope), lower, upper))
    return Minimum(argument, value, decrement, n_evaluations, Status.OUT_OF_ITERATIONS)
