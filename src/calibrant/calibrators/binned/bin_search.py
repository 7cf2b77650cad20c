"""How many bins: the log-loss of every row in the bins of all others, for any number of bins from one sort."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from calibrant.arrays import Vector
from calibrant.binning import BinningScheme, EqualMass
from calibrant.calibrators.binned.smoothed_frequency import SmoothedFrequency

__all__ = ["BinSearch", "automatic_grid"]


# The six numbers of Kull et al. (2019), and larger ones without which many classes lose their order.
NUMBERS_TRIED = (5, 10, 15, 20, 25, 30, 50, 70, 100)

# With fewer rows in a bin its frequency is mostly chance, in the rows left out as well.
FEWEST_ROWS_PER_BIN = 5

# What is left of a weight after the same weight is taken away, in units of it.
ROUNDING = 1e-12


def automatic_grid(total: float) -> list[int]:
    """Return the numbers of bins worth trying for rows of this total weight; at least one.

    >>> automatic_grid(120.0), automatic_grid(3.0)
    ([5, 10, 15, 20], [5])
    """
    return [
        number for number in NUMBERS_TRIED if number <= max(total / FEWEST_ROWS_PER_BIN, NUMBERS_TRIED[0])
    ]


class BinSearch:
    r"""Rows in order of their scores, to compare binnings by the log-loss of rows that were left out.

    The row that is left out changes one bin only, so that its loss needs no second fit: with P of the weight W
    of its bin, a row of weight u with the event has the probability :math:`v(P - u, W - u)`, and one without
    it :math:`1 - v(P, W - u)`. Edges, which do not depend on outcomes, stay; bins are closed on the left.
    Weights that are whole numbers count rows, of which one is left out; any other weight is that of one row.

    Costs a sort, then for every binning O(B log n) with whole weights and O(n) with others.

    Examples
    --------
    >>> from calibrant.binning import EqualWidth
    >>> scores, outcomes = np.array([0.1, 0.2, 0.3, 0.8]), np.array([False, False, True, True])
    >>> search = BinSearch(scores, outcomes, None, SmoothedFrequency(0.5, 1.0))
    >>> round(search.loss(EqualWidth(1), if_empty=0.5), 4), round(-float(np.log(2 / 5)), 4)
    (0.9163, 0.9163)
    """

    def __init__(
        self,
        scores: NDArray[np.floating],
        outcomes: NDArray[np.bool_],
        weights: Vector | None,
        frequency: SmoothedFrequency,
    ) -> None:
        order = np.argsort(scores)
        self.scores = scores[order]
        self.outcomes = outcomes[order]
        self.weights = np.ones(len(order)) if weights is None else weights[order]
        self.rows_are_counted = weights is None or bool(np.array_equal(weights, np.round(weights)))
        self.frequency = frequency
        # Equal scores stay together: a binning cuts between the ends of two groups of them.
        self.ends = np.concatenate([[0], np.flatnonzero(np.diff(self.scores)) + 1, [len(order)]])
        self.weight_below = self._cumulative(self.weights)
        self.positives_below = self._cumulative(self.weights * self.outcomes)

    def loss(self, scheme: BinningScheme, if_empty: Vector | float) -> float:
        """Return the mean log-loss of rows left out; ``if_empty`` is the value of bins that lose their only row."""
        bounds = self._bounds(scheme)
        otherwise = np.broadcast_to(if_empty, len(bounds) - 1)
        weight, positives = np.diff(self.weight_below[bounds]), np.diff(self.positives_below[bounds])
        if self.rows_are_counted:
            # All rows of a bin with the same outcome have the same loss.
            left_out = np.ones(len(weight))
            with_event, without = positives, weight - positives
        else:
            of_bin = np.repeat(np.arange(len(weight)), np.diff(self.ends[bounds]))
            left_out = self.weights
            with_event, without = left_out * self.outcomes, left_out * ~self.outcomes
            weight, positives, otherwise = weight[of_bin], positives[of_bin], otherwise[of_bin]
        rest = weight - left_out
        rest = np.where(rest > ROUNDING * weight, rest, 0.0)
        if_hit = self.frequency(np.clip(positives - left_out, 0.0, rest), rest, otherwise)
        if_miss = self.frequency(np.minimum(positives, rest), rest, otherwise)
        return -float((xlogy(with_event, if_hit) + xlogy(without, 1 - if_miss)).sum() / self.weight_below[-1])

    def _bounds(self, scheme: BinningScheme) -> NDArray[np.intp]:
        """Return how many distinct scores lie below each edge of the bins, (B + 1,)."""
        last = len(self.ends) - 1
        if isinstance(scheme, EqualMass):
            inner = scheme.cuts(self.weight_below)
        else:
            edges = scheme(self.scores, self.weights).bin_edges()[1:-1].astype(self.scores.dtype)
            inner = np.searchsorted(self.scores[self.ends[:-1]], edges)
        return np.concatenate([[0], inner, [last]])

    def _cumulative(self, values: Vector) -> Vector:
        total: Vector = np.concatenate([[0.0], np.cumsum(values)])[self.ends]
        return total
