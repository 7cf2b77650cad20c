"""Which classes the predictions cannot tell apart, so that their shares cannot be estimated separately."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2

from calibrant.arrays import Matrix, Vector

__all__ = ["indistinct_groups"]


# Standard errors by which predictions must be related to the labels in every contrast of classes: exchangeable
# classes get there once in 370 times.
EVIDENCE = 3.0
MISSED = float(chi2.sf(EVIDENCE**2, 1))

# Two classes belong together if the contrasts without evidence join them by more than this, where 1/2 is a pair.
JOINED = 0.1

ROUNDING = 1e-12  # of a sum of squares that should be zero


def indistinct_groups(
    probabilities: Matrix, labels: NDArray[np.intp], row_weights: Vector | None = None
) -> list[list[int]]:
    r"""Return groups of classes between which labelled rows do not show any difference in predictions.

    The singular vectors of :math:`D_m^{-1/2} \, E[q y^\top] \, D_y^{-1/2}`, with the margins in D, are contrasts a of
    predictions and b of classes that go together, as in correspondence analysis. If predictions carry no news about d
    contrasts of classes, the d smallest singular values are noise, and

    .. math:: T_d = n \sum_{j \le d} \sigma_j^2 \approx \sum_m \lambda_m \chi^2_1, \qquad
              \sum_m \lambda_m = E \Big[ \sum_{j \le d} a_j^2 \sum_{j \le d} b_j^2 \Big] .

    The largest d for which :math:`T_d` is not improbable, as three standard errors are, is taken for true: along these
    contrasts shares could be moved without anything to be seen. Beginning with the largest d, as one does to find a
    rank, makes the probability of evidence where there is none that of the first wrong step.

    Parameters
    ----------
    probabilities : ndarray of shape (n, K)
        Calibrated predictions q.
    labels : ndarray of shape (n,)
        Class numbers; every class occurs.
    row_weights : ndarray of shape (n,) or None
        How many rows each counts for.

    Notes
    -----
    The variance of a contrast is that among rows of the classes which it is about: predictions of other rows, which
    hardly move between those classes, would make it look smaller. The quantile is that of a chi-square variable with
    the mean of :math:`T_d` and no more degrees of freedom than :math:`\lambda` can have been spread over, at least
    d for d classes that are alike. One degree only is safe for any :math:`\lambda`.

    O(nK^2), and O(K^2) more for each d that is not beyond doubt; memory for a copy of the predictions.

    Examples
    --------
    The second and third class always get the same probability.

    >>> q = np.repeat([[0.8, 0.1, 0.1], [0.2, 0.4, 0.4]], 50, axis=0)
    >>> indistinct_groups(q, np.repeat([0, 1, 2, 0, 1, 2], [40, 5, 5, 10, 20, 20]))
    [[1, 2]]
    """
    size = probabilities.shape[1]
    weights = np.ones(len(labels)) if row_weights is None else row_weights
    n_rows = float(weights.sum())
    joint = np.stack([np.bincount(labels, weights * column, minlength=size) for column in probabilities.T])
    margins = np.sqrt(np.maximum(joint.sum(axis=1), np.finfo(np.float64).tiny))
    counts = np.bincount(labels, weights, minlength=size)
    left, strengths, right = np.linalg.svd(joint / np.outer(margins, np.sqrt(counts)))
    # One pair is constant: all predictions, all classes. The others from the weakest on.
    constant = int(np.argmax(np.abs(right @ np.sqrt(counts))))
    order = np.delete(np.arange(size), constant)[::-1]
    squares = np.cumsum(n_rows * strengths[order] ** 2)
    scores = probabilities @ (np.sqrt(n_rows) * left[:, order] / margins[:, np.newaxis])
    spreads = np.stack([np.bincount(labels, weights * column**2, minlength=size) for column in scores.T])
    n_weak = _n_without_evidence(squares, np.cumsum(spreads / counts, axis=0), right[order])
    if not n_weak:
        return []
    weak = right[order[:n_weak]]
    projector = weak.T @ weak
    n_parts, part = connected_components(csr_matrix(np.abs(projector) > JOINED), directed=False)
    groups = [np.flatnonzero(part == number).tolist() for number in range(n_parts)]
    groups = [group for group in groups if len(group) > 1]
    # A contrast spread thinly over many classes joins no two of them by much.
    leverages = np.diagonal(projector)
    return groups or [np.flatnonzero(leverages >= leverages.max() / 2).tolist()]


def _n_without_evidence(squares: Vector, spreads: Matrix, contrasts: Matrix) -> int:
    """Return the largest d for which the d weakest contrasts are no more than noise.

    Parameters
    ----------
    squares : ndarray of shape (K - 1,)
        Sum of squares of the d weakest, for each d.
    spreads : ndarray of shape (K - 1, K)
        What predictions vary along the d weakest, for each d, within every class.
    contrasts : ndarray of shape (K - 1, K)
        Of classes, the weakest first.
    """
    means = np.einsum("dk,dk->d", np.cumsum(contrasts**2, axis=0), spreads)
    doubtful: list[int] = np.flatnonzero(squares <= EVIDENCE**2 * means + ROUNDING).tolist()
    for last in reversed(doubtful):
        weak, spread, mean = contrasts[: last + 1], spreads[last], float(means[last])
        # The sum of squared lambda is at most this, and exactly this if each class varies in one direction.
        most = float(spread @ (weak.T @ weak) ** 2 @ spread)
        freedom = mean**2 / most if most > 0 else 1.0
        if squares[last] <= chi2.isf(MISSED, freedom) / freedom * mean + ROUNDING:
            return last + 1
    return 0
