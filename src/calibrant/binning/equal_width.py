"""Equal-width (uniform) binning of a range of scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.arrays import Float64Array, IntArray
from calibrant.binning.partition import Partition, as_floats, check_n_bins, index_by_search
from calibrant.errors import ParameterError

__all__ = ["EqualWidth"]


@dataclass(frozen=True)
class EqualWidth(Partition):
    r"""Equal-width (uniform) bins.

    .. math:: [a_b, a_{b+1}), \qquad a_b = l + (h - l) \, b / B, \qquad b = 0, \dots, B - 1

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins, B.
    low, high : float, default=0.0 and 1.0
        Range to divide, from l to h; scores outside belong to the nearest bin.
    closed : {"left", "right"}, default="left"
        Bins [a, b) with a closed last one, or (a, b] with a closed first one.

    Notes
    -----
    Costs O(n) for any number of bins: a multiplication gives an approximate bin number, and a comparison
    with the edges of that bin corrects the rounding, so bin numbers agree exactly with the edges.

    Examples
    --------
    >>> EqualWidth(5).index([0.0, 0.19, 0.2, 0.6, 1.0])
    array([0, 0, 1, 3, 4])
    >>> EqualWidth(5, closed="right").index([0.0, 0.19, 0.2, 0.6, 1.0])
    array([0, 0, 0, 2, 4])
    """

    n_bins: int = 15
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_n_bins(self.n_bins)
        if not -np.inf < self.low < self.high < np.inf:
            raise ParameterError(
                f"low must lie below high, both finite, but they are {self.low} and {self.high}."
            )

    def bin_edges(self) -> Float64Array:
        """Return the edges, (B + 1,), each correctly rounded where the range is from 0 to 1."""
        edges = self.low + (self.high - self.low) * np.arange(self.n_bins + 1) / self.n_bins
        edges[-1] = self.high
        return edges

    def index(self, scores: Any) -> IntArray:
        """Return the bin number of every score."""
        scores = as_floats(scores)
        edges = self.bin_edges()
        width = (self.high - self.low) / self.n_bins
        if width < 4 * np.finfo(scores.dtype).eps * max(abs(self.low), abs(self.high)):
            # If bins are as narrow as the spacing of floats, rounding could move a score by more than one bin.
            return index_by_search(edges, scores, self.closed)
        position = np.subtract(scores, self.low, dtype=np.float64)
        position /= width
        index: IntArray = np.clip(position, 0, self.n_bins - 1).astype(np.intp)
        lower, upper = edges[:-1].astype(scores.dtype), edges[1:].astype(scores.dtype)
        lower[0], upper[-1] = -np.inf, np.inf
        if self.closed == "left":
            index += scores >= upper[index]
            index -= scores < lower[index]
        else:
            index += scores > upper[index]
            index -= scores <= lower[index]
        return index
