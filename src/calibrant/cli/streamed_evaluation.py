"""Metrics with jackknife intervals for files larger than memory, from sums over random parts of the rows."""

import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from calibrant.cli.measurement import Measurement, rooted
from calibrant.cli.metric_choice import Metric, name_of
from calibrant.cli.score_meaning import check_declared
from calibrant.errors import ParameterError, WeightError
from calibrant.metrics.declaration import describe, options_of
from calibrant.predictions import Predictions
from calibrant.streaming import Accumulator
from calibrant.tables.table import PredictionFile, Table

__all__ = ["Streamed", "measured_in_batches"]

N_PARTS = 100


class Streamed(NamedTuple):
    """Results of one pass over the rows."""

    measurements: list[Measurement]
    n_rows: int
    n_groups: int | None
    left_out: list[str]


class _Parts:
    """A metric of all rows, and of all rows except each part."""

    def __init__(self, metric: Metric, squared: bool) -> None:
        # For good predictions the clipped root of a debiased square is zero, so the interval is that of the square.
        self._shown, self._squared = metric, squared
        self.metric = partial(metric, signed=True) if squared else metric
        self.parts = [Accumulator(self.metric) for _ in range(N_PARTS)]

    def update(self, part: int, labels: NDArray[np.intp], rows: Predictions, weights: Any) -> None:
        self.parts[part].update(labels, rows, weights)

    def measurement(self, level: float) -> Measurement:
        r"""Return the value of all rows with a jackknife interval.

        .. math:: s^2 = \frac{m - 1}{m} \sum_j \bigl( \theta_{(j)} - \bar\theta \bigr)^2

        where :math:`\theta_{(j)}` leaves out part j of m, with the quantile of Student's t with m - 1 degrees of freedom.
        """
        filled = [part for part in self.parts if part.n_rows]
        total = self._merged(filled)
        value = total.result()
        error = nan
        if len(filled) > 1 and np.isfinite(value):
            # Cumulative sums before and after each part, so that each part is added only a few times.
            before, after = [self._empty()], [self._empty()]
            for part in filled:
                before.append(self._merged([before[-1], part]))
            for part in reversed(filled):
                after.append(self._merged([part, after[-1]]))
            without = np.array(
                [
                    self._merged([before[at], after[len(filled) - at - 1]]).result()
                    for at in range(len(filled))
                ]
            )
            error = sqrt((len(filled) - 1) / len(filled) * ((without - without.mean()) ** 2).sum())
        half = float(stdtrit(len(filled) - 1, (1 + level) / 2)) * error if len(filled) > 1 else nan
        ends = (value, value - half, value + half)
        if self._squared:
            ends = (rooted(ends[0]), rooted(ends[1]), rooted(ends[2]))
        how = f"jackknife over {len(filled)} random parts of the rows" + (
            ", square roots of the interval of the square" if self._squared else ""
        )
        return Measurement(name_of(self._shown), *ends, None, None, describe(self._shown), how, total.n_rows)

    def _empty(self) -> Accumulator:
        return Accumulator(self.metric)

    def _merged(self, parts: list[Accumulator]) -> Accumulator:
        total = self._empty()
        for part in parts:
            total.merge(part)
        return total


def measured_in_batches(
    file: PredictionFile,
    metrics: list[Metric],
    level: float,
    progress: Callable[[int], object],
    batch_rows: int | None = None,
) -> Streamed:
    """Return every metric that is a function of sums over rows, with its interval, in constant memory.

    Each row, or each group, is assigned at random to one of a hundred parts. Intervals come from the delete-a-group
    jackknife over these parts, which is valid for means and binned errors.
    """
    collected, left_out = [], []
    for metric in metrics:
        try:
            collected.append(_collectable(metric))
        except ParameterError:
            left_out.append(name_of(metric))
        else:
            if options_of(collected[-1].metric).get("strategy") != options_of(metric).get("strategy"):
                left_out.append(f"equal-mass bins of {name_of(metric)} (equal-width bins instead)")
    generator = np.random.default_rng(0)
    n_rows, counted_rows, groups = 0, 0, set()
    for table in file.batches(batch_rows):
        if n_rows == 0:
            check_declared(file.path, table.predictions)
        n_rows += table.predictions.n_rows
        progress(n_rows)
        part_of_row = _parts_of_rows(table, generator)
        if table.groups is not None:
            groups |= set(table.groups.tolist())
        if table.weights is not None:
            if not table.weights.any():
                continue
            part_of_row = part_of_row[table.weights > 0]
        counted_rows += len(part_of_row)
        data = table.labelled()
        # Column indices need no names, and they are the same in every batch.
        rows = replace(data.predictions, classes=None)
        order = np.argsort(part_of_row, kind="stable")
        bounds = np.searchsorted(part_of_row[order], np.arange(N_PARTS + 1))
        for part in range(N_PARTS):
            chosen = order[bounds[part] : bounds[part + 1]]
            if len(chosen) == 0:
                continue
            some, weights = rows.take(chosen), None if data.weights is None else data.weights[chosen]
            for parts in collected:
                parts.update(part, data.labels[chosen], some, weights)
    if counted_rows == 0:
        raise WeightError(f"{file.path}: all weights are zero; at least one must be positive.")
    return Streamed([parts.measurement(level) for parts in collected], n_rows, len(groups) or None, left_out)


def _collectable(metric: Metric) -> _Parts:
    """Return the streaming form of a metric; raises ParameterError if there is none."""
    if name_of(metric) != "debiased_ece":
        return _Parts(metric, squared=False)
    options = options_of(metric)
    if options["strategy"] == "quantile" and options["binning"] is None:
        metric = partial(metric, strategy="uniform")  # equal-mass bins need all scores
    return _Parts(metric, squared=not options["signed"] and options["norm"] == 2)


def _parts_of_rows(table: Table, generator: np.random.Generator) -> NDArray[np.intp]:
    """Return the part of every row; rows of a group are in the same part, wherever they are in the file."""
    if table.groups is None:
        return generator.integers(0, N_PARTS, len(table.labels))
    return np.array(
        [zlib.crc32(str(name).encode()) % N_PARTS for name in table.groups.tolist()], dtype=np.intp
    )
