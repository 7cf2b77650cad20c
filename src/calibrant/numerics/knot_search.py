"""Search among knots: how many knots are not above a number, for many numbers at once."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Search", "bit_search", "entries", "knot_search", "stacked_search"]

Search = Callable[[NDArray[np.floating]], NDArray[np.intp]]
"""From numbers of any shape to how many knots are not above each (closed on the left), or below each."""

# Up to this number of knots all are compared; beyond, a search takes fewer steps.
FEW_KNOTS = 6

# Cells of a table for each knot, and comparisons that follow a look into it.
CELLS_PER_KNOT = 64
MOST_COMPARISONS = 3

# Relative to the step: how even a grid must be for places to be computed and corrected by one.
EVEN = 1e-6


def knot_search(knots: NDArray[np.floating], closed: Literal["left", "right"]) -> Search:
    """Return the fastest search for these increasing knots.

    >>> knots = np.array([0.0, 1.0, 2.0])
    >>> knot_search(knots, "left")(np.array([-1.0, 1.0, 1.5, 9.0])), knot_search(knots, "right")(np.array([1.0]))
    (array([0, 2, 2, 3]), array([1]))
    """
    side: Any = "right" if closed == "left" else "left"
    if len(knots) <= FEW_KNOTS:
        reached = np.greater_equal if closed == "left" else np.greater

        def compare_all(x: NDArray[np.floating]) -> NDArray[np.intp]:
            places = np.zeros(x.shape, np.intp)
            for knot in knots:
                places += reached(x, knot)
            return places

        return compare_all
    steps = np.diff(knots.astype(np.float64))
    if knots.dtype == np.float64 and np.ptp(steps) <= EVEN * steps.min():
        return _even_search(knots, float(steps.mean()), side)
    by_bits = bit_search(knots, np.array([len(knots)]), closed)
    if by_bits is not None:
        return by_bits

    def search(x: NDArray[np.floating]) -> NDArray[np.intp]:
        places: NDArray[np.intp] = knots.searchsorted(x, side=side)
        return places

    return search


def _even_search(knots: NDArray[np.floating], step: float, side: Any) -> Search:
    """Compute the place in an even grid, and correct it by comparison with the knots around it."""
    fenced = np.concatenate([[-np.inf], knots, [np.inf]])
    low, count = float(knots[0]), len(knots)
    is_left = side == "right"

    def search(x: NDArray[np.floating]) -> NDArray[np.intp]:
        with np.errstate(over="ignore", invalid="ignore"):
            guess = np.subtract(x, low, dtype=np.float64)
            guess /= step
            guess += 1
        places: NDArray[np.intp] = np.clip(guess, 0, count, out=guess).astype(np.intp)
        below, above = fenced.take(places), fenced.take(places + 1)
        if is_left:
            places -= x < below
            places += x >= above
        else:
            places -= x <= below
            places += x > above
        return places

    return search


def stacked_search(
    knots: NDArray[np.float64], n_knots: NDArray[np.intp], closed: Literal["left", "right"]
) -> Search:
    """Return a search of columns with knots of their own, all at once, in segments of all columns one after the other.

    By bisection; ``n_knots[j]`` of the knots belong to column j. Segment numbers begin at ``sum(n_knots[:j]) + j`` in column j.

    >>> stacked_search(np.array([0.5, 0.1, 0.2]), np.array([1, 2]), "left")(np.array([[0.7, 0.15]]))
    array([[1, 3]])
    """
    first = np.cumsum(n_knots) - n_knots
    first_segments = first + np.arange(len(n_knots))
    n_steps = int(np.max(n_knots, initial=0)).bit_length()
    of_kind: dict[str, NDArray[np.floating]] = {}

    def search(x: NDArray[np.floating]) -> NDArray[np.intp]:
        own = of_kind.setdefault(x.dtype.str, knots.astype(x.dtype, copy=False))
        if len(own) == 0:
            return np.broadcast_to(first_segments, x.shape).copy()
        low = np.zeros(x.shape, np.intp)
        size = np.broadcast_to(n_knots, x.shape).copy()
        for _ in range(n_steps):
            half = size >> 1
            middle = own.take(first + low + half, mode="clip")
            right = (size > 0) & ((x >= middle) if closed == "left" else (x > middle))
            low += np.where(right, half + 1, 0)
            size = np.where(right, size - half - 1, half)
        return low + first_segments

    return search


def bit_search(
    knots: NDArray[np.floating], n_knots: NDArray[np.intp], closed: Literal["left", "right"]
) -> Search | None:
    """Return a search of columns as :func:`stacked_search` does it, by the leading bits of a number.

    Leading bits of numbers from zero on increase with the number. A table holds the place at which each cell of numbers
    with the same leading bits begins, and a few comparisons do the rest. Every binade has the same number of cells, so
    cells are fine where probabilities are small. None if knots are negative, or so close together that a table of
    moderate size does not separate them.

    >>> search = bit_search(np.array([0.5, 0.1, 0.2]), np.array([1, 2]), "left")
    >>> search(np.array([[0.7, 0.15], [0.5, 0.0]]))
    array([[1, 3], [1, 2]])
    """
    exact = knots.astype(np.float64)
    column = np.repeat(np.arange(len(n_knots)), n_knots)
    positive = exact > 0
    if (exact < 0).any() or not np.bincount(column, positive, len(n_knots)).all():
        return None
    starts = np.cumsum(n_knots) - n_knots
    first_segments = starts + np.arange(len(n_knots))
    smallest = np.minimum.reduceat(np.where(positive, exact, np.inf), starts)
    fenced = np.insert(exact, starts + n_knots, np.inf)
    reached = np.greater_equal if closed == "left" else np.greater
    for n_bits in range(2, 12):
        shift = 52 - n_bits
        bases = smallest.view(np.int64) >> shift
        cells = np.maximum((exact.view(np.int64) >> shift) - bases[column], 0)
        last_cells = np.maximum.reduceat(cells, starts)
        first_cells = np.cumsum(last_cells + 1) - (last_cells + 1)
        n_cells = int((last_cells + 1).sum())
        if n_cells > CELLS_PER_KNOT * max(len(exact), 16):
            return None
        counts = np.bincount(first_cells[column] + cells, minlength=n_cells)
        if counts.max() <= MOST_COMPARISONS:
            break
    else:
        return None
    # Knots of earlier cells, and the fences behind earlier columns.
    firsts = np.cumsum(counts) - counts + np.repeat(np.arange(len(n_knots)), last_cells + 1)
    assert np.array_equal(firsts[first_cells], first_segments)
    n_comparisons = int(counts.max())

    def search(x: NDArray[np.floating]) -> NDArray[np.intp]:
        wide = x.astype(np.float64, copy=False)
        places = wide.view(np.int64) >> shift
        places -= bases
        np.clip(places, 0, last_cells, out=places)
        places += first_cells
        places = entries(firsts, places)
        for _ in range(n_comparisons):
            places += reached(wide, entries(fenced, places))
        return places

    return search


def entries(table: NDArray[Any], places: NDArray[np.intp]) -> NDArray[Any]:
    """Return ``table[places]``, stored by columns if the places are.

    >>> entries(np.array([1.0, 2.0]), np.array([[0, 1], [1, 1]], order="F")).flags.f_contiguous
    True
    """
    if places.flags.f_contiguous and not places.flags.c_contiguous:
        return table.take(places.T, mode="clip").T
    return table.take(places, mode="clip")
