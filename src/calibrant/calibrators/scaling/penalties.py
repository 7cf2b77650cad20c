"""The penalties of matrix scaling and Dirichlet calibration, as strengths for [W | b]."""

from typing import Any, Literal

import numpy as np

from calibrant.errors import ParameterError
from calibrant.objective import QuadraticPenalty

__all__ = ["PenaltyName", "affine_penalty", "check_penalty", "natural_strengths"]

PenaltyName = Literal["odir", "l2"] | None


def check_penalty(name: Any) -> None:
    """Raise an error unless this names a penalty."""
    if name not in ("odir", "l2", None):
        raise ParameterError(f"penalty must be 'odir', 'l2' or None, not {name!r}.")


def affine_penalty(
    name: PenaltyName, n_classes: int, reg_lambda: float, reg_mu: float, center: float = 1.0
) -> QuadraticPenalty:
    r"""Return the penalty on the matrix [W | b], row by row.

    * ``"odir"``: :math:`\frac{\lambda}{K(K-1)} \sum_{i \ne j} w_{ij}^2 + \frac{\mu}{K} \sum_j b_j^2`
      :cite:`kull2019`; the diagonal of W is free.
    * ``"l2"``: :math:`\lambda \lVert W - C \rVert^2 + \mu \lVert b \rVert^2` with C = ``center`` times the identity.
    """
    check_penalty(name)
    strengths = np.zeros((n_classes, n_classes + 1))
    middle = center * np.eye(n_classes, n_classes + 1)
    if name == "odir":
        strengths[:, :n_classes] = reg_lambda / (n_classes * (n_classes - 1))
        np.fill_diagonal(strengths, 0.0)
        strengths[:, n_classes] = reg_mu / n_classes
    elif name == "l2":
        strengths[:, :n_classes] = reg_lambda
        strengths[:, n_classes] = reg_mu
    return QuadraticPenalty(strengths.ravel(), middle.ravel())


def natural_strengths(name: PenaltyName, n_classes: int, total_weight: float) -> tuple[float, float]:
    r"""Return the :math:`\lambda, \mu` that price the sum of squares of m parameters at m / n.

    This is where a search begins: for K = 10 and n = 5000 ODIR's natural :math:`\lambda` is 1.6, for
    K = 100 it is 20,000, which is the order of magnitude that cross-validation chooses.
    """
    n_weights = n_classes * (n_classes - 1)
    if name == "odir":
        return n_weights**2 / total_weight, n_classes**2 / total_weight
    return n_weights / total_weight, n_classes / total_weight
