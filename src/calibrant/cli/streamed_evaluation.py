"""Metrics with intervals for files larger than memory: sums over rows, kept in random parts of the rows."""

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
    """What was found in one pass over the rows."""

    measurements: list[Measurement]
    n_rows: int
    n_groups: int | None
    left_out: list[str]


class _Parts:
    """A metric of all rows and of all rows but those of each part."""

    def __init__(self, metric: Metric, squared: bool) -> None:
        # The root of a debiased square is zero for good predictions; the square itself has an interval.
        self._shown, self._squared = metric, squared
        self.metric = partial(metric, signed=True) if squared else metric
        self.parts = [Accumulator(self.metric) for _ in range(N_PARTS)]

    def update(self, part: int, labels: NDArray[np.intp], rows: Predictions, weights: Any) -> None:
        self.parts[part].update(labels, rows, weights)

    def measurement(self, level: float) -> Measurement:
        r"""Return the value of all rows with a jackknife interval.

        .. math:: s^2 = \frac{m - 1}{m} \sum_j \bigl( \theta_{(j)} - \bar\theta \bigr)^2

        with the value without part j of m, and Student's quantile with m - 1 degrees of freedom.
        """
        filled = [part for part in self.parts if part.n_rows]
        total = self._merged(filled)
        value = total.result()
        error = nan
        if len(filled) > 1 and np.isfinite(value):
            # Sums of all parts before and after each one, so that no part is added up more than a few times.
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
            ", roots for the square" if self._squared else ""
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
    """Return every metric that adds up over rows, with its interval, in constant memory.

    Each row, or each group of rows, falls by chance into one of a hundred parts. Leaving out one part after the other
    shows how much the value varies: the delete-a-group jackknife, which does for means and for binned errors.
    """
    collected, left_out = [], []
    for metric in metrics:
        try:
            collected.append(_collectable(metric))
        except ParameterError:
            left_out.append(name_of(metric))
        else:
            if options_of(collected[-1].metric).get("strategy") != options_of(metric).get("strategy"):
                left_out.append(f"bins of equal mass of {name_of(metric)} (of equal width instead)")
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
        # Column numbers need no names, and every batch has the same ones.
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
        raise WeightError(f"{file.path}: all weights are zero; at least one row must count.")
    return Streamed([parts.measurement(level) for parts in collected], n_rows, len(groups) or None, left_out)


def _collectable(metric: Metric) -> _Parts:
    """Return a metric in the form in which it adds up; a ParameterError says that there is none."""
    if name_of(metric) != "debiased_ece":
        return _Parts(metric, squared=False)
    options = options_of(metric)
    if options["strategy"] == "quantile" and options["binning"] is None:
        metric = partial(metric, strategy="uniform")  # bins of equal mass need all scores
    return _Parts(metric, squared=not options["signed"] and options["norm"] == 2)


def _parts_of_rows(table: Table, generator: np.random.Generator) -> NDArray[np.intp]:
    """Return the part of every row; the same for all rows of a group, wherever they are in the file."""
    if table.groups is None:
        return generator.integers(0, N_PARTS, len(table.labels))
    return np.array(
        [zlib.crc32(str(name).encode()) % N_PARTS for name in table.groups.tolist()], dtype=np.intp
    )
