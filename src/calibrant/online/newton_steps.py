"""Online Newton steps for logistic regression on up to three features, row by row."""

from collections.abc import Iterator
from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from calibrant.arrays import Matrix, Vector

__all__ = ["NewtonState", "newton_steps", "projection"]


LARGEST_SCORE = 700.0  # its exponential is still a finite float


class NewtonState(NamedTuple):
    """Parameters, (3,), and the matrix A, (3, 3), of the steps so far; unused parameters remain zero."""

    theta: Vector
    matrix: Matrix


def newton_steps(
    state: NewtonState,
    features: Matrix,
    outcomes: NDArray[np.bool_],
    *,
    step: float,
    radius: float,
    kept: float = 1.0,
    start_curvature: float = 0.0,
) -> tuple[NewtonState, Vector]:
    r"""Process rows in order; return the new state, and the score of each row before its update.

    .. math:: g_t = (\sigma(\theta_t^\top x_t) - y_t) x_t, \qquad
              A_t = \kappa A_{t-1} + (1 - \kappa) \epsilon I + g_t g_t^\top, \qquad
              \theta_{t+1} = \Pi_{A_t}\bigl(\theta_t - \tfrac1\gamma A_t^{-1} g_t\bigr)

    Parameters
    ----------
    state : NewtonState
    features : ndarray of shape (n, 3)
        Rows x; a column of zeros for an unused feature.
    outcomes : ndarray of shape (n,)
    step : float
        :math:`\gamma`.
    radius : float
        Radius of the ball for the projection in the norm of A.
    kept : float
        :math:`\kappa`, by which earlier gradients decay with every row; 1 for no decay.
    start_curvature : float
        :math:`\epsilon` of the initial matrix, to which it returns if gradients decay.

    Notes
    -----
    Uses plain floats and an explicit L D L' factorisation: some microseconds per row, without the drift of a repeatedly
    updated inverse.
    """
    theta1, theta2, theta3 = state.theta.tolist()
    (a11, a21, a31), (_, a22, a32), (_, _, a33) = state.matrix.tolist()
    added, square, inverse_step = (1 - kept) * start_curvature, radius * radius, 1 / step
    scores = []
    fades = kept < 1
    for (x1, x2, x3), occurred in _rows(features, outcomes):
        score = theta1 * x1 + theta2 * x2 + theta3 * x3
        scores.append(score)
        if score >= 0:
            small = exp(-min(score, LARGEST_SCORE))
            residual = -small / (1 + small) if occurred else 1 / (1 + small)
        else:
            small = exp(max(score, -LARGEST_SCORE))
            residual = -1 / (1 + small) if occurred else small / (1 + small)
        g1, g2, g3 = residual * x1, residual * x2, residual * x3
        if fades:
            a11, a22, a33 = a11 * kept + added, a22 * kept + added, a33 * kept + added
            a21, a31, a32 = a21 * kept, a31 * kept, a32 * kept
        a11, a22, a33 = a11 + g1 * g1, a22 + g2 * g2, a33 + g3 * g3
        a21, a31, a32 = a21 + g2 * g1, a31 + g3 * g1, a32 + g3 * g2
        l21, l31 = a21 / a11, a31 / a11
        d2, rest = a22 - l21 * a21, a32 - l31 * a21
        l32 = rest / d2
        d3 = a33 - l31 * a31 - l32 * rest
        z2 = g2 - l21 * g1
        s3 = (g3 - l31 * g1 - l32 * z2) / d3
        s2 = z2 / d2 - l32 * s3
        s1 = g1 / a11 - l21 * s2 - l31 * s3
        theta1, theta2, theta3 = (
            theta1 - inverse_step * s1,
            theta2 - inverse_step * s2,
            theta3 - inverse_step * s3,
        )
        if theta1 * theta1 + theta2 * theta2 + theta3 * theta3 > square:
            matrix = np.array([[a11, a21, a31], [a21, a22, a32], [a31, a32, a33]])
            theta1, theta2, theta3 = projection(np.array([theta1, theta2, theta3]), matrix, radius).tolist()
    matrix = np.array([[a11, a21, a31], [a21, a22, a32], [a31, a32, a33]])
    return NewtonState(np.array([theta1, theta2, theta3]), matrix), np.array(scores, dtype=np.float64)


def projection(point: Vector, matrix: Matrix, radius: float) -> Vector:
    r"""Return the projection on the ball in the norm of a positive definite matrix A.

    It is :math:`(A + \mu I)^{-1} A\, x` with the multiplier :math:`\mu \ge 0` for which its norm is the radius; in the
    eigenbasis of A this is a decreasing function of one variable.

    >>> projection(np.array([3.0, 4.0]), np.eye(2), 1.0)
    array([0.6, 0.8])
    """
    length = float(np.linalg.norm(point))
    if length <= radius:
        return point
    bends, axes = np.linalg.eigh(matrix)
    along = axes.T @ point

    def excess(multiplier: float) -> float:
        return float(np.linalg.norm(along * (bends / (bends + multiplier)))) - radius

    # Upper limit of the multiplier: no coordinate shrinks less than that of the largest eigenvalue.
    largest = float(bends[-1]) * (length / radius - 1)
    if excess(largest) >= 0:
        multiplier = largest
    else:
        multiplier = brentq(excess, 0.0, largest, xtol=1e-300, rtol=4 * np.finfo(np.float64).eps)
    nearest: Vector = axes @ (along * (bends / (bends + multiplier)))
    return nearest


def _rows(features: Matrix, outcomes: NDArray[np.bool_]) -> Iterator[tuple[list[float], bool]]:
    return zip(features.tolist(), outcomes.tolist(), strict=True)
