"""What to add to predictions in the parts of a partition."""

from typing import Literal

import numpy as np

from calibrant.arrays import Matrix, Vector

__all__ = ["Adjustment", "adjustments"]

Adjustment = Literal["ratio", "least-squares"]
"""``"ratio"``: the mean residual of each part; ``"least-squares"``: what lowers the squared error most."""


# Memberships that differ by less, relative to their size and squared, do not tell parts from each other.
INDISTINCT = 1e-4


def adjustments(parts: Matrix, residuals: Matrix, shares: Vector, adjustment: Adjustment) -> Matrix:
    r"""Return what to add in every part, (k, K).

    .. math:: a_i = \frac{\sum_j \omega_j b_{ij} (y_j - f_j)}{\sum_j \omega_j b_{ij}} \qquad\text{or}\qquad
              A = (B^\top \Omega B)^{+} B^\top \Omega (Y - F)

    Both are the same for hard partitions. For soft ones the first is a weighted mean that moves rows by less, and the
    second the best there is on these rows. Neither raises the squared error: what the first adds is
    :math:`B D^{-1} B^\top \Omega` times the residuals, a matrix whose eigenvalues lie between 0 and 1.

    Parameters
    ----------
    parts : ndarray of shape (k, n)
        Memberships b, which sum to one for every row.
    residuals : ndarray of shape (n, K)
        :math:`\omega_j (y_j - f_j)`.
    shares : ndarray of shape (n,)
        Share :math:`\omega` of each row in the total weight.
    adjustment : {"ratio", "least-squares"}
        Which of the two. Where memberships hardly differ, the pseudo-inverse leaves out what would be divided by next
        to nothing.

    Examples
    --------
    Two rows in each of two parts; in the first one label in two came true, and 0.9 was promised.

    >>> parts = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    >>> missing = np.array([[0.1, -0.1], [-0.9, 0.9], [0.0, 0.0], [0.0, 0.0]])
    >>> adjustments(parts, missing / 4, np.full(4, 0.25), "ratio").round(12)
    array([[-0.4,  0.4], [ 0. ,  0. ]])
    """
    sums: Matrix = parts @ residuals
    if adjustment == "least-squares":
        products = (parts * shares) @ parts.T
        found: Matrix = np.linalg.pinv(products, rcond=INDISTINCT, hermitian=True) @ sums
        return found
    sizes = (parts @ shares)[:, np.newaxis]
    return np.divide(sums, sizes, out=np.zeros_like(sums), where=sizes > 0)
