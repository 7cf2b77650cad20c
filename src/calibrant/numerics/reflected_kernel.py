"""Smoothing on the unit interval by an even kernel whose tails are reflected at 0 and at 1."""

from typing import cast

import numpy as np
from scipy.fft import dct, dst

from calibrant.arrays import Float64Array

__all__ = ["cosine_coefficients", "linear_binning", "reflected_convolution", "smoothed_variation"]


def linear_binning(positions: Float64Array, masses: Float64Array | None, n_cells: int) -> Float64Array:
    """Share every mass out between the two nodes around it, (n_cells + 1,), so that its mean place is kept.

    Parameters
    ----------
    positions : ndarray of shape (n,)
        From 0 to 1.
    masses : ndarray of shape (n,) or None
        Of any sign; None for one each.
    n_cells : int
        The nodes are ``j / n_cells``.

    Notes
    -----
    Moves a mass by less than a cell and widens what is smoothed afterwards by at most half a cell in standard
    deviation. Costs O(n + cells).

    Examples
    --------
    >>> linear_binning(np.array([0.25, 0.6]), np.array([1.0, 10.0]), 2)
    array([0.5, 8.5, 2. ])
    """
    scaled = positions * n_cells
    cells = np.minimum(scaled.astype(np.intp), n_cells - 1)
    to_the_right = scaled - cells
    if masses is None:
        to_the_left = 1 - to_the_right
    else:
        to_the_right *= masses
        to_the_left = masses - to_the_right
    nodes: Float64Array = np.bincount(cells, to_the_left, n_cells + 1).astype(np.float64, copy=False)
    cells += 1
    nodes += np.bincount(cells, to_the_right, n_cells + 1)
    return nodes


def cosine_coefficients(nodes: Float64Array) -> Float64Array:
    r"""Return the cosine coefficients of masses :math:`r_j` at the nodes :math:`t_j = j / M`.

    .. math:: a_m = \sum_{j=0}^{M} r_j \cos(\pi m t_j), \qquad m = 0, \dots, M

    A smoothing that reflects at 0 and at 1 multiplies each by a factor of its own. O(M log M).

    >>> cosine_coefficients(np.array([1.0, 0.0, 0.5]))
    array([1.5, 0.5, 1.5])
    """
    return _cosine_sums(_doubled_ends(nodes)) / 2


def smoothed_variation(coefficients: Float64Array, width: float, n_cells: int) -> float:
    r"""Return the integral of the absolute value of a measure that a reflected Gaussian has smoothed.

    .. math::

        \int_0^1 \Bigl| a_0 + 2 \sum_{m \ge 1} a_m e^{-(\pi m s)^2 / 2} \cos(\pi m t) \Bigr| \, dt

    which is :math:`\int | \int \sum_k [\varphi_s(t - x - 2k) + \varphi_s(t + x - 2k)] \, dr(x) | \, dt`.

    Parameters
    ----------
    coefficients : ndarray of shape (M + 1,)
        :math:`a_m`, the integrals of :math:`\cos(\pi m x)` over the measure.
    width : float
        Standard deviation s of the Gaussian. At least ``4 / min(M, n_cells)``, lest the series end too early.
    n_cells : int
        Number of cells into which the integral is cut.

    Notes
    -----
    Never increases with the width: smoothing further is an average. The antiderivative is known at the nodes,
    so a cell without a change of sign is integrated exactly; in the others the smaller lobe counts as a
    triangle, at an error of order (cell / width)^3. Costs two transforms of ``n_cells`` numbers.

    Examples
    --------
    A mass of 0.3 in one place keeps its size:

    >>> round(smoothed_variation(0.3 * np.cos(np.pi * np.arange(513) * 0.8), 0.1, 512), 12)
    0.3
    """
    # Beyond nine standard deviations in frequency nothing is left that float64 would notice.
    kept = min(n_cells, len(coefficients) - 1, int(9 / (np.pi * width)) + 1)
    frequencies = np.pi * np.arange(1, kept)
    damped = np.zeros(n_cells + 1)
    damped[0] = coefficients[0]
    damped[1:kept] = coefficients[1:kept] * np.exp(-0.5 * (frequencies * width) ** 2)
    density = _cosine_sums(damped)
    damped[1:kept] /= frequencies
    antiderivative = np.linspace(0.0, damped[0], n_cells + 1)
    antiderivative[1:-1] += dst(damped[1:-1], type=1)
    pieces = np.abs(np.diff(antiderivative))
    left, right = density[:-1], density[1:]
    crossing = np.flatnonzero(np.signbit(left) != np.signbit(right))
    a, b = np.abs(left[crossing]), np.abs(right[crossing])
    height = a + b
    # Two lobes of opposite sign cancel in the antiderivative, so the smaller is missing from it twice. As a
    # triangle it has the share of the cell that it has of the heights.
    smaller = np.minimum(a, b)
    pieces[crossing] += np.divide(smaller**2, n_cells * height, out=np.zeros_like(a), where=height > 0)
    return float(pieces.sum())


def reflected_convolution(nodes: Float64Array, kernel: Float64Array) -> Float64Array:
    """Return the density at the nodes of masses at the nodes, spread by a kernel reflected at 0 and at 1.

    Parameters
    ----------
    nodes : ndarray of shape (..., M + 1)
        Masses at ``j / M``, one or more rows of them.
    kernel : ndarray of shape (M + 1,)
        Values at the distances ``j / M`` of an even kernel, with what lies beyond the distance 1 folded back
        by ``x -> 2 - x``. Only their ratios matter: the trapezoid rule on the result gives the total mass.

    Notes
    -----
    Exact to rounding, which can leave a negative zero of about 1e-16 of the largest density. O(M log M).

    Examples
    --------
    >>> reflected_convolution(np.array([1.0, 0.0, 0.0, 0.0]), np.array([2.0, 1.0, 0.0, 0.0])).round(12) + 0.0
    array([3. , 1.5, 0. , 0. ])
    """
    factors = _cosine_sums(kernel)
    return _cosine_sums(cosine_coefficients(nodes) * (factors / factors[0]))


def _doubled_ends(nodes: Float64Array) -> Float64Array:
    """Count the end nodes twice, as they are their own mirror images."""
    doubled = nodes.copy()
    doubled[..., [0, -1]] *= 2
    return doubled


def _cosine_sums(values: Float64Array) -> Float64Array:
    """Return ``v_0 + 2 sum v_m cos(pi m j / M) + (-1)^j v_M`` for all j."""
    return cast(Float64Array, dct(values, type=1))
