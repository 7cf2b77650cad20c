"""From the end of a solver to class shares."""

import numpy as np
from numpy.typing import NDArray

from calibrant.solvers import Solution

__all__ = ["shares_found"]

ROUNDING = 1e-12  # shares below which are zero


def shares_found(solution: Solution) -> NDArray[np.float64]:
    """Return weights on the simplex as shares, (K,), and warn if the solver stopped before its end.

    >>> from calibrant.solvers import least_squares_weights
    >>> shares_found(least_squares_weights(np.eye(2), np.array([0.75, 0.25]))).round(9)
    array([0.75, 0.25])
    """
    solution.warn_unless_converged("LabelShift.estimate")
    shares = np.where(solution.theta > ROUNDING, solution.theta, 0.0)
    return np.asarray(shares / shares.sum())
