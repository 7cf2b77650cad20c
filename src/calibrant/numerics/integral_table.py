"""Integrals of a function of one variable that is given by its values at some nodes."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector

__all__ = ["IntegralTable", "Places"]


@dataclass(frozen=True, eq=False)
class Places:
    """Where some numbers lie among the nodes; it stays the same while the function changes.

    Attributes
    ----------
    cells : ndarray of int16
        How many nodes are not above the number: 0 to the left of all, G to the right of all.
    offsets : ndarray
        Distance from the last of these nodes, or from the first node to the left of all.
    """

    cells: NDArray[np.int16]
    offsets: FloatArray

    def take(self, rows: slice | NDArray[np.intp]) -> "Places":
        """Return the places of some rows."""
        return Places(self.cells[rows], self.offsets[rows])


@dataclass(frozen=True, eq=False)
class IntegralTable:
    r"""The integral :math:`f(x) = \int_{t_1}^x r(t)\, dt` of a function that is linear between nodes.

    To the left of the first node and to the right of the last, r is constant. So f has a continuous
    derivative, is quadratic between nodes, linear outside, and increasing wherever r is positive. It is
    linear in the values :math:`r_1, \dots, r_G` at the nodes, and :meth:`adjoint` is its transpose.

    Attributes
    ----------
    nodes : ndarray of shape (G,)
        Strictly increasing, at least two and fewer than 32,000.

    Notes
    -----
    Values and adjoint cost O(1) per number besides O(G), once :meth:`places` has found where the numbers lie.

    Examples
    --------
    The integral of t is half of the square, and continues by straight lines:

    >>> table = IntegralTable(np.array([0.0, 1.0, 2.0]))
    >>> places = table.places(np.array([-1.0, 0.5, 1.5, 3.0]))
    >>> table.integrals(table.nodes, places)
    array([0.   , 0.125, 1.125, 4.   ])
    >>> table.adjoint(np.array([0.0, 1.0, 0.0, 0.0]), places)         # weights of the nodes for x = 1/2
    array([0.375, 0.125, 0.   ])
    """

    nodes: Vector

    @cached_property
    def _widths(self) -> Vector:
        return np.diff(self.nodes)

    def places(self, x: FloatArray) -> Places:
        """Return where every x lies; O(log G) each."""
        cells = np.searchsorted(self.nodes, x, side="right")
        starts = np.append(self.nodes[0], self.nodes)
        return Places(cells.astype(np.int16), x - starts[cells])

    def integrals(self, rates: Vector, places: Places) -> Vector:
        """Return f for the values ``rates`` (G,) of r, in the shape of the places; a new array."""
        areas = self._widths * (rates[:-1] + rates[1:]) / 2
        heights = np.concatenate([[0.0, 0.0], np.cumsum(areas)])
        bends = np.concatenate([[0.0], np.diff(rates) / self._widths / 2, [0.0]])
        cells = places.cells.astype(np.intp)
        integrals: Vector = bends[cells]
        integrals *= places.offsets
        integrals += np.append(rates[0], rates)[cells]
        integrals *= places.offsets
        integrals += heights[cells]
        return integrals

    def adjoint(self, gradients: FloatArray, places: Places) -> Vector:
        """Return the derivatives in ``rates``, (G,), of a sum whose derivatives in the integrals are ``gradients``."""
        size = len(self.nodes) + 1
        cells, offsets = places.cells.ravel().astype(np.intp), places.offsets.ravel()
        constant = np.bincount(cells, gradients.ravel(), size)
        moments = gradients.ravel() * offsets
        linear = np.bincount(cells, moments, size)
        moments *= offsets
        squares = np.bincount(cells, moments, size)[1:-1] / self._widths / 2
        # Half of the area between two nodes belongs to either of them, for all x beyond.
        beyond = constant[::-1].cumsum()[::-1][2:] * self._widths / 2
        derivatives: Vector = linear[1:].astype(np.float64, copy=False)
        derivatives[0] += linear[0]
        derivatives[:-1] += beyond - squares
        derivatives[1:] += beyond + squares
        return derivatives
