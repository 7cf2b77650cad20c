"""Quasi-Newton minimisation of smooth functions with gradients, convex or not."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from calibrant.arrays import Vector
from calibrant.numerics.row_blocks import one_blas_thread
from calibrant.solvers.solution import Status

__all__ = ["LocalMinimum", "quasi_newton"]


# Stored pairs of steps and gradients (limited-memory BFGS); each costs two inner products.
MEMORY = 30

ABNORMAL = 2  # scipy's status of a line search without improvement


class LocalMinimum(NamedTuple):
    """Result of a quasi-Newton search: a local minimum, if it converged."""

    theta: Vector
    value: float
    largest_slope: float
    n_iterations: int
    n_evaluations: int
    status: Status


def quasi_newton(
    function: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    *,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
    tolerance: float = 1e-9,
    slope_tolerance: float = 1e-7,
    max_iterations: int = 1000,
) -> LocalMinimum:
    """Minimise a smooth function by L-BFGS-B.

    The value never exceeds that of the start.

    Parameters
    ----------
    function : callable
        Gives value and gradient.
    start : ndarray
        Starting point.
    bounds : sequence of pairs, optional
        Least and largest value of every parameter, None for no bound.
    tolerance : float
        Stop when a step lowers the value by less than this, in units of the value itself or of 1 if that is more.
    slope_tolerance : float
        Stop when no free entry of the gradient is larger.
    max_iterations : int
        Largest number of steps.

    Examples
    --------
    >>> found = quasi_newton(lambda x: (float((x - 3) @ (x - 3)), 2 * (x - 3)), np.zeros(2))
    >>> found.theta.round(6), found.status.name
    (array([3., 3.]), 'CONVERGED')
    """
    # Products of short vectors: waking the threads of BLAS for them takes longer than the work.
    with one_blas_thread():
        found = minimize(
            function,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={
                "maxcor": MEMORY,
                "ftol": tolerance,
                "gtol": slope_tolerance,
                "maxiter": max_iterations,
                "maxfun": 4 * max_iterations,
            },
        )
    if found.success:
        status = Status.CONVERGED
    else:
        status = Status.OUT_OF_PRECISION if found.status == ABNORMAL else Status.OUT_OF_ITERATIONS
    value, slope = found.fun, found.jac
    if status is Status.OUT_OF_PRECISION:
        # After an abnormal end scipy reports the value of the last trial step.
        value, slope = function(np.asarray(found.x, dtype=np.float64))
    return LocalMinimum(
        theta=np.asarray(found.x, dtype=np.float64),
        value=float(value),
        largest_slope=float(np.abs(slope).max()),
        n_iterations=int(found.nit),
        n_evaluations=int(found.nfev),
        status=status,
    )
