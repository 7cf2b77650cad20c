"""Which classes the predictions cannot tell apart, so that their shares cannot be estimated separately."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

__all__ = ["indistinct_groups"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Standard errors by which predictions must be related to the labels in every contrast of classes.
EVIDENCE = 3.0

# Two classes belong together if the contrasts without evidence join them by more than this, where 1/2 is a pair.
JOINED = 0.1


def indistinct_groups(
    soft: Matrix, second_moments: Matrix, label_shares: Vector, n_rows: float
) -> list[list[int]]:
    r"""Return groups of classes between which labelled rows do not show any difference in predictions.

    The singular vectors of :math:`D_m^{-1/2} \, E[q y^\top] \, D_y^{-1/2}`, with the margins in D, are contrasts of
    predictions and of classes that go together, as in correspondence analysis. A contrast of classes for which the
    correlation is not three standard errors above zero is one that predictions carry no evidence about: shares
    could be moved along it without anything to be seen.

    Parameters
    ----------
    soft : ndarray of shape (K, K)
        Column k: mean prediction among rows of class k.
    second_moments : ndarray of shape (K, K)
        Mean of :math:`q q^\top`.
    label_shares : ndarray of shape (K,)
        All positive.
    n_rows : float
        Number of rows behind these.

    Examples
    --------
    The second and third class always get the same probability.

    >>> soft = np.array([[0.8, 0.2, 0.2], [0.1, 0.4, 0.4], [0.1, 0.4, 0.4]])
    >>> moments = soft @ np.diag([0.4, 0.3, 0.3]) @ soft.T
    >>> indistinct_groups(soft, moments, np.array([0.4, 0.3, 0.3]), 1000)
    [[1, 2]]
    """
    joint = soft * label_shares
    margins = np.sqrt(np.maximum(joint.sum(axis=1), np.finfo(np.float64).tiny))
    roots = np.sqrt(label_shares)
    left, strengths, right = np.linalg.svd(joint / np.outer(margins, roots))
    # One pair is constant: all predictions, all classes.
    contrasts = np.arange(len(roots)) != np.argmax(np.abs(right @ roots))
    scaled = left.T / margins
    variances = np.einsum("kj,jl,kl->k", scaled, second_moments, scaled, optimize=True)
    variances -= (scaled @ joint.sum(axis=1)) ** 2
    rounding = 1e-12
    weak = contrasts & (strengths**2 * n_rows <= EVIDENCE**2 * np.maximum(variances, 0) + rounding)
    if not weak.any():
        return []
    projector = right[weak].T @ right[weak]
    n_parts, part = connected_components(csr_matrix(np.abs(projector) > JOINED), directed=False)
    groups = [np.flatnonzero(part == number).tolist() for number in range(n_parts)]
    groups = [group for group in groups if len(group) > 1]
    # A contrast spread thinly over many classes joins no two of them by much.
    leverages = np.diagonal(projector)
    return groups or [np.flatnonzero(leverages >= leverages.max() / 2).tolist()]
