"""Solvers, which minimise an objective and return a :class:`Solution`."""

import warnings
from typing import Any

from calibrant.solvers.bounded_newton import bounded_newton
from calibrant.solvers.bracketed_newton import bracketed_newton
from calibrant.solvers.logistic import logistic_newton, outcome_logistic, smoothed_targets
from calibrant.solvers.newton_cg import newton_cg, newton_steps
from calibrant.solvers.quasi_newton import LocalMinimum, quasi_newton
from calibrant.solvers.simplex_weights import least_squares_weights, likeliest_weights
from calibrant.solvers.solution import Solution, Status

__all__ = [
    "LocalMinimum",
    "Solution",
    "Status",
    "bounded_newton",
    "bracketed_newton",
    "least_squares_weights",
    "likeliest_weights",
    "logistic_newton",
    "newton_cg",
    "newton_steps",
    "outcome_logistic",
    "quasi_newton",
    "smoothed_targets",
]


def __getattr__(name: str) -> Any:
    if name == "Valley":
        warnings.warn("Valley is called LocalMinimum now; use that name.", DeprecationWarning, stacklevel=2)
        return LocalMinimum
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
