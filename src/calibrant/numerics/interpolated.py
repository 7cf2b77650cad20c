"""Cubic interpolation on an even grid: as a fixed linear operator, and as a table."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector

__all__ = ["STENCIL", "CubicTable", "EvenGrid"]


STENCIL = 4
"""Number of nodes of a cubic."""


@dataclass(frozen=True)
class EvenGrid:
    r"""Nodes at even distances, and the weights by which a cubic through four of them gives values in between.

    For a function with fourth derivative below :math:`B` the error is at most :math:`\tfrac{3}{128} B h^4` for nodes
    at distance h, away from the ends. The weights depend on the place alone, so that interpolation is linear in the
    values at the nodes, and its adjoint adds to four nodes for every place.

    Attributes
    ----------
    low : float
        Place of the first node.
    step : float
        Distance of neighbours.
    n_nodes : int
        Number of nodes, at least four.

    Examples
    --------
    >>> grid = EvenGrid.around(0.0, 3.0, n_nodes=6)
    >>> grid.nodes
    array([-1.,  0.,  1.,  2.,  3.,  4.])
    >>> first, weights = grid.stencil(np.array([1.5]))
    >>> first, weights
    (array([1]), array([[-0.0625,  0.5625,  0.5625, -0.0625]]))
    >>> float(weights[0] @ grid.nodes[1:5] ** 3)                 # exact for cubics: 1.5 ** 3
    3.375
    """

    low: float
    step: float
    n_nodes: int

    @classmethod
    def around(cls, low: float, high: float, n_nodes: int) -> Self:
        """Return a grid with one node to spare on either side of a range; a range of a single point is widened."""
        spread = high - low
        if spread <= 0:
            spread = max(1.0, abs(low))
        step = spread / (n_nodes - 3)
        return cls(low - step, step, n_nodes)

    @property
    def nodes(self) -> Vector:
        """Places of the nodes, (n_nodes,)."""
        return np.asarray(self.low + self.step * np.arange(self.n_nodes), dtype=np.float64)

    @property
    def high(self) -> float:
        """Place of the last node."""
        return self.low + self.step * (self.n_nodes - 1)

    def stencil(self, places: Vector) -> tuple[NDArray[np.intp], Vector]:
        """Return the first of the four nodes around every place and their weights, (..., 4).

        Between the first and the last two nodes the neighbouring cubic serves as well; places beyond count as the ends.
        """
        steps = np.clip((places - self.low) / self.step, 0.0, self.n_nodes - 1.0)
        first = np.clip(steps.astype(np.intp) - 1, 0, self.n_nodes - STENCIL)
        right = steps - (first + 1)  # how far right of the second node, from 0 to 1 in between
        before, after, far = right + 1.0, right - 1.0, right - 2.0
        inner, outer = after * far, before * right
        weights = np.empty((*steps.shape, STENCIL))
        weights[..., 0] = right * inner * (-1 / 6)
        weights[..., 1] = before * inner * 0.5
        weights[..., 2] = outer * far * (-0.5)
        weights[..., 3] = outer * after * (1 / 6)
        return first, weights


@dataclass(frozen=True, eq=False)
class CubicTable:
    """A smooth function of one variable by its values on an even grid; beyond the grid its values at the ends.

    Attributes
    ----------
    grid : EvenGrid
    values : ndarray of shape (n_nodes,)

    Examples
    --------
    >>> grid = EvenGrid.around(0.0, 3.0, n_nodes=64)
    >>> table = CubicTable(grid, np.sin(grid.nodes))
    >>> bool(np.abs(table(np.array([0.1, 2.0])) - np.sin([0.1, 2.0])).max() < 2e-7)
    True
    """

    grid: EvenGrid
    values: Vector

    def __call__(self, x: NDArray[np.floating]) -> Vector:
        """Return the value at every x, in its shape; a few operations each, whatever the size of the table."""
        place: Vector = np.subtract(x, self.grid.low, dtype=np.float64)
        place = np.clip(place / self.grid.step, 0.0, self.grid.n_nodes - 1.0)
        piece = np.minimum(place.astype(np.intp), self.grid.n_nodes - 2)
        place -= piece
        constant, *higher = self.pieces
        value: Vector = higher[-1].take(piece)
        for coefficients in (*reversed(higher[:-1]), constant):
            value *= place
            value += coefficients.take(piece)
        return value

    @cached_property
    def pieces(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Coefficients of the cubic between every two neighbours, constant first, (n_nodes - 1,) each."""
        # One more value at either end, on the cubic through the last four: with it the outer pieces are like all others.
        v = self.values
        before = 4 * v[0] - 6 * v[1] + 4 * v[2] - v[3]
        after = 4 * v[-1] - 6 * v[-2] + 4 * v[-3] - v[-4]
        padded = np.concatenate([[before], v, [after]])
        left, here, right, far = padded[:-3], padded[1:-2], padded[2:-1], padded[3:]
        return (
            here,
            right - left / 3 - here / 2 - far / 6,
            (left + right) / 2 - here,
            (far - left) / 6 + (here - right) / 2,
        )
