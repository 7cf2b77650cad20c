"""Kernels of distances: quadratic forms tile by tile, and the median heuristic for the bandwidth."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.errors import ParameterError
from calibrant.numerics.row_blocks import BlockSums, row_blocks

__all__ = [
    "Kernel",
    "check_kernel",
    "content_order",
    "fingerprints",
    "kernel_matrix",
    "laplace_form_on_a_line",
    "largest_entries",
    "median_distance",
    "quadratic_forms",
    "squared_distances",
    "starts_of_equals",
]

Kernel = Literal["laplace", "gaussian"]
"""``"laplace"`` is exp(-d / s) and ``"gaussian"`` exp(-d^2 / (2 s^2)) of a Euclidean distance d."""

Tile = Callable[[slice, slice], Matrix]

# Side of a tile is 2**18 / (8 * this) = 256: a tile and its temporaries stay in the second-level cache.
TILE_COLUMNS = 128

# exp of this is far from overflow, and its inverse from underflow.
LARGEST_EXPONENT = 500.0

# A squared distance from a matrix product has an error of a few units in the last place of the squared norms.
ROUNDING = 8 * float(np.finfo(np.float64).eps)

# Odd multipliers that mix all bits of a 64-bit word: the finaliser of SplitMix64.
MIX_FIRST, MIX_SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def check_kernel(kernel: Any, bandwidth: Any) -> None:
    """Refuse an unknown kernel, or a bandwidth that is not a positive number."""
    if kernel not in get_args(Kernel):
        raise ParameterError(f"kernel must be 'laplace' or 'gaussian', not {kernel!r}.")
    if bandwidth is None:
        return
    number = isinstance(bandwidth, (int, float, np.integer, np.floating)) and not isinstance(bandwidth, bool)
    if not number or not 0 < bandwidth < np.inf:
        raise ParameterError(f"bandwidth must be a positive number or None, not {bandwidth!r}.")


def squared_distances(first: Matrix, second: Matrix) -> Matrix:
    """Return the squared Euclidean distance of every row of one matrix to every row of another.

    By one matrix product, of rows shifted to their common mean: the rounding error is then relative to the
    spread of these rows and not to their size. What is no more than that error counts as zero, so that equal
    rows have the distance zero exactly.

    >>> squared_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[3.0, 4.0]]))
    array([[25.], [ 0.]])
    """
    centre = (first.sum(axis=0) + second.sum(axis=0)) / (len(first) + len(second))
    first, second = first - centre, second - centre
    first_norms = np.einsum("ik,ik->i", first, first)[:, np.newaxis]
    second_norms = np.einsum("ik,ik->i", second, second)[:, np.newaxis]
    # |a|^2 + |b|^2 - 2ab as a single product, without further passes over the tile.
    left = np.hstack([first, first_norms, np.ones_like(first_norms)])
    right = np.hstack([-2 * second, np.ones_like(second_norms), second_norms])
    squares: Matrix = left @ right.T
    squares[squares <= ROUNDING * (first_norms.max() + second_norms.max())] = 0.0
    return squares


def kernel_matrix(squares: Matrix, kernel: Kernel, bandwidth: float) -> Matrix:
    """Turn squared distances into kernel values, in place.

    >>> kernel_matrix(np.array([[0.0, 4.0]]), "laplace", 2.0).round(4)      # exp(-2 / 2)
    array([[1.    , 0.3679]])
    """
    with np.errstate(over="ignore"):  # infinitely many bandwidths away: the kernel is zero
        if kernel == "laplace":
            np.sqrt(squares, out=squares)
            squares /= -bandwidth
        else:
            squares /= bandwidth
            squares /= -2 * bandwidth  # in two steps: the square of a tiny bandwidth would be zero
    return np.exp(squares, out=squares)


def quadratic_forms(n_rows: int, tile: Tile, vectors: Callable[[slice], Matrix]) -> Vector:
    """Return v'Mv for a symmetric matrix M and every column v of a matrix, never holding M as a whole.

    Parameters
    ----------
    n_rows : int
        Number of rows of M and of the vectors.
    tile : function of two slices
        The part of M in these rows and columns. Only tiles on and above the diagonal are asked for, possibly
        by several threads at once.
    vectors : function of a slice
        These rows of the vectors, (b, m).

    Returns
    -------
    ndarray of shape (m,)

    Notes
    -----
    O(n^2 m / 2) multiplications in matrix products, besides what the tiles cost; memory O(b (b + m)) a
    thread, b = 256.

    >>> matrix, columns = np.array([[2.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 5.0]])
    >>> quadratic_forms(2, lambda i, j: matrix[i, j], lambda i: columns[i])
    array([4., 0.])
    """
    blocks = row_blocks(n_rows, TILE_COLUMNS)

    def contribution(rows: slice) -> Vector:
        own = vectors(rows)
        products = tile(rows, rows) @ own
        for other in blocks:
            if other.start > rows.start:
                products += 2 * (tile(rows, other) @ vectors(other))
        sums: Vector = np.einsum("im,im->m", own, products)
        return sums

    with BlockSums.over(n_rows, TILE_COLUMNS) as total:
        return total(contribution)


def laplace_form_on_a_line(points: Vector, values: Vector, bandwidth: float) -> float:
    r"""Return :math:`\sum_{ij} e^{-|x_i - x_j| / s} v_i v_j` in O(n log n).

    In increasing order, :math:`L_i = \sum_{j < i} e^{-(x_i - x_j) / s} v_j` takes one running sum of
    :math:`e^{x_j / s} v_j`, restarted whenever the exponential would become too large. Terms grow along the
    sum, so nothing cancels.

    >>> form = laplace_form_on_a_line(np.array([0.0, 2.0]), np.array([1.0, 1.0]), 2.0)
    >>> bool(np.isclose(form, 2 + 2 * np.exp(-1)))
    True
    """
    order = np.argsort(points, kind="stable")
    x, v = points[order], values[order]
    reach = LARGEST_EXPONENT * bandwidth
    total, carried, start = 0.0, 0.0, 0
    while start < len(x):
        stop = int(np.searchsorted(x, x[start] + reach, side="right"))
        growth = np.exp((x[start:stop] - x[start]) / bandwidth)
        running = carried + np.cumsum(growth * v[start:stop])
        # The running sum holds the point itself too: twice the sum up to it, less its own square.
        total += 2 * float(np.dot(v[start:stop], running / growth)) - float(
            np.dot(v[start:stop], v[start:stop])
        )
        if stop < len(x):
            with np.errstate(over="ignore"):
                decay = np.exp((x[stop - 1] - x[stop]) / bandwidth)
            carried = float(running[-1] / growth[-1] * decay)
        start = stop
    return total


def median_distance(points: Matrix, weights: Vector) -> float:
    """Return the weighted median of the distances between unequal points; weights of pairs are products.

    Pairs of equal points are excluded: then a repeated point is equivalent to a point of weight 2, and the median is never
    zero. One if all points are equal.

    >>> median_distance(np.array([[0.0], [1.0], [3.0], [3.0]]), np.ones(4))      # of 1, 2, 2, 3, 3
    2.0
    """
    first, second = np.triu_indices(len(points), k=1)
    distances = squared_distances(points, points)[first, second]
    unequal = np.flatnonzero(distances)
    if len(unequal) == 0:
        return 1.0
    distances = np.sqrt(distances[unequal])
    if weights.min() == weights.max():
        return float(np.median(distances))
    order = np.argsort(distances)
    below = np.cumsum((weights[first[unequal]] * weights[second[unequal]])[order])
    # Half of the weight on either side: both neighbours count, also if rounding decides for one of them.
    tolerance = 1e-9
    lower = int(np.searchsorted(below, below[-1] * (0.5 - tolerance)))
    upper = int(np.searchsorted(below, below[-1] * (0.5 + tolerance)))
    return float((distances[order[lower]] + distances[order[upper]]) / 2)


def fingerprints(matrix: NDArray[np.floating]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of every row, equal for equal rows of any float type.

    >>> prints = fingerprints(np.array([[0.5, 0.25], [0.25, 0.5], [0.5, 0.25]]))
    >>> bool(prints[0] == prints[2]), bool(prints[0] == prints[1])
    (True, False)
    """
    n_rows, n_columns = matrix.shape
    prints = np.empty(n_rows, dtype=np.uint64)
    multipliers = np.random.default_rng(0).integers(0, 2**63, n_columns, dtype=np.uint64) * np.uint64(2)
    multipliers += np.uint64(1)
    for rows in row_blocks(n_rows, n_columns):
        words = (matrix[rows].astype(np.float64) + 0.0).view(np.uint64)  # + 0.0 makes -0.0 the usual zero
        # Many trailing bits of short numbers are zero; mixing spreads the others before they are added up.
        words ^= words >> np.uint64(30)
        words *= MIX_FIRST
        words ^= words >> np.uint64(27)
        words *= MIX_SECOND
        words ^= words >> np.uint64(31)
        prints[rows] = (words * multipliers).sum(axis=1, dtype=np.uint64)
    return prints


def largest_entries(matrix: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the largest entry of every row; in blocks, since numpy copies a read-only matrix as a whole.

    >>> largest_entries(np.array([[0.25, 0.75], [0.5, 0.5]]))
    array([0.75, 0.5 ])
    """
    largest = np.empty(len(matrix), dtype=matrix.dtype)
    for rows in row_blocks(len(matrix), matrix.shape[1], matrix.itemsize):
        matrix[rows].max(axis=1, out=largest[rows])
    return largest


def content_order(matrix: NDArray[np.floating], ties: tuple[NDArray[Any], ...]) -> NDArray[np.intp]:
    """Return an order of the rows that depends on their content, not on their order.

    Equal rows are side by side, sorted by ``ties``; rows whose largest entry is in the same column and of
    about the same size are near each other.

    >>> content_order(np.array([[0.2, 0.8], [0.9, 0.1], [0.2, 0.8]]), (np.array([5, 4, 3]),))
    array([1, 2, 0])
    """
    if matrix.shape[1] == 1:
        return np.lexsort((*ties[::-1], matrix[:, 0]))
    columns = np.empty(len(matrix), dtype=np.intp)
    for rows in row_blocks(len(matrix), matrix.shape[1], matrix.itemsize):
        matrix[rows].argmax(axis=1, out=columns[rows])
    return np.lexsort((*ties[::-1], fingerprints(matrix), largest_entries(matrix), columns))


def starts_of_equals(matrix: NDArray[np.floating], order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the places in ``order`` at which a row differs from the one before; the first is 0.

    >>> starts_of_equals(np.array([[0.5], [0.25], [0.5]]), np.array([1, 0, 2]))
    array([0, 1])
    """
    new = np.ones(len(order), dtype=np.bool_)
    for places in row_blocks(len(order) - 1, matrix.shape[1]):
        following = slice(places.start + 1, places.stop + 1)
        new[following] = (matrix[order[places]] != matrix[order[following]]).any(axis=1)
    return np.flatnonzero(new)
