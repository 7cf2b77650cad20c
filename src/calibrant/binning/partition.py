"""Partition: bins that cover all scores, and binning schemes that choose a partition."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from operator import index as as_integer
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np

from calibrant.arrays import AnyArray, Float64Array, FloatArray, IntArray
from calibrant.binning.bins import Bins
from calibrant.errors import ParameterError

__all__ = ["BinningScheme", "Closed", "Partition"]

Closed = Literal["left", "right"]
"""Which end belongs to a bin: ``"left"`` for [a, b), ``"right"`` for (a, b]."""


# The number of float32 values between one half and one. Each bin needs memory, whether or not it is filled.
MOST_BINS = 2**23


class BinningScheme(Protocol):
    """A callable that returns a :class:`Partition` for scores and, optionally, weights."""

    def __call__(self, scores: FloatArray, weights: Float64Array | None = None, /) -> "Partition":
        """Return the bins to use for these scores."""
        ...


@dataclass(frozen=True)
class Partition(ABC):
    """Consecutive intervals; every score belongs to exactly one.

    Bins are half-open, [a, b), and the last one includes its right end; with ``closed="right"`` they are
    (a, b] and the first one includes its left end. Scores beyond the outermost edges belong to the nearest
    bin, so no row is lost: a float32 probability of 1.0000001 counts in the last bin.

    Edges are compared with scores in the float type of the scores. A float32 score that is the rounded
    ``k / 15`` therefore lies *on* that edge, in whichever direction it was rounded.

    A partition is also a binning scheme, which returns itself for any scores.
    """

    closed: Closed = field(default="left", kw_only=True)

    def __post_init__(self) -> None:
        check_closed(self.closed)

    @abstractmethod
    def bin_edges(self) -> Float64Array:
        """Return the edges of the bins in increasing order, (B + 1,)."""

    @abstractmethod
    def index(self, scores: Any) -> IntArray:
        """Return the bin number, 0 to B - 1, of every score, in the shape of ``scores``."""

    def __call__(self, scores: FloatArray, weights: Float64Array | None = None, /) -> Self:  # noqa: ARG002
        """Return this partition, which does not depend on the scores."""
        return self

    def bins(
        self,
        scores: FloatArray,
        outcomes: AnyArray,
        weights: Float64Array | None = None,
    ) -> Bins:
        """Sum scores and outcomes per bin, in one pass each and O(n) memory.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Finite numbers.
        outcomes : ndarray of shape (n,)
            Observed outcomes: booleans, or numbers such as 0 and 1.
        weights : ndarray of shape (n,), optional
            Non-negative; by default every row has weight one.
        """
        edges = self.bin_edges()
        index = self.index(scores)
        n_bins = len(edges) - 1
        count = np.bincount(index, minlength=n_bins)

        def sums(index: IntArray, values: AnyArray | None) -> Float64Array:
            return np.bincount(index, values, n_bins).astype(np.float64, copy=False)

        if outcomes.dtype == np.bool_:
            # With many classes few rows are hits of each; only those are summed.
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


def index_by_search(edges: Float64Array, scores: FloatArray, closed: Closed) -> IntArray:
    """Return bin numbers by binary search for arbitrary edges; O(n log B)."""
    # Without the outermost edges, scores beyond them fall into the first and last bin.
    inner = edges[1:-1].astype(scores.dtype)
    return np.searchsorted(inner, scores, side="right" if closed == "left" else "left")


def as_floats(scores: Any) -> FloatArray:
    """Return scores as a float array: in their own float type, or float64 if they have none."""
    array = np.asarray(scores)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def check_closed(closed: str) -> None:
    """Raise unless the closed side is left or right."""
    if closed not in get_args(Closed):
        raise ParameterError(f"closed must be 'left' or 'right', not {closed!r}.")


def check_n_bins(n_bins: int) -> None:
    """Raise unless the number of bins is a positive integer that is not too large."""
    try:
        valid = 1 <= as_integer(n_bins) <= MOST_BINS and not isinstance(n_bins, bool)
    except TypeError:
        valid = False
    if not valid:
        raise ParameterError(
            f"n_bins must be an integer of at least 1 and at most {MOST_BINS}, but is {n_bins!r}."
        )
