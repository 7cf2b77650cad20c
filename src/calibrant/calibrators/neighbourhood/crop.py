"""Cropping: corrected predictions that have left the simplex are brought back to it."""

from typing import Any, Literal

import numpy as np

from calibrant.arrays import Matrix
from calibrant.errors import ParameterError
from calibrant.graph import Value
from calibrant.graph.curves import Piecewise
from calibrant.options import check_choice, is_number

__all__ = ["Crop", "check_crop", "cropped", "settled_epsilon", "traced_crop"]

Crop = Literal["clip", "outside"]
"""``"clip"`` moves every entry into [epsilon, 1 - epsilon]; ``"outside"`` only those below 0 or above 1."""


LARGEST_EPSILON = 1e-4  # of the literature, for ten classes


def check_crop(crop: Any, epsilon: Any) -> None:
    """Refuse an unknown way to crop, or an epsilon that is not a small number."""
    check_choice("crop", crop, ("clip", "outside"))
    if epsilon == "auto" and isinstance(epsilon, str):
        return
    if not is_number(epsilon) or not 0 < epsilon < 0.5:
        raise ParameterError(f"epsilon must be 'auto' or lie strictly between 0 and 0.5, but is {epsilon!r}.")


def settled_epsilon(epsilon: float | Literal["auto"], n_classes: int) -> float:
    """Return epsilon itself, or for ``"auto"`` the one of the literature: 1e-4 for ten classes, 1e-6 for a hundred.

    >>> settled_epsilon("auto", 3), settled_epsilon("auto", 10), settled_epsilon("auto", 100)
    (0.0001, 0.0001, 1e-06)
    """
    return min(LARGEST_EPSILON, 0.01 / n_classes**2) if isinstance(epsilon, str) else float(epsilon)


def cropped(scores: Matrix, crop: Crop, epsilon: float) -> Matrix:
    r"""Return rows of the simplex for rows that may have left it.

    .. math:: q'_k = \min(\max(q_k, \epsilon), 1 - \epsilon), \qquad q''_k = q'_k / \textstyle\sum_j q'_j

    which is Algorithm 2 of :cite:`valk2022` (``"clip"``). Its program is milder (``"outside"``): entries below 0 become
    epsilon, entries above 1 become 1 - epsilon, and all others stay, those from 0 to epsilon too; exact zeros are then
    possible.

    >>> cropped(np.array([[1.02, -0.03, 0.01]]), "clip", 0.001).round(4)
    array([[0.9891, 0.001 , 0.0099]])
    """
    if crop == "clip":
        inside = np.clip(scores, epsilon, 1 - epsilon)
    else:
        inside = np.where(scores < 0, epsilon, np.where(scores > 1, 1 - epsilon, scores))
    inside /= inside.sum(axis=1, keepdims=True)
    return inside


def traced_crop(scores: Value, crop: Crop, epsilon: float) -> Value:
    """Return :func:`cropped` of symbolic scores."""
    if crop == "clip":
        inside = scores.clip(epsilon, 1 - epsilon)
    else:
        above_one = float(np.nextafter(1.0, 2.0))
        inside = scores.then(
            Piecewise(
                knots=np.array([0.0, above_one]),
                n_knots=np.array([2]),
                origins=np.zeros(3),
                coefficients=np.array([[epsilon, 0.0, 1 - epsilon], [0.0, 1.0, 0.0]]),
            )
        )
    return inside / inside.row("sum")
