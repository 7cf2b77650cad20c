"""Calibration rows spread over a grid of scores, so that a pass costs a few products with fixed matrices."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from calibrant.arrays import FloatArray, Vector
from calibrant.numerics.interpolated import STENCIL, EvenGrid
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import BlockSums

__all__ = ["SpreadBlock", "SpreadRows", "score_range"]


# Terms of a softmax below exp of this, times the largest, are left out.
NEGLIGIBLE = -60.0

# Numbers in the matrices of all rows that are kept from pass to pass; beyond that they are made anew in each.
NUMBERS_KEPT = 2**24

# What a number of a matrix counts when rows are parted into blocks: blocks of about 130,000 numbers.
BYTES_PER_NUMBER = 2


class SpreadBlock(NamedTuple):
    """Matrices of some rows, (rows, G) each, dense or sparse; once with the exponentials and once with their squares."""

    rows: slice
    once: Any
    twice: Any


class SpreadRows:
    r"""Sums over the softmax of every row, for latent functions that are given on a grid.

    A latent value is :math:`\beta e_{ik} + \delta(z_{ik})`, with known exponents e and a smooth function
    :math:`\delta` of the score z that is known at the nodes t of a grid. For smooth functions f and local
    cubics :math:`\omega_j` through the nodes

    .. math:: \sum_k e^{\beta (e_{ik} - \max_l e_{il})} f(z_{ik}) \approx \sum_j H_{ij} f(t_j), \qquad
              H_{ij} = \sum_k e^{\beta (e_{ik} - \max_l e_{il})} \, \omega_j(z_{ik}),

    in which H is the same for all f: what depends on the latent function is computed at the nodes alone, of which there
    are some hundreds, whatever n and K. A second matrix with the squares of the exponentials serves sums of squares.

    Parameters
    ----------
    places : ndarray of shape (n, K)
        Scores z.
    exponents : ndarray of shape (n, K)
        e; the scores themselves, or the logarithms of probabilities.
    slope : float
        :math:`\beta`.
    labels : ndarray of shape (n,)
    weights : ndarray of shape (n,)
    grid : EvenGrid

    Attributes
    ----------
    label_constant : float
        Weighted sum of :math:`\beta (e_{iy} - \max_l e_{il})` over rows, for labels y.
    label_nodes : ndarray of shape (G,)
        Weights at the nodes whose product with :math:`\delta(t)` is the weighted sum of :math:`\delta(z_{iy})`.

    Notes
    -----
    For few classes H is sparse with four entries for every score; for many it is dense with one entry for every
    node. Sets of more than 16 million entries are spread anew in every pass, so that memory stays bounded.
    """

    def __init__(
        self,
        places: FloatArray,
        exponents: FloatArray,
        slope: float,
        labels: NDArray[np.intp],
        weights: Vector,
        grid: EvenGrid,
    ) -> None:
        self.weights, self.grid = weights, grid
        self._places, self._exponents, self._slope = places, exponents, slope
        self._tops = row_maxima(exponents).astype(np.float64)
        own = np.arange(len(labels)), labels
        self.label_constant = slope * float(weights @ (exponents[own] - self._tops))
        first, shares = grid.stencil(places[own].astype(np.float64))
        self.label_nodes = _summed(first, weights[:, np.newaxis] * shares, grid.n_nodes)
        # A full matrix is worked with faster than a sparse one with half as many entries.
        self._is_dense = 2 * STENCIL * places.shape[1] >= grid.n_nodes
        self._width = grid.n_nodes if self._is_dense else STENCIL * places.shape[1]
        self._kept: dict[int, SpreadBlock] | None = (
            {} if places.shape[0] * self._width <= NUMBERS_KEPT else None
        )
        self._sums: BlockSums | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Open the threads for many passes."""
        try:
            with BlockSums.over(len(self._places), self._width, BYTES_PER_NUMBER) as self._sums:
                yield
        finally:
            self._sums = None

    def total(self, contribution: Callable[[SpreadBlock], Vector]) -> Vector:
        """Return the sum of what all blocks contribute."""
        if self._sums is None:
            with self.open():
                return self.total(contribution)
        return self._sums(lambda rows: contribution(self._block(rows)))

    def _block(self, rows: slice) -> SpreadBlock:
        if self._kept is None:
            return self._made(rows)
        if rows.start not in self._kept:
            self._kept[rows.start] = self._made(rows)
        return self._kept[rows.start]

    def _made(self, rows: slice) -> SpreadBlock:
        gaps = self._exponents[rows] - self._tops[rows, np.newaxis]
        exponentials = np.exp(self._slope * gaps)
        exponentials[~_matters(gaps, self._slope)] = 0.0
        first, once = self.grid.stencil(self._places[rows].astype(np.float64))
        once *= exponentials[..., np.newaxis]
        twice = once * exponentials[..., np.newaxis]
        n_rows, n_nodes = len(gaps), self.grid.n_nodes
        if self._is_dense:
            first += n_nodes * np.arange(n_rows)[:, np.newaxis]
            shape = (n_rows, n_nodes)
            return SpreadBlock(
                rows,
                _summed(first.ravel(), once.reshape(-1, STENCIL), n_rows * n_nodes).reshape(shape),
                _summed(first.ravel(), twice.reshape(-1, STENCIL), n_rows * n_nodes).reshape(shape),
            )
        columns = (first[..., np.newaxis] + np.arange(STENCIL)).astype(np.int32).ravel()
        starts = np.arange(0, columns.size + 1, self._width, dtype=np.int32)
        return SpreadBlock(
            rows,
            csr_array((once.ravel(), columns, starts), shape=(n_rows, n_nodes)),
            csr_array((twice.ravel(), columns, starts), shape=(n_rows, n_nodes)),
        )


def score_range(
    places: FloatArray, exponents: FloatArray, slope: float, labels: NDArray[np.intp]
) -> tuple[float, float]:
    """Return the least and the largest score but for those that no softmax would see."""
    tops = row_maxima(exponents)[:, np.newaxis]
    own = places[np.arange(len(labels)), labels]
    low = float(places.min(where=_matters(exponents - tops, slope), initial=np.inf))
    return min(low, float(own.min())), float(places.max())


def _matters(gaps: FloatArray, slope: float) -> NDArray[np.bool_]:
    """Tell which terms count, at this slope or at the slope of one that latent functions return to."""
    matters: NDArray[np.bool_] = min(slope, 1.0) * gaps >= NEGLIGIBLE
    return matters


def _summed(first: NDArray[np.intp], shares: NDArray[np.float64], length: int) -> Vector:
    """Add shares (m, 4) to four nodes each, from the first one on."""
    total = np.zeros(length)
    for offset in range(STENCIL):
        total += np.bincount(first + offset, shares[:, offset], minlength=length)
    return total
