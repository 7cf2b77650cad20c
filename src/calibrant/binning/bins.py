"""Bins: sums of scores and outcomes over intervals of the score, and partitions of scores into bins."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from operator import index as as_integer
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import AnyArray, Float64Array, FloatArray, IntArray
from calibrant.errors import ParameterError
from calibrant.options import check_choice

__all__ = ["BinningScheme", "Bins", "Closed", "Partition"]


@dataclass(frozen=True, eq=False, repr=False)
class Bins:
    r"""Sums over the rows of each bin, from which bin means and gaps are computed.

    For bin b with rows :math:`i \in B_b`, weights w, scores s and outcomes o,

    .. math::

        W_b = \sum_i w_i, \qquad \bar s_b = \frac{1}{W_b} \sum_i w_i s_i, \qquad
        \bar o_b = \frac{1}{W_b} \sum_i w_i o_i .

    Sums are stored in float64, so the bins of two sets of rows with the same edges add up to the
    bins of the union: bins can be accumulated batch by batch, or on several machines.

    Attributes
    ----------
    edges : ndarray of shape (B + 1,)
        Edges of the bins, in increasing order.
    closed : {"left", "right"}
        Which end of a bin belongs to it.
    count : ndarray of shape (B,) or (..., B)
        Number of rows. Leading axes are for several scores per row in the same bins, such as the
        probabilities of all classes.
    weight : ndarray of the same shape
        Sum of their weights; equal to ``count`` for unweighted rows.
    score_sum, outcome_sum : ndarray of the same shape
        Weighted sums of scores and of outcomes.

    Notes
    -----
    No value is NaN. An empty bin has means and gap zero; ``filled`` distinguishes it from a bin whose
    mean is zero.

    Examples
    --------
    >>> from calibrant.binning import EqualWidth
    >>> bins = EqualWidth(4).bins(np.array([0.1, 0.2, 0.6]), np.array([0, 1, 1]))
    >>> bins.count, bins.mean_score.round(3), bins.mean_outcome
    (array([2, 0, 1, 0]), array([0.15, 0.  , 0.6 , 0.  ]), array([0.5, 0. , 1. , 0. ]))
    >>> bins.filled
    array([ True, False,  True, False])
    >>> (bins + bins).count
    array([4, 0, 2, 0])
    """

    edges: Float64Array
    closed: Literal["left", "right"]
    count: IntArray
    weight: Float64Array
    score_sum: Float64Array
    outcome_sum: Float64Array

    @property
    def n_bins(self) -> int:
        """Number of bins, empty ones included."""
        return int(self.count.shape[-1])

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Whether a bin has positive weight, (B,); the means of other bins are meaningless."""
        return self.weight > 0

    @cached_property
    def mean_score(self) -> Float64Array:
        """Weighted mean score of every bin, (B,); zero if it is empty."""
        return self._mean(self.score_sum)

    @cached_property
    def mean_outcome(self) -> Float64Array:
        """Weighted mean outcome of every bin, (B,); zero if it is empty."""
        return self._mean(self.outcome_sum)

    @property
    def gap(self) -> Float64Array:
        """Mean outcome minus mean score, (B,); negative where scores are too high."""
        return self.mean_outcome - self.mean_score

    @property
    def share(self) -> Float64Array:
        """Fraction of the total weight in every bin, (B,); zeros if the total weight is zero."""
        total = self.weight.sum(axis=-1, keepdims=True)
        shares: Float64Array = np.divide(self.weight, total, out=np.zeros_like(self.weight), where=total > 0)
        return shares

    def __add__(self, other: object) -> Self:
        """Return the bins of the union of both sets of rows."""
        if not isinstance(other, Bins):
            return NotImplemented
        if self.closed != other.closed or not np.array_equal(self.edges, other.edges):
            raise ParameterError(
                f"only bins with the same edges can be added, not {self._described()} and "
                f"{other._described()} with other edges; use one FixedEdges for both."
            )
        return type(self)(
            self.edges,
            self.closed,
            self.count + other.count,
            self.weight + other.weight,
            self.score_sum + other.score_sum,
            self.outcome_sum + other.outcome_sum,
        )

    def __len__(self) -> int:
        return self.n_bins

    def __repr__(self) -> str:
        return f"Bins({self._described()}, {int(self.count.sum())} rows, {int(self.filled.sum())} filled)"

    def _mean(self, sums: Float64Array) -> Float64Array:
        return np.divide(sums, self.weight, out=np.zeros_like(sums), where=self.filled)

    def _described(self) -> str:
        low, high = self.edges[0], self.edges[-1]
        return f"{self.n_bins} {self.closed}-closed bins from {low:.6g} to {high:.6g}"


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

    def bins(self, scores: FloatArray, outcomes: AnyArray, weights: Float64Array | None = None) -> Bins:
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
    check_choice("closed", closed, get_args(Closed))


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
