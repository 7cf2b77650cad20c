"""Kernels on the simplex: how much two predictions have to do with each other, as exact values."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from calibrant.errors import ParameterError
from calibrant.options import check_choice, check_flag, is_number
from calibrant.predictions import Predictions

__all__ = ["SimplexKernel", "check_bandwidth", "kernel_values"]

SimplexKernel = Literal["dirichlet", "rbf"]
"""``"dirichlet"`` is the density of a Dirichlet distribution, ``"rbf"`` a Gaussian bell."""

# Entries of an array of rows, points and classes, which is never held as a whole.
BLOCK_ENTRIES = 2**20


def check_bandwidth(bandwidth: Any) -> None:
    """Refuse what is not a positive finite number.

    >>> check_bandwidth(True)
    Traceback (most recent call last):
    calibrant.errors.ParameterError: bandwidth must be a positive number, a list of such or 'auto', but True is not a
    number.
    """
    if not is_number(bandwidth):
        fault = "a number"
    elif not 0 < bandwidth < np.inf:
        fault = "positive and finite"
    else:
        return
    raise ParameterError(
        f"bandwidth must be a positive number, a list of such or 'auto', but {bandwidth!r} is not {fault}."
    )


def kernel_values(
    first: Any,
    second: Any,
    kernel: SimplexKernel = "dirichlet",
    bandwidth: float = 0.1,
    *,
    logarithms: bool = False,
) -> NDArray[np.float64]:
    r"""Kernel of every pair of two sets of predictions, normalising constants included.

    .. math::

        K_\mathrm{RBF}(p, q) = \exp(-\gamma \|p - q\|_2^2), \qquad
        K_\mathrm{DIR}(p, q) = \frac{\Gamma(\sum_k \alpha_k)}{\prod_k \Gamma(\alpha_k)} \prod_k q_k^{\alpha_k - 1},
        \quad \alpha = p / h + 1

    The second is the density at q of a Dirichlet distribution with its mode at p, :cite:`ouimet2022` as used in
    :cite:`valk2022`; exchanging p and q changes it.

    Parameters
    ----------
    first : array of shape (m, K)
        Predictions p, in the centre of the kernel.
    second : array of shape (u, K)
        Predictions q, at which the kernel is evaluated.
    kernel : {"dirichlet", "rbf"}, default="dirichlet"
        Which of the two.
    bandwidth : float, default=0.1
        h of the Dirichlet kernel, :math:`\gamma` of the other.
    logarithms : bool, default=False
        Return natural logarithms, which neither overflow nor underflow; densities of many classes do.

    Returns
    -------
    ndarray of shape (m, u)

    Notes
    -----
    A :math:`q_k` of zero makes the density zero if :math:`p_k > 0` and plays no part if :math:`p_k = 0`. Evaluated by
    its formula, O(m u K) in time, for drawing and checking; :class:`~calibrant.KernelCalibration` itself has no need of
    constants that cancel, and works by matrix products.

    Examples
    --------
    The Dirichlet kernel reaches further into the middle of the simplex than into its corner.

    >>> kernel_values([[0.75, 0.2, 0.05]], [[0.75, 0.2, 0.05], [0.85, 0.1, 0.05], [0.65, 0.3, 0.05]]).round(2)
    array([[19.91, 12.73, 15.32]])
    """
    check_choice("kernel", kernel, ("dirichlet", "rbf"))
    check_bandwidth(bandwidth)
    check_flag("logarithms", logarithms)
    p = Predictions.parse(first).probabilities.astype(np.float64)
    q = Predictions.parse(second).probabilities.astype(np.float64)
    if p.shape[1] != q.shape[1]:
        raise ParameterError(
            f"first and second must have the same classes, but have {p.shape[1]} and {q.shape[1]} columns."
        )
    values = np.empty((len(p), len(q)))
    step = max(1, BLOCK_ENTRIES // q.size)
    with np.errstate(over="ignore", divide="ignore"):
        for start in range(0, len(p), step):
            centres = p[start : start + step, np.newaxis]
            if kernel == "rbf":
                values[start : start + step] = -bandwidth * ((centres - q) ** 2).sum(axis=2)
            else:
                powers = centres / bandwidth
                constants = gammaln((powers + 1).sum(axis=2)) - gammaln(powers + 1).sum(axis=2)
                values[start : start + step] = constants + xlogy(powers, q).sum(axis=2)
        return values if logarithms else np.exp(values, out=values)
