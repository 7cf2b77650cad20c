"""BinnedMetric: all binned calibration errors, for one or many label vectors, or in batches; and their options."""

from dataclasses import dataclass
from functools import reduce
from numbers import Real
from operator import add
from typing import Any, Literal, get_args

import numpy as np

from calibrant.arrays import AnyArray, Float64Array, FloatArray, IntArray
from calibrant.binning import BinningScheme, Bins, CubeRoot, EqualMass, EqualWidth, Partition
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import Evaluator
from calibrant.metrics.events import EventChoice, EventScores
from calibrant.numerics.row_blocks import BlockSums, row_blocks
from calibrant.options import check_choice
from calibrant.predictions import Predictions

__all__: list[str] = []


Strategy = Literal["uniform", "quantile"]
Norm = float | Literal["max"]
NumberOfBins = int | Literal["cube_root"]


def chosen_scheme(n_bins: NumberOfBins, strategy: Strategy, binning: BinningScheme | None) -> BinningScheme:
    """Return the scheme that the arguments of a metric ask for; ``binning`` takes precedence."""
    if binning is not None:
        if not callable(binning) or isinstance(binning, type):
            raise ParameterError(
                f"binning must be a scheme such as EqualMass(10), not {binning!r}; "
                "for given edges, pass FixedEdges(edges)."
            )
        return binning
    if strategy not in get_args(Strategy):
        raise ParameterError(
            f"strategy must be 'uniform' or 'quantile', not {strategy!r}; for other bins, pass binning=."
        )
    if isinstance(n_bins, str) and n_bins == "cube_root":
        return CubeRoot(strategy)
    return EqualWidth(n_bins) if strategy == "uniform" else EqualMass(n_bins)


def chosen_partition(scheme: BinningScheme, scores: FloatArray, weights: Float64Array | None) -> Partition:
    """Return the partition of a scheme for these scores; raise if the scheme returns anything else."""
    partition = scheme(scores, weights)
    if not isinstance(partition, Partition):
        raise ParameterError(
            "binning must return FixedEdges or another Partition when called on scores, "
            f"not {type(partition).__name__}."
        )
    return partition


def check_fixed(scheme: BinningScheme | None) -> None:
    """Raise unless the bins are fixed in advance, as rows that arrive in batches require."""
    if not isinstance(scheme, Partition):
        raise ParameterError(
            f"{scheme!r} chooses its bins from all scores at once, so batches cannot be added up; "
            "choose the bins from a first batch of scores and pass them as binning=FixedEdges(edges)."
        )


def check_norm(norm: Any) -> None:
    """Raise unless the norm is ``"max"`` or a finite number of at least one."""
    if norm != "max" and not (isinstance(norm, Real) and 1 <= float(norm) < np.inf):
        raise ParameterError(f"norm must be 1, 2, another number of at least 1, or 'max', not {norm!r}.")


def gap_norms(
    weight: Float64Array, score_sum: Float64Array, outcome_sum: Float64Array, starts: IntArray, norm: Norm
) -> Float64Array:
    """Return the weighted p-norm of the gaps for each slice of consecutive bins, (S,), or the largest gap.

    The sums over the rows of each bin are (C,), the first bins of the slices (S,); bins without weight are ignored.
    With outcomes of shape (R, C) the result is (R, S).
    """
    if norm == 1:
        gaps: Float64Array = np.add.reduceat(np.abs(outcome_sum - score_sum), starts, axis=-1)
        return gaps / np.add.reduceat(weight, starts)
    gap = np.divide(np.abs(outcome_sum - score_sum), weight, out=np.zeros_like(outcome_sum), where=weight > 0)
    if norm == "max":
        largest: Float64Array = np.maximum.reduceat(gap, starts, axis=-1)
        return largest
    powers = np.add.reduceat(weight * gap**norm, starts, axis=-1) / np.add.reduceat(weight, starts)
    return np.asarray(powers ** (1 / norm))


Reduction = Literal["mean", "sum", "none"]


# Blocks of rows that threads work on. Their number is fixed, so that sums do not depend on the number of threads.
SHARES = 16

# np.bincount holds the GIL: in smaller blocks two threads mostly wait for each other.
SCORES_AT_A_TIME = 2**17


@dataclass(frozen=True)
class BinnedMetric:
    r"""A binned calibration error: events, bins and norm.

    .. math:: E_s = \Bigl( \sum_b \frac{W_b}{W} \, | \bar o_b - \bar s_b |^p \Bigr)^{1/p}

    for each event s, then the mean or the sum over events.
    """

    choice: EventChoice
    scheme: BinningScheme
    norm: Norm = 1
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        check_norm(self.norm)
        check_choice("reduction", self.reduction, get_args(Reduction))

    def __call__(self, data: LabelledPredictions) -> float:
        """Return the metric."""
        return self.reduced(self.errors(data))

    def reduced(self, errors: Float64Array) -> float:
        """Return the mean or the sum of the errors over events."""
        if self.reduction == "none":
            raise ParameterError(
                "reduction='none' gives several numbers where one is needed; choose 'mean' or 'sum'."
            )
        return float(errors.sum() if self.reduction == "sum" else errors.mean())

    def result(self, data: LabelledPredictions) -> float | Float64Array:
        """Return the metric, or all errors for ``reduction="none"``."""
        errors = self.errors(data)
        return errors if self.reduction == "none" else self.reduced(errors)

    def errors(self, data: LabelledPredictions) -> Float64Array:
        """Return the error of every event, (S,)."""
        if isinstance(self.scheme, Partition):
            return self.errors_of(self.of(data))
        return np.array([self._error(data, *column) for column in self.choice.columns(data.predictions)])

    def of(self, data: LabelledPredictions) -> Bins:
        """Return the bins of these rows; bins of other rows with the same classes can be added."""
        check_fixed(self.scheme)
        assert isinstance(self.scheme, Partition)
        partition, predictions = self.scheme, data.predictions
        n_events = self.choice.n_events(data.n_classes)

        def bins(rows: slice) -> Bins:
            weights = None if data.weights is None else data.weights[rows]
            events = self.choice(predictions, rows)
            return bins_of_events(events, data.labels[rows], weights, partition, data.n_classes)

        def bins_of_share(share: slice) -> Bins:
            """Add up small blocks immediately, to bound the number of intermediate bins in memory."""
            blocks = row_blocks(share.stop - share.start, n_events, min_rows=SCORES_AT_A_TIME // n_events)
            return reduce(
                add, (bins(slice(share.start + rows.start, share.start + rows.stop)) for rows in blocks)
            )

        with BlockSums.over(data.n_rows, n_events, min_rows=-(-data.n_rows // SHARES)) as total:
            return total(bins_of_share)

    def of_parts(self, data: LabelledPredictions, part: IntArray, n_parts: int) -> tuple[Float64Array, ...]:
        check_fixed(self.scheme)
        assert isinstance(self.scheme, Partition)
        n_events = self.choice.n_events(data.n_classes)
        total: tuple[Float64Array, ...] = ()
        for rows in row_blocks(data.n_rows, n_events, min_rows=max(1, SCORES_AT_A_TIME // n_events)):
            weights = None if data.weights is None else data.weights[rows]
            events, labels = self.choice(data.predictions, rows), data.labels[rows]
            found = sums_of_events(events, labels, weights, self.scheme, data.n_classes, part[rows], n_parts)
            total = tuple(map(add, total, found)) if total else found
        return total

    def from_arrays(self, *arrays: Float64Array) -> Bins:
        assert isinstance(self.scheme, Partition)
        count, *sums = arrays
        return Bins(self.scheme.bin_edges(), self.scheme.closed, count.astype(np.intp), *sums)

    def check_batches(self) -> None:
        """Raise if bins depend on all rows, or if the metric has several values."""
        check_fixed(self.scheme)
        if self.reduction == "none":
            self.reduced(np.zeros(1))

    def errors_of(self, bins: Bins) -> Float64Array:
        """Return the error of every event from its bins, (S,)."""
        n_events = len(bins.weight)
        starts = np.arange(n_events) * (bins.weight.size // n_events)
        return gap_norms(
            bins.weight.ravel(), bins.score_sum.ravel(), bins.outcome_sum.ravel(), starts, self.norm
        )

    def value(self, bins: Bins) -> float:
        return self.reduced(self.errors_of(bins))

    def prepared(self, predictions: Predictions) -> Evaluator:
        if self.reduction == "none":
            self.reduced(np.zeros(1))
        return PreparedMetric(self, PreparedBins(self.choice, self.scheme, predictions))

    def _error(self, data: LabelledPredictions, scores: FloatArray, targets: IntArray) -> float:
        """Return the error of one event, with bins chosen from its own scores."""
        weights, hits = data.weights, targets == data.labels
        cells, n_cells = cell_numbers(scores, targets, weights, self.scheme, self.choice.binned_by_class)
        hit_weights = None if weights is None else weights[hits]

        def sums(cells: IntArray, values: FloatArray | None) -> Float64Array:
            return np.bincount(cells, values, n_cells).astype(np.float64, copy=False)

        scores = scores if weights is None else weights * scores
        columns = sums(cells, weights), sums(cells, scores), sums(cells[hits], hit_weights)
        return float(gap_norms(*columns, np.array([0]), self.norm)[0])


def binned_error(
    choice: EventChoice,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = 1,
    binning: BinningScheme | None = None,
    reduction: Reduction = "mean",
) -> BinnedMetric:
    """Return the binned error of these events for the options of a metric."""
    return BinnedMetric(choice, chosen_scheme(n_bins, strategy, binning), norm, reduction)


@dataclass(frozen=True, eq=False)
class PreparedMetric:
    """A binned metric of fixed predictions as a function of labels and weights."""

    metric: BinnedMetric
    bins: "PreparedBins"

    def __call__(self, labels: IntArray, weights: Float64Array | None) -> float:
        """Return the metric for labels (n,)."""
        return self.metric.reduced(gap_norms(*self.bins.sums(labels, weights), self.metric.norm))

    def many(self, labels: IntArray) -> Float64Array:
        """Return the metric without weights for each of R vectors of labels, (R, n)."""
        errors = gap_norms(*self.bins.sums_of_many(labels), self.metric.norm)
        return np.asarray(errors.sum(axis=1) if self.metric.reduction == "sum" else errors.mean(axis=1))


@dataclass(frozen=True, eq=False)
class _Assigned:
    """The bin of every score, and the sums that do not depend on labels, for given weights."""

    cells: AnyArray  # (n, S)
    starts: IntArray  # (S,) first bin of every event
    n_cells: int
    weights: Float64Array | None  # (n,)
    weight: Float64Array  # (n_cells,)
    score_sum: Float64Array  # (n_cells,)

    def is_for(self, weights: Float64Array | None) -> bool:
        if weights is None or self.weights is None:
            return weights is self.weights
        return np.array_equal(weights, self.weights)


class PreparedBins:
    """Bins of fixed predictions, assigned once: new labels then cost O(n), new weights O(nS).

    A scheme that chooses bins from the scores chooses them again when weights change. Memory: one small integer
    per score.
    """

    def __init__(self, choice: EventChoice, scheme: BinningScheme, predictions: Predictions) -> None:
        self._choice = choice
        self._scheme = scheme
        self._predictions = predictions
        self._events = choice(predictions)
        # Every class is an event, so each row has exactly one hit, at a known position.
        targets = self._events.targets
        self._one_hit_a_row = targets.ndim == 1 and len(targets) == predictions.n_classes
        self._rows = np.arange(predictions.n_rows)
        self._last = self._assigned(None)

    def sums(
        self, labels: IntArray, weights: Float64Array | None
    ) -> tuple[Float64Array, Float64Array, Float64Array, IntArray]:
        """Return weight, sum of scores and sum of outcomes of every bin, and the first bin of each event."""
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
            matches = self._events.hits(labels)
            hits = bins.cells[matches]
            hit_weights = None if weights is None else weights[np.nonzero(matches)[0]]
        outcome_sum = np.bincount(hits, hit_weights, bins.n_cells).astype(np.float64, copy=False)
        return bins.weight, bins.score_sum, outcome_sum, bins.starts

    def sums_of_many(self, labels: IntArray) -> tuple[Float64Array, Float64Array, Float64Array, IntArray]:
        """Return the same as :meth:`sums` without weights for R vectors of labels, (R, n); outcome sums are (R, C)."""
        bins = self._last if self._last.weights is None else self._assigned(None)
        first = bins.n_cells * np.arange(len(labels))[:, np.newaxis]
        if self._one_hit_a_row:
            hits = bins.cells[self._rows, labels] + first
        else:
            hits = (bins.cells + first[:, np.newaxis])[self._events.targets == labels[:, :, np.newaxis]]
        counts = np.bincount(hits.ravel(), minlength=len(labels) * bins.n_cells)
        outcome_sums = counts.reshape(-1, bins.n_cells).astype(np.float64)
        return bins.weight, bins.score_sum, outcome_sums, bins.starts

    def _assigned(self, weights: Float64Array | None) -> _Assigned:
        """Assign every score to a bin."""
        events, predictions = self._events, self._predictions
        if isinstance(self._scheme, Partition):
            cells, (n_events, n_groups, n_bins) = fixed_cells(events, self._scheme, predictions.n_classes)
            sizes = [n_groups * n_bins] * n_events
        else:
            cells, sizes = np.empty(events.scores.shape, dtype=np.intp), []
            for column, (scores, targets) in enumerate(self._choice.columns(predictions)):
                numbers, size = cell_numbers(scores, targets, weights, self._scheme, events.binned_by_class)
                cells[:, column] = numbers + sum(sizes)
                sizes.append(size)
        n_cells = sum(sizes)
        # The table is read at random positions; a small one fits into the cache.
        small = cells.astype(np.min_scalar_type(n_cells))
        return self._added_up(small, np.cumsum([0, *sizes[:-1]], dtype=np.intp), n_cells, weights)

    def _added_up(
        self, cells: AnyArray, starts: IntArray, n_cells: int, weights: Float64Array | None
    ) -> _Assigned:
        """Sum weights and scores in every bin, event by event to keep memory at O(n)."""
        weight, score_sum = np.zeros(n_cells), np.zeros(n_cells)
        for column in range(cells.shape[1]):
            numbers, scores = cells[:, column], self._events.scores[:, column]
            weight += np.bincount(numbers, weights, n_cells)
            score_sum += np.bincount(numbers, scores if weights is None else weights * scores, n_cells)
        # A copy, since the caller may reuse one array for many weights.
        kept = None if weights is None else weights.copy()
        return _Assigned(cells, starts, n_cells, kept, weight, score_sum)


def fixed_cells(
    events: EventScores, partition: Partition, n_classes: int
) -> tuple[IntArray, tuple[int, ...]]:
    """Return the bin number of every score, (n, S), and the shape (S, groups, B) of the flattened numbering.

    Bins of all events, and of all classes if these are binned separately, share one numbering.
    """
    n_bins = len(partition.bin_edges()) - 1
    n_events = events.scores.shape[1]
    n_groups = n_classes if events.binned_by_class else 1
    cells = partition.index(events.scores)
    if events.binned_by_class:
        cells += n_bins * events.targets
    if n_events > 1:
        cells += n_groups * n_bins * np.arange(n_events)
    return cells, (n_events, n_groups, n_bins)


def bins_of_events(
    events: EventScores, labels: IntArray, weights: Float64Array | None, partition: Partition, n_classes: int
) -> Bins:
    """Return bins of shape (S, groups, B) that hold the sums of every event; O(nS)."""
    count, *sums = sums_of_events(events, labels, weights, partition, n_classes)
    return Bins(
        partition.bin_edges(), partition.closed, count[0].astype(np.intp), *(each[0] for each in sums)
    )


def sums_of_events(
    events: EventScores,
    labels: IntArray,
    weights: Float64Array | None,
    partition: Partition,
    n_classes: int,
    part: IntArray | None = None,
    n_parts: int = 1,
) -> tuple[AnyArray, Float64Array, Float64Array, Float64Array]:
    """Return count, weight, score sum and outcome sum per bin, (n_parts, S, groups, B); ``part`` is that of every row."""
    cells, shape = fixed_cells(events, partition, n_classes)
    if part is not None:
        cells += int(np.prod(shape)) * part[:, np.newaxis]
    shape = (n_parts, *shape)
    size = int(np.prod(shape))
    flat, scores = cells.ravel(), events.scores.ravel()
    count = np.bincount(flat, minlength=size)
    if events.targets.ndim == 1 and len(events.targets) == n_classes:
        # Every class is an event, so each row has exactly one hit, at a known position.
        hits, hit_weights = cells[np.arange(len(labels)), labels], weights
    else:
        matches = events.hits(labels)
        hits = cells[matches]
        hit_weights = None if weights is None else weights[np.nonzero(matches)[0]]
    if weights is not None:
        weights = np.repeat(weights, cells.shape[1])
        scores = weights * scores

    def sums(cells: IntArray, values: FloatArray | None) -> Float64Array:
        return np.bincount(cells, values, size).reshape(shape).astype(np.float64, copy=False)

    return (
        count.reshape(shape),
        count.reshape(shape).astype(np.float64) if weights is None else sums(flat, weights),
        sums(flat, scores),
        sums(hits, hit_weights),
    )


def cell_numbers(
    scores: FloatArray,
    targets: IntArray,
    weights: Float64Array | None,
    scheme: BinningScheme,
    binned_by_class: bool,
) -> tuple[IntArray, int]:
    """Return the bin number of every score of one event, (n,), and the number of bins.

    The bins are chosen from these scores, or from the scores of each class if classes are binned separately.
    """
    if not binned_by_class or targets.ndim == 0:
        partition = chosen_partition(scheme, scores, weights)
        return partition.index(scores), len(partition.bin_edges()) - 1
    cells = np.empty(len(scores), dtype=np.intp)
    n_cells = 0
    order = np.argsort(targets, kind="stable")
    ends = np.flatnonzero(np.diff(targets[order])) + 1
    for rows in np.split(order, ends):
        partition = chosen_partition(scheme, scores[rows], None if weights is None else weights[rows])
        cells[rows] = n_cells + partition.index(scores[rows])
        n_cells += len(partition.bin_edges()) - 1
    return cells, n_cells
