"""PreparedBins: bins of fixed predictions, for evaluation with many label vectors and weights."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array, IntArray
from calibrant.binning import BinningScheme, Partition
from calibrant.metrics.slot_bins import cell_numbers, fixed_cells
from calibrant.metrics.slots import SlotsOf
from calibrant.predictions import Predictions

__all__ = ["PreparedBins"]


@dataclass(frozen=True, eq=False)
class _Assigned:
    """The bin of every score, and the sums that do not depend on labels, for given weights."""

    cells: NDArray[Any]  # (n, S)
    starts: IntArray  # (S,) first bin of every slot
    n_cells: int
    weights: Float64Array | None  # (n,)
    weight: Float64Array  # (n_cells,)
    score_sum: Float64Array  # (n_cells,)

    def is_for(self, weights: Float64Array | None) -> bool:
        if weights is None or self.weights is None:
            return weights is self.weights
        return np.array_equal(weights, self.weights)


class PreparedBins:
    """Assign every score to its bin in advance, so that new labels cost O(n) and new weights O(nS).

    A scheme that chooses bins from the scores chooses them again when weights change. Memory: one small integer
    per score.
    """

    def __init__(self, slots_of: SlotsOf, scheme: BinningScheme, predictions: Predictions) -> None:
        self._slots_of = slots_of
        self._scheme = scheme
        self._predictions = predictions
        self._slots = slots_of(predictions)
        # Every class has a slot, so each row has exactly one hit, at a known position.
        targets = self._slots.targets
        self._one_hit_a_row = targets.ndim == 1 and len(targets) == predictions.n_classes
        self._rows = np.arange(predictions.n_rows)
        self._last = self._assigned(None)

    def sums(
        self, labels: IntArray, weights: Float64Array | None
    ) -> tuple[Float64Array, Float64Array, Float64Array, IntArray]:
        """Return weight, sum of scores and sum of outcomes of every bin, and the first bin of each slot."""
        # Read the reference once: another thread may replace it at any time.
        bins = self._last
        if not bins.is_for(weights):
            if isinstance(self._scheme, Partition):
                bins = self._added_up(bins.cells, bins.starts, bins.n_cells, weights)
            else:
                bins = self._assigned(weights)
            self._last = bins
        if self._one_hit_a_row:
            hits, hit_weights = bins.cells[self._rows, labels], weights
        else:
            matches = self._slots.hits(labels)
            hits = bins.cells[matches]
            hit_weights = None if weights is None else weights[np.nonzero(matches)[0]]
        outcome_sum = np.bincount(hits, hit_weights, bins.n_cells).astype(np.float64, copy=False)
        return bins.weight, bins.score_sum, outcome_sum, bins.starts

    def _assigned(self, weights: Float64Array | None) -> _Assigned:
        """Assign every score to a bin."""
        slots, predictions = self._slots, self._predictions
        if isinstance(self._scheme, Partition):
            cells, (n_slots, n_groups, n_bins) = fixed_cells(slots, self._scheme, predictions.n_classes)
            sizes = [n_groups * n_bins] * n_slots
        else:
            cells, sizes = np.empty(slots.scores.shape, dtype=np.intp), []
            for column, (scores, targets) in enumerate(self._slots_of.columns(predictions)):
                numbers, size = cell_numbers(scores, targets, weights, self._scheme, slots.binned_by_class)
                cells[:, column] = numbers + sum(sizes)
                sizes.append(size)
        n_cells = sum(sizes)
        # The table is read at random positions; a small one fits into the cache.
        small = cells.astype(np.min_scalar_type(n_cells))
        return self._added_up(small, np.cumsum([0, *sizes[:-1]], dtype=np.intp), n_cells, weights)

    def _added_up(
        self,
        cells: NDArray[Any],
        starts: IntArray,
        n_cells: int,
        weights: Float64Array | None,
    ) -> _Assigned:
        """Sum weights and scores in every bin, slot by slot to keep memory at O(n)."""
        weight, score_sum = np.zeros(n_cells), np.zeros(n_cells)
        for column in range(cells.shape[1]):
            numbers, scores = cells[:, column], self._slots.scores[:, column]
            weight += np.bincount(numbers, weights, n_cells)
            score_sum += np.bincount(numbers, scores if weights is None else weights * scores, n_cells)
        # A copy, since the caller may reuse one array for many weights.
        kept = None if weights is None else weights.copy()
        return _Assigned(cells, starts, n_cells, kept, weight, score_sum)
