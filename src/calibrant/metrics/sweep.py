"""ECE sweep: ECE with the largest number of bins whose mean outcomes are monotone."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array, FloatArray, IntArray
from calibrant.binning.schemes import nearest_masses
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.binned_metric import Norm, Strategy, check_norm, chosen_scheme, gap_norms
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.events import Kind, check_kind, mean_over_events
from calibrant.numerics.isotonic import Levels, levels

__all__ = ["ece_sweep", "sweep_n_bins"]


# A mean that decreases by less than this counts as not decreasing, so that rounding does not decide.
DROP_TOLERANCE = 1e-9

# The same for sums of weights, relative to the total.
SUM_TOLERANCE = 1e-13

# Number of cuts examined at once: large enough to amortise a numpy call, small enough for the cache.
CUTS_AT_A_TIME = 2**17

# Finding the bin of one level costs about as much as placing this many cuts.
CUTS_PER_SEARCH = 16


@metric(MetricTraits(positive_by_noise=True))
def ece_sweep(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: Kind = "confidence",
    norm: Norm = 1,
    strategy: Strategy = "quantile",
) -> float:
    r"""ECE sweep: ECE with the largest number of bins whose mean outcomes increase with the score.

    .. math::

        \Bigl( \sum_{b=1}^{B} \frac{W_b}{W} \, | \bar o_b - \bar s_b |^p \Bigr)^{1/p}, \qquad
        B = \max \{ B' : \bar o_1 \le \dots \le \bar o_{B''} \text{ for all } B'' \le B' \},

    where :math:`\bar s_b` and :math:`\bar o_b` are the weighted mean score and outcome of bin b and
    :math:`W_b` its weight. The number of bins is increased from one until the mean outcome of some bin is lower
    than that of the bin before; the number before that is used :cite:`roelofs2022`. Outcomes of a calibrated
    classifier increase with its scores, so a decrease shows that the bins are too small for their noise.

    Parameters
    ----------
    kind : {"confidence", "classwise", "positive"}, default="confidence"
        The predicted class by its confidence; every class by its probability, each with its own number of
        bins (mean over classes); or the second class of two.
    norm : 1, 2, other number of at least 1, or "max", default=1
        p; ``"max"`` is the largest gap of a bin.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal weight, as the authors recommend, or of equal width from 0 to 1.

    Returns
    -------
    float
        From 0 to 1; lower is better. Equal to ECE with ``n_bins=B``; :func:`sweep_n_bins` returns B.

    Notes
    -----
    Equal scores share a bin, and there are never more bins than distinct scores. The authors' program splits
    ties in the order of the rows and may use up to n - 1 bins. Empty bins of equal width are skipped, as in that
    program. The number of bins adapts to the number of rows, which makes the error less biased than that of fifteen
    bins on few rows. It remains biased upwards: two hundred calibrated rows give about 0.04, and 0.09 with fifteen
    bins of equal weight.

    Costs one sort, :math:`O(n \log n)`, then :math:`O(B \log n)` for each number of bins up to B, which is of
    order :math:`n^{1/3}` unless outcomes are almost sorted by score. In that case each costs
    :math:`O(D \log n)`, if that is less, where D is the number of decreases between the mean outcomes of neighbouring
    scores; if outcomes are completely sorted, B is known immediately. Memory O(n).

    Examples
    --------
    Two bins, [0.6, 0.7] with one of two correct and [0.8, 0.9] with both; three bins would not be monotone:

    >>> p = [[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [0.9, 0.1]]
    >>> round(ece_sweep([0, 1, 0, 0], p), 6)
    0.15
    """
    check_norm(norm)
    check_kind(kind)
    chosen_scheme(1, strategy, None)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)

    def error(scores: FloatArray, outcomes: NDArray[np.bool_], weights: Float64Array | None) -> float:
        sweep = _sweep(strategy, scores, outcomes, weights)
        starts = np.unique(sweep.all_cuts(sweep.n_bins()))[:-1]
        rows = sweep.rows
        weight, score_sum, outcome_sum = (
            np.add.reduceat(sums, starts)
            for sums in (rows.weight, rows.weight * rows.score, rows.outcome_sum)
        )
        return float(gap_norms(weight, score_sum, outcome_sum, np.zeros(1, dtype=np.intp), norm)[0])

    return mean_over_events(data, kind, error)


def sweep_n_bins(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: Kind = "confidence",
    strategy: Strategy = "quantile",
) -> IntArray:
    """Return the number of bins that :func:`~calibrant.metrics.ece_sweep` uses, with the same parameters.

    Returns
    -------
    ndarray of shape (K,) for ``kind="classwise"``, otherwise (1,)
        The number B of bins to request. Fewer are filled if many scores are equal, or if bins of equal width
        are empty.

    Examples
    --------
    >>> sweep_n_bins([0, 1, 0, 0], [[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [0.9, 0.1]])
    array([2])
    """
    check_kind(kind)
    chosen_scheme(1, strategy, None)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    chosen: list[int] = []

    def collect(scores: FloatArray, outcomes: NDArray[np.bool_], weights: Float64Array | None) -> float:
        chosen.append(_sweep(strategy, scores, outcomes, weights).n_bins())
        return 0.0

    mean_over_events(data, kind, collect)
    return np.array(chosen, dtype=np.intp)


def _sweep(
    strategy: Strategy, scores: FloatArray, outcomes: NDArray[np.bool_], weights: Float64Array | None
) -> "_Sweep":
    rows = levels(scores, outcomes, weights)
    return _EqualMassSweep(rows) if strategy == "quantile" else _EqualWidthSweep(rows)


class _Sweep(ABC):
    """Bins as cuts between the m distinct scores (levels): bin b of B holds levels cut(B, b) to cut(B, b + 1) - 1."""

    def __init__(self, rows: Levels) -> None:
        self.rows = rows
        self.n_levels = len(rows.score)
        self.weight_below = np.concatenate([[0.0], np.cumsum(rows.weight)])
        self.outcomes_below = np.concatenate([[0.0], np.cumsum(rows.outcome_sum)])
        self.total = self.weight_below[-1]

    @abstractmethod
    def inner_cuts(self, n_bins: IntArray, number: IntArray) -> IntArray:
        """Return the first level of bins 0 < ``number`` < ``n_bins``; non-decreasing in ``number``."""

    @abstractmethod
    def places(self, level: IntArray) -> Float64Array:
        """Return the positions of levels, such that position times B is about the number of the bin."""

    def cuts(self, n_bins: IntArray, number: IntArray) -> IntArray:
        """Return the first level of bins 0 to ``n_bins``; the last is the end."""
        cuts = self.inner_cuts(n_bins, number)
        return np.where(number <= 0, 0, np.where(number >= n_bins, self.n_levels, cuts))

    def all_cuts(self, n_bins: int) -> IntArray:
        """Return the first level of every bin and the end, (B + 1,); empty bins begin where they end."""
        return self.cuts(np.full(n_bins + 1, n_bins), np.arange(n_bins + 1))

    def bins_of(self, n_bins: IntArray, level: IntArray) -> IntArray:
        """Return the number of the bin that holds each level."""
        number = np.clip((self.places(level) * n_bins).astype(np.intp), 0, n_bins - 1)
        while (too_high := self.cuts(n_bins, number) > level).any():
            number -= too_high
        while (too_low := self.cuts(n_bins, number + 1) <= level).any():
            number += too_low
        return number

    def n_bins(self) -> int:
        """Return the last number of bins before the first one with a decrease."""
        mean = self.rows.mean_outcome
        decreases = np.flatnonzero(mean[1:] < mean[:-1])
        if len(decreases) == 0:
            return self.n_levels
        first = 2
        while first <= self.n_levels:
            by_search = CUTS_PER_SEARCH * len(decreases) < first
            cuts_each = CUTS_PER_SEARCH * len(decreases) if by_search else 2 * first
            step = min(first, max(1, CUTS_AT_A_TIME // cuts_each))
            candidates = np.arange(first, min(first + step, self.n_levels + 1))
            non_monotone = (
                self._non_monotone_near(candidates, decreases)
                if by_search
                else self._non_monotone_anywhere(candidates)
            )
            if len(non_monotone):
                return int(non_monotone.min()) - 1
            first += step
        return self.n_levels

    def _non_monotone_anywhere(self, candidates: IntArray) -> IntArray:
        """Return the numbers of bins for which the mean outcome decreases, by examining all bins."""
        n_bins = np.repeat(candidates, candidates + 1)
        first_of_each = np.cumsum(candidates + 1) - (candidates + 1)
        number = np.arange(len(n_bins)) - np.repeat(first_of_each, candidates + 1)
        cuts = self.cuts(n_bins, number)
        filled = np.concatenate([[True], (cuts[1:] > cuts[:-1]) | (number[1:] == 0)])
        n_bins, cuts = n_bins[filled], cuts[filled]
        decreases = self._decreases(cuts[:-2], cuts[1:-1], cuts[2:]) & (n_bins[:-2] == n_bins[2:])
        non_monotone: IntArray = n_bins[:-2][decreases]
        return non_monotone

    def _non_monotone_near(self, candidates: IntArray, decreases: IntArray) -> IntArray:
        """Return the same by examining only bins around decreases between neighbouring levels.

        If the mean decreases from one bin to the next, some level of the first is above some level of the second, so
        two neighbouring levels within the two bins decrease. This pair lies in one of the bins or at their boundary,
        and the bin of its lower level is one of the two.
        """
        n_bins, level = np.repeat(candidates, len(decreases)), np.tile(decreases, len(candidates))
        number = self.bins_of(n_bins, level)
        start, stop = self.cuts(n_bins, number), self.cuts(n_bins, number + 1)
        before = self.cuts(n_bins, self.bins_of(n_bins, np.maximum(start - 1, 0)))
        last_level = self.n_levels - 1
        after = self.cuts(n_bins, self.bins_of(n_bins, np.minimum(stop, last_level)) + 1)
        from_before = self._decreases(before, start, stop) & (start > 0)
        to_after = self._decreases(start, stop, after) & (stop <= last_level)
        non_monotone: IntArray = n_bins[from_before | to_after]
        return non_monotone

    def _decreases(self, start: IntArray, middle: IntArray, stop: IntArray) -> NDArray[np.bool_]:
        """Return whether the mean outcome of levels from start to middle is above that from middle to stop."""
        left_share = (self.weight_below[middle] - self.weight_below[start]) / self.total
        right_share = (self.weight_below[stop] - self.weight_below[middle]) / self.total
        left = (self.outcomes_below[middle] - self.outcomes_below[start]) / self.total * right_share
        right = (self.outcomes_below[stop] - self.outcomes_below[middle]) / self.total * left_share
        rounding = DROP_TOLERANCE * left_share * right_share + SUM_TOLERANCE * (left_share + right_share)
        decreases: NDArray[np.bool_] = left - right > rounding
        return decreases


class _EqualMassSweep(_Sweep):
    """The bins of :class:`~calibrant.binning.EqualMass`, for any number of bins from one sort."""

    def inner_cuts(self, n_bins: IntArray, number: IntArray) -> IntArray:
        return nearest_masses(self.weight_below, self.total * number / n_bins)

    def places(self, level: IntArray) -> Float64Array:
        middle: Float64Array = (self.weight_below[level] + self.weight_below[level + 1]) / (2 * self.total)
        return middle


class _EqualWidthSweep(_Sweep):
    """The bins of :class:`~calibrant.binning.EqualWidth` from 0 to 1."""

    def inner_cuts(self, n_bins: IntArray, number: IntArray) -> IntArray:
        # Edges are compared in the float type of the scores, as in every partition.
        return np.searchsorted(self.rows.score, (number / n_bins).astype(self.rows.score.dtype))

    def places(self, level: IntArray) -> Float64Array:
        return self.rows.score[level].astype(np.float64)
