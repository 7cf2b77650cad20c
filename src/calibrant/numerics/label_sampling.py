"""Label sampling: repeated random columns with the probabilities of the rows (alias method)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray
from calibrant.numerics.row_blocks import row_blocks

__all__ = ["LabelSampler"]


# Tables are built one column after another for many rows at once; with fewer rows numpy's calls dominate.
LEAST_ROWS_AT_A_TIME = 1024


class LabelSampler:
    r"""Draws one column per row, column k of row i with the probability :math:`p_{ik} / \sum_j p_{ij}`.

    The alias method of :cite:`walker1977`: the row is cut into K cells of the probability 1/K, each shared by at most two
    columns. A uniform number u chooses the cell :math:`\lfloor K u \rfloor`, and what is left over of
    :math:`K u` decides between its two columns, so that a draw costs the same for any K.

    Parameters
    ----------
    probabilities : ndarray of shape (n, K)
        Finite and not negative, with a positive entry in every row. Rows are divided by their sums.

    Notes
    -----
    Tables are filled by the sweep of :cite:`huebschle2022`: heavy columns, those above 1/K, fill
    up the cells of light ones from left to right. It takes K - 1 steps for any row, hence is done for all
    rows of a block at once. A column of probability zero is never drawn: its own cell keeps nothing for
    it, and only heavy columns share the cells of others. Shares of cells are kept as float32, to a
    relative error of 6e-8.

    O(nK) time once, then O(n) for every draw, about 10 ns per row; memory of 5 nK bytes for K up to 256 and
    6 nK up to 65,536.

    Examples
    --------
    >>> sampler = LabelSampler(np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]))
    >>> draws = np.array([sampler.draw(np.random.default_rng(seed)) for seed in range(1000)])
    >>> [np.unique(column).tolist() for column in draws.T]
    [[1], [0, 2]]
    """

    def __init__(self, probabilities: FloatArray) -> None:
        n_rows, n_columns = probabilities.shape
        self._n_columns = n_columns
        self._first_cell = np.arange(n_rows, dtype=np.intp) * n_columns
        self._own_share = np.empty((n_rows, n_columns), dtype=np.float32)
        self._other = np.empty((n_rows, n_columns), dtype=np.min_scalar_type(n_columns - 1))
        for rows in row_blocks(n_rows, n_columns, min_rows=LEAST_ROWS_AT_A_TIME):
            _fill_cells(probabilities[rows], self._own_share[rows], self._other[rows])

    def draw(self, generator: np.random.Generator, times: int | None = None) -> NDArray[np.intp]:
        """Return one column number for every row, (n,), or (times, n) for several draws in sequence.

        Safe to call from several threads at once.
        """
        n_rows = len(self._first_cell)
        place = generator.random(n_rows if times is None else (times, n_rows))
        place *= self._n_columns
        drawn = place.astype(np.intp)
        place -= drawn
        cell = self._first_cell + drawn
        # "clip" never has anything to clip here and lets numpy leave out a test of every index.
        keep = place < self._own_share.ravel().take(cell, mode="clip")
        return np.where(keep, drawn, self._other.ravel().take(cell, mode="clip"))


def _fill_cells(probabilities: FloatArray, own_share: NDArray[np.float32], other: NDArray[Any]) -> None:
    """Write, for every cell, how much of it belongs to its own column and to which column the rest does."""
    n_rows, n_columns = probabilities.shape
    weight = probabilities.astype(np.float64)
    weight *= n_columns / weight.sum(axis=1, keepdims=True)
    heavy = weight >= 1
    heavy[np.arange(n_rows), weight.argmax(axis=1)] = True  # also where rounding leaves none above the mean
    order = np.argsort(~heavy, axis=1, kind="stable")
    ordered = np.take_along_axis(weight, order, axis=1).ravel()
    order = order.ravel()
    first = np.arange(n_rows) * n_columns
    last_heavy = first + np.count_nonzero(heavy, axis=1) - 1
    end = first + n_columns

    # The last heavy column keeps its cell for itself; all others are closed one by one.
    own_share[...] = 1
    other[...] = np.arange(n_columns)
    shares, others = own_share.reshape(-1), other.reshape(-1)
    at_heavy, at_light = first.copy(), last_heavy + 1
    current, left = order[at_heavy], ordered[at_heavy]
    for _ in range(n_columns - 1):
        # Fill a light cell while the current heavy column has a whole cell left; the last one fills the rest,
        # even if rounding says that it is short of something.
        fill = (at_light < end) & ((left >= 1) | (at_heavy == last_heavy))
        at_light += fill
        at_heavy += ~fill
        at_next = np.where(fill, at_light - 1, at_heavy)
        following, amount = order[at_next], ordered[at_next]
        closed = first + np.where(fill, following, current)
        shares[closed] = np.where(fill, amount, left)
        others[closed] = np.where(fill, current, following)
        left += amount - 1
        current = np.where(fill, current, following)
