"""How an objective is minimised; every solver returns a :class:`Solution`."""

from calibrant.solvers.bracketed_newton import bracketed_newton
from calibrant.solvers.newton_cg import newton_cg
from calibrant.solvers.simplex_weights import least_squares_weights, likeliest_weights
from calibrant.solvers.solution import Solution, Status

__all__ = [
    "Solution",
    "Status",
    "bracketed_newton",
    "least_squares_weights",
    "likeliest_weights",
    "newton_cg",
]
