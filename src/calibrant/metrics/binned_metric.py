"""BinnedMetric: implements all binned calibration errors, for one or many label vectors, or in batches."""

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array
from calibrant.binning import BinningScheme, Bins, Partition
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.bin_errors import Norm, check_fixed, check_norm, gap_norms
from calibrant.metrics.declaration import Evaluator
from calibrant.metrics.prepared_bins import PreparedBins
from calibrant.metrics.slot_bins import bins_of_slots, cell_numbers, sums_of_slots
from calibrant.metrics.slots import SlotsOf
from calibrant.numerics.row_blocks import BlockSums, row_blocks
from calibrant.predictions import Predictions

__all__ = ["BinnedMetric", "Reduction"]

Reduction = Literal["mean", "sum", "none"]


# Blocks of rows that threads work on. Their number is fixed, so that sums do not depend on the number of threads.
SHARES = 16

# np.bincount holds the GIL: in smaller blocks two threads mostly wait for each other.
SCORES_AT_A_TIME = 2**17


@dataclass(frozen=True)
class BinnedMetric:
    r"""A binned calibration error: scores and events (slots), bins and norm.

    .. math:: E_s = \Bigl( \sum_b \frac{W_b}{W} \, | \bar o_b - \bar s_b |^p \Bigr)^{1/p}

    for every slot s, and the mean or the sum of all slots.
    """

    slots_of: SlotsOf
    scheme: BinningScheme
    norm: Norm = 1
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        check_norm(self.norm)
        if self.reduction not in ("mean", "sum", "none"):
            raise ParameterError(f"reduction must be 'mean', 'sum' or 'none', not {self.reduction!r}.")

    def __call__(self, data: LabelledPredictions) -> float:
        """Return the metric."""
        return self.reduced(self.errors(data))

    def reduced(self, errors: Float64Array) -> float:
        """Return the mean or the sum of the errors of all slots."""
        if self.reduction == "none":
            raise ParameterError(
                "reduction='none' gives several numbers where one is needed; choose 'mean' or 'sum'."
            )
        return float(errors.sum() if self.reduction == "sum" else errors.mean())

    def errors(self, data: LabelledPredictions) -> Float64Array:
        """Return the error of every slot, (S,)."""
        if isinstance(self.scheme, Partition):
            return self.errors_of(self.of(data))
        return np.array([self._error(data, *column) for column in self.slots_of.columns(data.predictions)])

    def of(self, data: LabelledPredictions) -> Bins:
        """Return the bins of these rows; bins of other rows with the same classes can be added."""
        check_fixed(self.scheme)
        assert isinstance(self.scheme, Partition)
        partition, predictions = self.scheme, data.predictions
        n_slots = self.slots_of.n_slots(data.n_classes)

        def bins(rows: slice) -> Bins:
            weights = None if data.weights is None else data.weights[rows]
            slots = self.slots_of(predictions, rows)
            return bins_of_slots(slots, data.labels[rows], weights, partition, data.n_classes)

        def bins_of_share(share: slice) -> Bins:
            """Add up small blocks immediately, to bound the number of intermediate bins in memory."""
            blocks = row_blocks(share.stop - share.start, n_slots, min_rows=SCORES_AT_A_TIME // n_slots)
            return reduce(
                add, (bins(slice(share.start + rows.start, share.start + rows.stop)) for rows in blocks)
            )

        with BlockSums.over(data.n_rows, n_slots, min_rows=-(-data.n_rows // SHARES)) as total:
            return total(bins_of_share)

    def of_parts(
        self, data: LabelledPredictions, part: NDArray[np.intp], n_parts: int
    ) -> tuple[Float64Array, ...]:
        """Return the sums of the bins of every part."""
        check_fixed(self.scheme)
        assert isinstance(self.scheme, Partition)
        n_slots = self.slots_of.n_slots(data.n_classes)
        total: tuple[Float64Array, ...] = ()
        for rows in row_blocks(data.n_rows, n_slots, min_rows=max(1, SCORES_AT_A_TIME // n_slots)):
            weights = None if data.weights is None else data.weights[rows]
            slots, labels = self.slots_of(data.predictions, rows), data.labels[rows]
            found = sums_of_slots(slots, labels, weights, self.scheme, data.n_classes, part[rows], n_parts)
            total = tuple(map(add, total, found)) if total else found
        return total

    def from_arrays(self, *arrays: Float64Array) -> Bins:
        """Return the bins of one part."""
        assert isinstance(self.scheme, Partition)
        count, *sums = arrays
        return Bins(self.scheme.bin_edges(), self.scheme.closed, count.astype(np.intp), *sums)

    def check_batches(self) -> None:
        """Raise if bins depend on all rows, or if the metric has several values."""
        check_fixed(self.scheme)
        if self.reduction == "none":
            self.reduced(np.zeros(1))

    def errors_of(self, bins: Bins) -> Float64Array:
        """Return the error of every slot from its bins, (S,)."""
        n_slots = len(bins.weight)
        starts = np.arange(n_slots) * (bins.weight.size // n_slots)
        return gap_norms(
            bins.weight.ravel(), bins.score_sum.ravel(), bins.outcome_sum.ravel(), starts, self.norm
        )

    def value(self, bins: Bins) -> float:
        """Return the metric from the bins of all rows."""
        return self.reduced(self.errors_of(bins))

    def prepared(self, predictions: Predictions) -> Evaluator:
        """Return the metric as a function of labels and weights alone."""
        if self.reduction == "none":
            self.reduced(np.zeros(1))
        bins = PreparedBins(self.slots_of, self.scheme, predictions)

        def evaluate(labels: NDArray[np.intp], weights: Float64Array | None) -> float:
            return self.reduced(gap_norms(*bins.sums(labels, weights), self.norm))

        return evaluate

    def _error(
        self, data: LabelledPredictions, scores: NDArray[np.floating], targets: NDArray[np.intp]
    ) -> float:
        """Return the error of one slot, with bins chosen from its own scores."""
        weights, hits = data.weights, targets == data.labels
        cells, n_cells = cell_numbers(scores, targets, weights, self.scheme, self.slots_of.binned_by_class)
        hit_weights = None if weights is None else weights[hits]

        def sums(cells: NDArray[np.intp], values: NDArray[np.floating] | None) -> Float64Array:
            return np.bincount(cells, values, n_cells).astype(np.float64, copy=False)

        scores = scores if weights is None else weights * scores
        columns = sums(cells, weights), sums(cells, scores), sums(cells[hits], hit_weights)
        return float(gap_norms(*columns, np.array([0]), self.norm)[0])
