"""Bounded storage of the scores of earlier batches: adjacent levels are merged into cells of equal mass."""

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.numerics.isotonic import Levels

__all__ = ["KEPT_LEVELS", "MOST_LEVELS", "cell_starts", "merged", "weight_per_row", "with_batch"]


# More levels than this are merged, and then into so many that this is not needed with every batch.
MOST_LEVELS = 10_000
KEPT_LEVELS = 5_000


def cell_starts(weight: Vector, n_cells: int) -> NDArray[np.intp]:
    """Return the first level of every cell, for the weights of levels in order, (m,); at most ``n_cells``, O(m).

    Levels whose middles fall into the same part of the total weight share a cell, which then has less than two such
    parts. A level of two parts or more has a cell of its own.

    >>> cell_starts(np.array([1.0, 1.0, 1.0, 1.0, 4.0, 1.0]), 4)
    array([0, 2, 4, 5])
    """
    upper = np.cumsum(weight)
    cell = np.floor((upper - weight / 2) / upper[-1] * n_cells)
    return np.flatnonzero(np.concatenate([[True], cell[1:] != cell[:-1]]))


def with_batch(past: Levels, kept: float, batch: Levels) -> Levels:
    """Return the levels of past rows, whose weights are multiplied by ``kept``, together with those of a batch.

    >>> past = Levels(np.array([0.1, 0.3]), np.array([2.0, 2.0]), np.array([0.0, 2.0]))
    >>> batch = Levels(np.array([0.2, 0.3]), np.array([1.0, 3.0]), np.array([1.0, 0.0]))
    >>> both = with_batch(past, 0.5, batch)
    >>> both.score, both.weight, both.outcome_sum
    (array([0.1, 0.2, 0.3]), array([1., 1., 4.]), array([0., 1., 1.]))
    """
    score = np.concatenate([past.score, batch.score])
    weight = np.concatenate([past.weight * kept, batch.weight])
    outcome_sum = np.concatenate([past.outcome_sum * kept, batch.outcome_sum])
    # What has faded below the smallest float counts no more.
    order = np.argsort(score, kind="stable")
    order = order[weight[order] > 0]
    score = score[order]
    starts = np.flatnonzero(np.concatenate([[True], score[1:] != score[:-1]]))
    return Levels(
        score[starts], np.add.reduceat(weight[order], starts), np.add.reduceat(outcome_sum[order], starts)
    )


def merged(rows: Levels) -> Levels:
    """Return the levels themselves if they are few enough, else cells of about equal mass, each at its mean score."""
    if len(rows.score) <= MOST_LEVELS:
        return rows
    starts = cell_starts(rows.weight, KEPT_LEVELS)
    last = np.append(starts[1:], len(rows.score)) - 1
    weight = np.add.reduceat(rows.weight, starts)
    mean = np.add.reduceat(rows.weight * rows.score, starts) / weight
    # Rounding must not put a mean beyond the scores of its cell, or two cells could change places.
    score = np.clip(mean, rows.score[starts], rows.score[last])
    return Levels(score, weight, np.add.reduceat(rows.outcome_sum, starts))


def weight_per_row(weight: Vector, n_rows: float) -> float:
    """Return what weights of ``n_rows`` rows are divided by so that they count rows, and small ones not fewer of them.

    >>> weight_per_row(np.array([0.25, 0.75]), 2), weight_per_row(np.array([2.0, 4.0]), 2)
    (0.5, 1.0)
    """
    return min(1.0, float(weight.sum()) / n_rows)
