"""Binning with given edges."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.arrays import Float64Array, FloatArray, IntArray
from calibrant.binning.partition import Partition, as_floats, index_by_search
from calibrant.errors import ParameterError

__all__ = ["FixedEdges"]

# Largest number of edges that are printed with all digits.
MAX_EDGES_SHOWN = 8


@dataclass(frozen=True)
class FixedEdges(Partition):
    """Bins with given edges.

    Parameters
    ----------
    edges : sequence of B + 1 numbers
        Edges of the bins in increasing order. The edge at the closed end may be repeated, for a bin that
        holds only this value: ``FixedEdges((0, 0.5, 1, 1))`` has the bins [0, 0.5), [0.5, 1) and [1, 1].
        The outermost edges may be infinite.
    closed : {"left", "right"}, default="left"
        Bins [a, b) with a closed last one, or (a, b] with a closed first one.

    Notes
    -----
    Costs O(n log B) by binary search.

    Examples
    --------
    >>> FixedEdges((0, 0.5, 1, 1)).index([0.0, 0.49, 0.5, 0.99, 1.0])
    array([0, 0, 1, 1, 2])
    >>> FixedEdges((0, 0.5, 1), closed="right").index([0.0, 0.5, 0.51, 1.0])
    array([0, 0, 1, 1])
    """

    edges: Sequence[float] | FloatArray

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            edges = np.array(self.edges, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError("edges must be numbers, in increasing order.") from error
        if edges.ndim != 1 or len(edges) < 2:
            raise ParameterError(
                f"edges must be a flat array of at least two numbers, but have shape {edges.shape}."
            )
        in_order = edges[1:] > edges[:-1]
        closed_end = len(edges) - 2 if self.closed == "left" else 0
        in_order[closed_end] |= edges[closed_end] == edges[closed_end + 1]
        in_order[1:] &= np.isfinite(edges[1:-1])
        if not in_order.all():
            at = int(np.argmin(in_order))
            raise ParameterError(
                "edges must be finite and increasing (only the one at the closed end may be repeated, and only "
                f"the outermost be infinite), but edge {at} is {edges[at]} and edge {at + 1} is "
                f"{edges[at + 1]}."
            )
        # A tuple makes this an immutable value that can be compared and hashed.
        object.__setattr__(self, "edges", tuple(edges.tolist()))

    def __repr__(self) -> str:
        """Return the edges in full if there are few, else to four significant digits."""
        if len(self.edges) <= MAX_EDGES_SHOWN:
            return f"FixedEdges(closed={self.closed!r}, edges={self.edges!r})"
        return (
            f"FixedEdges(closed={self.closed!r}, edges=({', '.join(f'{edge:.4g}' for edge in self.edges)}))"
        )

    def bin_edges(self) -> Float64Array:
        """Return the edges as an array, (B + 1,)."""
        return np.array(self.edges, dtype=np.float64)

    def index(self, scores: Any) -> IntArray:
        """Return the bin number of every score."""
        return index_by_search(self.bin_edges(), as_floats(scores), self.closed)
