"""Bins: sums of scores and outcomes over intervals of the score."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array, IntArray
from calibrant.errors import ParameterError

__all__ = ["Bins"]


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
