"""Equal-mass (quantile) binning: bins of equal weight, up to ties."""

from dataclasses import dataclass, field

import numpy as np

from calibrant.arrays import Float64Array, FloatArray, IntArray
from calibrant.binning.fixed_edges import FixedEdges
from calibrant.binning.partition import Closed, as_floats, check_closed, check_n_bins
from calibrant.numerics.rounding import midpoint

__all__ = ["EqualMass", "nearest_masses"]

# Relative tolerance: cuts whose distances from the target mass differ by less count as equally near, so that rounding
# of a sum of weights does not decide between them.
MASS_TOLERANCE = 1e-9


@dataclass(frozen=True)
class EqualMass:
    r"""Equal-mass (quantile) bins, each with the same total weight.

    The distinct scores :math:`v_1 < \dots < v_m` are cut between :math:`v_j` and :math:`v_{j+1}` where the
    weight up to :math:`v_j` is nearest to :math:`b/B` of the total, for each b from 1 to B - 1. The edge
    is the midpoint of the two. Equal scores always share a bin, so with many ties there are fewer than
    B bins. No bin is empty.

    Parameters
    ----------
    n_bins : int, default=15
        Maximum number of bins, B.
    closed : {"left", "right"}, default="left"
        Bins [a, b) with a closed last one, or (a, b] with a closed first one; relevant only for scores
        other than those that determined the edges.

    Notes
    -----
    Costs O(n log n) for sorting, O(n) memory. Without ties the numbers of rows differ by at most one between
    bins. Edges range from the smallest to the largest score; other scores outside this range belong to the nearest
    bin.

    Examples
    --------
    >>> EqualMass(3)(np.array([0.1, 0.2, 0.3, 0.5, 0.8, 0.9])).bin_edges()
    array([0.1 , 0.25, 0.65, 0.9 ])
    >>> EqualMass(3)(np.array([0.1, 0.2, 1.0, 1.0, 1.0, 1.0])).bin_edges()
    array([0.1, 0.6, 1. ])
    """

    n_bins: int = 15
    closed: Closed = field(default="left", kw_only=True)

    def __post_init__(self) -> None:
        check_n_bins(self.n_bins)
        check_closed(self.closed)

    def __call__(self, scores: FloatArray, weights: Float64Array | None = None, /) -> FixedEdges:
        """Return the bins for these scores, a non-empty array of shape (n,), and weights."""
        scores = as_floats(scores)
        if weights is None:
            ordered = np.sort(scores)
            cumulative = np.arange(1, len(scores) + 1, dtype=np.float64)
        else:
            order = np.argsort(scores)
            ordered, cumulative = scores[order], np.cumsum(weights[order])
        last_of_equals = np.flatnonzero(ordered[1:] != ordered[:-1])
        # The masses below each possible cut; the first and last stand for no cut.
        mass = np.concatenate([[0.0], cumulative[last_of_equals], cumulative[-1:]])
        cuts = self.cuts(mass)
        before = last_of_equals[cuts - 1]
        inner = self._between(ordered[before], ordered[before + 1])
        return FixedEdges([ordered[0], *inner, ordered[-1]], closed=self.closed)

    def cuts(self, mass: Float64Array) -> IntArray:
        """Return where to cut, for the cumulative mass at each possible cut, (m + 1,), from zero to the total; increasing."""
        nearest = nearest_masses(mass, mass[-1] * np.arange(1, self.n_bins) / self.n_bins)
        return np.unique(nearest[(nearest > 0) & (nearest < len(mass) - 1)])

    def _between(self, below: FloatArray, above: FloatArray) -> FloatArray:
        """Return edges that separate the two even if no float lies between them."""
        if self.closed == "left":
            return midpoint(below, above)
        return -midpoint(-above, -below)  # or the lower one


def nearest_masses(mass: Float64Array, target: Float64Array) -> IntArray:
    """Return the position of the mass nearest to each target, for increasing masses; ties go to the upper one.

    >>> nearest_masses(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.4, 1.5, 2.6]))
    array([0, 2, 3])
    """
    upper = np.clip(np.searchsorted(mass, target), 1, len(mass) - 1)
    lower_is_nearer = target - mass[upper - 1] < mass[upper] - target - MASS_TOLERANCE * mass[-1]
    nearest: IntArray = upper - lower_is_nearer
    return nearest
