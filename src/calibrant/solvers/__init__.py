"""How an objective is minimised; every solver returns a :class:`Solution`."""

from calibrant.solvers.bounded_newton import ConvexExpansion, bounded_newton
from calibrant.solvers.bracketed_newton import bracketed_newton
from calibrant.solvers.newton_cg import newton_cg
from calibrant.solvers.quasi_newton import Valley, quasi_newton
from calibrant.solvers.simplex_weights import least_squares_weights, likeliest_weights
from calibrant.solvers.solution import Solution, Status

__all__ = [
    "ConvexExpansion",
    "Solution",
    "Status",
    "Valley",
    "bounded_newton",
    "bracketed_newton",
    "least_squares_weights",
    "likeliest_weights",
    "newton_cg",
    "quasi_newton",
]
