"""Partition: intervals that divide the scores among them, and the schemes that choose one."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from operator import index as whole_number
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.binning.bins import Bins
from calibrant.errors import ParameterError

__all__ = ["BinningScheme", "Closed", "Partition"]

Closed = Literal["left", "right"]
"""Which end belongs to a bin: ``"left"`` for [a, b), ``"right"`` for (a, b]."""

FloatArray = NDArray[np.floating]

# As many as there are float32 numbers between one half and one; each needs memory whether or not it is filled.
MOST_BINS = 2**23


class BinningScheme(Protocol):
    """Anything that, called on scores and perhaps weights, gives a :class:`Partition`."""

    def __call__(self, scores: FloatArray, weights: NDArray[np.float64] | None = None, /) -> "Partition":
        """Return the bins to use for these scores."""
        ...


@dataclass(frozen=True)
class Partition(ABC):
    """Intervals next to each other; every score belongs to exactly one.

    Bins are half-open, [a, b), and the last one holds its right end too; with ``closed="right"`` they are
    (a, b] and the first one holds its left end. Scores beyond the outermost edges belong to the nearest
    bin, so no row is lost: a float32 probability of 1.0000001 counts in the last bin.

    Edges are compared with scores in the float type of the scores. A float32 score that is the rounded
    ``k / 15`` is therefore *on* that edge, whichever way the rounding went.

    A partition is itself the scheme that chooses it, whatever the scores.
    """

    closed: Closed = field(default="left", kw_only=True)

    def __post_init__(self) -> None:
        check_closed(self.closed)

    @abstractmethod
    def bin_edges(self) -> NDArray[np.float64]:
        """Return the ends of the bins from low to high, (B + 1,)."""

    @abstractmethod
    def index(self, scores: Any) -> NDArray[np.intp]:
        """Return the number of the bin, 0..B-1, of every score, in the shape of ``scores``."""

    def __call__(self, scores: FloatArray, weights: NDArray[np.float64] | None = None, /) -> Self:  # noqa: ARG002
        """Return this partition, which does not depend on the scores."""
        return self

    def bins(
        self,
        scores: FloatArray,
        outcomes: NDArray[Any],
        weights: NDArray[np.float64] | None = None,
    ) -> Bins:
        """Add up scores and outcomes bin by bin, in one pass each and O(n) memory.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Finite numbers.
        outcomes : ndarray of shape (n,)
            What happened: booleans, or numbers such as 0 and 1.
        weights : ndarray of shape (n,), optional
            Non-negative; without them every row counts once.
        """
        edges = self.bin_edges()
        index = self.index(scores)
        n_bins = len(edges) - 1
        count = np.bincount(index, minlength=n_bins)

        def sums(index: NDArray[np.intp], values: NDArray[Any] | None) -> NDArray[np.float64]:
            return np.bincount(index, values, n_bins).astype(np.float64, copy=False)

        if outcomes.dtype == np.bool_:
            # With many classes few rows are hits of any one: add up those only.
            outcome_sum = sums(index[outcomes], None if weights is None else weights[outcomes])
        else:
            outcome_sum = sums(index, outcomes if weights is None else weights * outcomes)
        return Bins(
            edges,
            self.closed,
            count=count,
            weight=count.astype(np.float64) if weights is None else sums(index, weights),
            score_sum=sums(index, scores if weights is None else weights * scores),
            outcome_sum=outcome_sum,
        )


def index_by_search(edges: NDArray[np.float64], scores: FloatArray, closed: Closed) -> NDArray[np.intp]:
    """Return bin numbers by binary search among any edges; O(n log B)."""
    # Without the outermost edges, scores beyond them fall into the first and last bin by themselves.
    inner = edges[1:-1].astype(scores.dtype)
    return np.searchsorted(inner, scores, side="right" if closed == "left" else "left")


def as_floats(scores: Any) -> FloatArray:
    """Return scores as a float array: its own type if it has one, else float64."""
    array = np.asarray(scores)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def check_closed(closed: str) -> None:
    """Refuse a side that is neither left nor right."""
    if closed not in get_args(Closed):
        raise ParameterError(f"closed must be 'left' or 'right', not {closed!r}.")


def check_n_bins(n_bins: int) -> None:
    """Refuse a number of bins that is not a whole number above zero."""
    try:
        valid = 1 <= whole_number(n_bins) <= MOST_BINS and not isinstance(n_bins, bool)
    except TypeError:
        valid = False
    if not valid:
        raise ParameterError(
            f"n_bins must be a whole number of at least 1 and at most {MOST_BINS}, but is {n_bins!r}."
        )
