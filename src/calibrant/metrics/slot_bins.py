"""Bins of slots: one fixed partition for all slots, or bins chosen from the scores of each."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array, IntArray
from calibrant.binning import BinningScheme, Bins, Partition
from calibrant.metrics.bin_errors import chosen_partition
from calibrant.metrics.slots import Slots

__all__ = ["bins_of_slots", "cell_numbers", "fixed_cells", "sums_of_slots"]


def fixed_cells(slots: Slots, partition: Partition, n_classes: int) -> tuple[IntArray, tuple[int, ...]]:
    """Return the bin number of every score, (n, S), and the shape (S, groups, B) of the flattened numbering.

    Bins of all slots, and of all classes if these are binned separately, share one numbering.
    """
    n_bins = len(partition.bin_edges()) - 1
    n_slots = slots.scores.shape[1]
    n_groups = n_classes if slots.binned_by_class else 1
    cells = partition.index(slots.scores)
    if slots.binned_by_class:
        cells += n_bins * slots.targets
    if n_slots > 1:
        cells += n_groups * n_bins * np.arange(n_slots)
    return cells, (n_slots, n_groups, n_bins)


def bins_of_slots(
    slots: Slots, labels: IntArray, weights: Float64Array | None, partition: Partition, n_classes: int
) -> Bins:
    """Return bins of shape (S, groups, B) that hold the sums of every slot; O(nS)."""
    count, *sums = sums_of_slots(slots, labels, weights, partition, n_classes)
    return Bins(partition.bin_edges(), partition.closed, count[0].astype(np.intp), *(each[0] for each in sums))


def sums_of_slots(
    slots: Slots,
    labels: IntArray,
    weights: Float64Array | None,
    partition: Partition,
    n_classes: int,
    part: IntArray | None = None,
    n_parts: int = 1,
) -> tuple[NDArray[Any], Float64Array, Float64Array, Float64Array]:
    """Return count, weight, score sum and outcome sum per bin, (n_parts, S, groups, B); ``part`` is that of every row."""
    cells, shape = fixed_cells(slots, partition, n_classes)
    if part is not None:
        cells += int(np.prod(shape)) * part[:, np.newaxis]
    shape = (n_parts, *shape)
    size = int(np.prod(shape))
    flat, scores = cells.ravel(), slots.scores.ravel()
    count = np.bincount(flat, minlength=size)
    if slots.targets.ndim == 1 and len(slots.targets) == n_classes:
        # Every class has a slot, so each row has exactly one hit, at a known position.
        hits, hit_weights = cells[np.arange(len(labels)), labels], weights
    else:
        matches = slots.hits(labels)
        hits = cells[matches]
        hit_weights = None if weights is None else weights[np.nonzero(matches)[0]]
    if weights is not None:
        weights = np.repeat(weights, cells.shape[1])
        scores = weights * scores

    def sums(cells: IntArray, values: NDArray[np.floating] | None) -> Float64Array:
        return np.bincount(cells, values, size).reshape(shape).astype(np.float64, copy=False)

    return (
        count.reshape(shape),
        count.reshape(shape).astype(np.float64) if weights is None else sums(flat, weights),
        sums(flat, scores),
        sums(hits, hit_weights),
    )


def cell_numbers(
    scores: NDArray[np.floating],
    targets: IntArray,
    weights: Float64Array | None,
    scheme: BinningScheme,
    binned_by_class: bool,
) -> tuple[IntArray, int]:
    """Return the bin number of every score of one slot, (n,), and the number of bins.

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
