"""Losses of a user: the decisions they lead to, and the one whose decisions rest on the worst predictions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix
from calibrant.errors import ParameterError
from calibrant.numerics.least_cost import first_of_least
from calibrant.options import real_array

__all__ = ["best_decisions", "mean_gap", "parsed_losses", "worst_loss"]


def parsed_losses(losses: Any, n_classes: int) -> NDArray[np.float64]:
    """Return loss matrices of shape (m, n_decisions, K), from several or from a single one.

    >>> parsed_losses([[0, 10], [1, 1]], 2).shape
    (1, 2, 2)
    """
    if hasattr(losses, "to_numpy"):
        # Its names would be ignored, whatever the order of the classes, and a file could not hold it.
        raise ParameterError(
            f"loss_matrices must be an array or lists, not a {type(losses).__name__}; bring its columns into the order of "
            "the classes and give its to_numpy()."
        )
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
    if (matrices == matrices[:, :1]).all(axis=(1, 2)).any():
        raise ParameterError(
            "loss_matrices must have at least two decisions that differ, in a row each; with one alone, or with equal "
            "ones, there is nothing to decide."
        )
    return matrices


def best_decisions(scores: Matrix, losses: Matrix) -> Matrix:
    """Return ones where a decision has the least expected loss, the first of equals, and zeros elsewhere, (D, n).

    >>> best_decisions(np.array([[0.95, 0.05], [0.5, 0.5]]), np.array([[0.0, 10.0], [1.0, 1.0]]))
    array([[1., 0.], [0., 1.]])
    """
    expected = losses @ scores.T
    chosen = first_of_least(expected, float(np.abs(losses).max()), axis=0)
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


def mean_gap(scores: Matrix, residuals: Matrix, matrices: NDArray[np.float64]) -> float:
    r"""Return the mean over losses of the absolute gap between what best decisions cost and what they were expected to.

    .. math:: \frac{1}{m} \sum_{l=1}^m \Bigl| \sum_j \omega_j \, L_{l, \delta_l(f_j)} \cdot (y_j - f_j) \Bigr|

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Predictions f.
    residuals : ndarray of shape (n, K)
        :math:`\omega_j (y_j - f_j)`.
    matrices : ndarray of shape (m, D, K)
        Losses L.

    Examples
    --------
    An error is expected in one row of ten, and found in one of four. Errors cost 1.

    >>> round(mean_gap(np.array([[0.9, 0.1]]), np.array([[-0.15, 0.15]]), 1 - np.eye(2)[np.newaxis]), 12)
    0.15
    """
    gaps = [abs(float((losses * (best_decisions(scores, losses) @ residuals)).sum())) for losses in matrices]
    return float(np.mean(gaps))
