"""Losses of a user: the decisions they lead to, and the one whose decisions rest on the worst predictions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ParameterError
from calibrant.options import real_array

__all__ = ["best_decisions", "parsed_losses", "worst_loss"]

Matrix = NDArray[np.float64]

# Expected losses that differ by less, relative to the largest entry, are equal: sums of rounded numbers.
SAME_LOSS = 1e-12


def parsed_losses(losses: Any, n_classes: int) -> NDArray[np.float64]:
    """Return loss matrices of shape (m, n_decisions, K), from several or from a single one.

    >>> parsed_losses([[0, 10], [1, 1]], 2).shape
    (1, 2, 2)
    """
    matrices = real_array(losses)
    if matrices is not None and matrices.ndim == 2:
        matrices = matrices[np.newaxis]
    if matrices is None or matrices.ndim != 3 or matrices.size == 0 or not np.isfinite(matrices).all():
        raise ParameterError(
            "loss_matrices must be finite numbers of shape (n_decisions, n_classes), one for each decision and class, "
            "or several such tables."
        )
    if matrices.shape[2] != n_classes:
        raise ParameterError(
            f"loss_matrices are for {matrices.shape[2]} classes, but there are {n_classes}; "
            "give every decision a loss for every class."
        )
    return matrices


def best_decisions(scores: Matrix, losses: Matrix) -> Matrix:
    """Return ones where a decision has the least expected loss, the first of equals, and zeros elsewhere, (D, n).

    >>> best_decisions(np.array([[0.95, 0.05], [0.5, 0.5]]), np.array([[0.0, 10.0], [1.0, 1.0]]))
    array([[1., 0.], [0., 1.]])
    """
    expected = losses @ scores.T
    least = expected.min(axis=0) + SAME_LOSS * np.abs(losses).max()
    chosen = np.argmax(expected <= least, axis=0)
    parts = np.zeros_like(expected)
    parts[chosen, np.arange(len(scores))] = 1
    return parts


def worst_loss(scores: Matrix, residuals: Matrix, matrices: NDArray[np.float64]) -> tuple[Matrix, float]:
    """Return the loss whose best decisions part the rows with the largest violation, (D, K), and that violation.

    It bounds the gap between expected and real loss of all losses that lead to these decisions and whose rows have a
    norm of at most one.
    """
    violations = [
        float(np.linalg.norm(best_decisions(scores, losses) @ residuals, axis=1).sum()) for losses in matrices
    ]
    worst = int(np.argmax(violations))
    return matrices[worst], violations[worst]
