"""Points of the simplex of three classes: plane coordinates and grids."""

from typing import Any

import numpy as np

from calibrant.arrays import Matrix

__all__ = ["CORNERS", "arrow_points", "planar", "triangle_cells"]


CORNERS: Matrix = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
"""Corners of the three classes: left, right and top of an equilateral triangle with sides of length one."""


def planar(points: Any) -> Matrix:
    r"""Return the plane coordinates of rows of three probabilities, (..., 2).

    .. math:: x(p) = p_1 x_1 + p_2 x_2 + p_3 x_3

    with the corners :math:`x_k`; the height above the side opposite of corner k is the probability of class k. Distances
    are those of the simplex divided by :math:`\sqrt 2`.

    >>> planar([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]]).round(3)
    array([[1.   , 0.   ], [0.5  , 0.   ], [0.5  , 0.289]])
    """
    plane: Matrix = np.asarray(points, dtype=np.float64) @ CORNERS
    return plane


def arrow_points(n_steps: int) -> Matrix:
    """Return the start points of arrows, inside the triangle, (s (s + 1) / 2, 3).

    >>> arrow_points(1)
    array([[0.33333333, 0.33333333, 0.33333333]])
    >>> len(arrow_points(10))
    55
    """
    points: Matrix = (3 * _whole(n_steps) + 1) / (3 * n_steps)
    return points


def triangle_cells(n_steps: int) -> Matrix:
    """Return the corners of the s^2 small triangles that tile the large one, (s^2, 3, 3): cell, corner, class.

    >>> triangle_cells(2).shape
    (4, 3, 3)
    >>> triangle_cells(2).mean(axis=(0, 1))
    array([0.33333333, 0.33333333, 0.33333333])
    """
    upward = _whole(n_steps)[:, np.newaxis] + np.eye(3)
    downward = _whole(n_steps - 1)[:, np.newaxis] + 1 - np.eye(3)
    cells: Matrix = np.concatenate([upward, downward]) / n_steps
    return cells


def _whole(n_steps: int) -> Matrix:
    """Return all rows of three non-negative integers that sum to the number of steps minus one."""
    first, second = np.indices((n_steps, n_steps)).reshape(2, -1)
    whole = np.stack([first, second, n_steps - 1 - first - second], axis=1)
    return whole[whole[:, 2] >= 0].astype(np.float64)
