"""Report on a file with more rows than a report can hold: one pass sums up all rows and draws a sample."""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.cli.measurement import RowSums
from calibrant.cli.progress import Progress
from calibrant.distributed.evaluation import metrics_by_name
from calibrant.errors import WeightError
from calibrant.predictions import Predictions, read_only
from calibrant.report import Assessment, assess
from calibrant.report.all_rows import METRICS_OF_ALL_ROWS, with_all_rows
from calibrant.tables.prediction_file import CodedRows, PredictionFile

__all__ = ["SAMPLE_ROWS", "assessed_in_batches"]

SAMPLE_ROWS = 100_000
"""Rows that are drawn for what a report computes of rows in memory."""


def assessed_in_batches(
    predictions: PredictionFile, level: float, progress: Progress, **options: Any
) -> Assessment:
    """Return the report of a sample, with metrics and tests of all rows; ``options`` are those of ``assess``."""
    metrics = metrics_by_name(METRICS_OF_ALL_ROWS)

    def visitor() -> _SummedAndDrawn:
        return _SummedAndDrawn(RowSums(predictions, list(metrics.values()), True, progress), SAMPLE_ROWS)

    found = predictions.visit(visitor)
    assert isinstance(found, _SummedAndDrawn)
    sums, tests = found.rows.sums, found.rows.tests
    if tests is None:
        raise WeightError(f"{predictions.path}: all weights are zero; at least one must be positive.")
    exact = {
        name: estimate.described(definition, level, sums.n_rows)
        for name, definition, estimate in zip(metrics, sums.definitions, sums.results(), strict=True)
    }
    given, labels, weights, groups = found.sample()
    assessment = assess(
        labels,
        given,
        sample_weight=weights,
        groups=groups,
        level=level,
        progress=progress.update,
        **options,
    )
    unit = "rows" if groups is None else "groups of rows"
    return with_all_rows(assessment, exact, tests, sums.n_rows, f"A random choice of {unit}")


class _SummedAndDrawn:
    """Visitor that sums up all rows, and keeps those with the smallest random numbers.

    Rows of a group have one random number, so that groups are kept together.
    """

    def __init__(self, rows: RowSums, size: int) -> None:
        self.rows, self._size = rows, size
        self._generator = np.random.default_rng(0)
        self._parts: list[tuple[NDArray[Any] | None, ...]] = []
        self._predictions: Predictions | None = None
        self._n_kept = 0

    def __call__(self, rows: CodedRows) -> None:
        """Add a batch."""
        self.rows(rows)
        if rows.data is None:
            return
        data, groups = rows.data, rows.groups
        self._predictions = self._predictions or data.predictions.take(slice(0, 1))
        if groups is None:
            keys, names = self._generator.random(data.n_rows), None
        else:
            of_group = [zlib.crc32(f"sample {name}".encode()) for name in groups.values.tolist()]
            keys, names = np.array(of_group, dtype=np.float64)[groups.codes], groups.array
        labels = data.classes[data.labels]
        self._parts.append((keys, data.predictions.scores, labels, data.weights, names))
        self._n_kept += data.n_rows
        if self._n_kept > 2 * self._size:
            self._shorten()

    def sample(self) -> tuple[Predictions, NDArray[Any], Any, Any]:
        """Return predictions, labels, weights and groups of the rows that were drawn."""
        keys, scores, labels, weights, groups = self._shorten()
        assert self._predictions is not None
        assert keys is not None
        assert scores is not None
        assert labels is not None
        if self._n_kept < self.rows.sums.n_rows and groups is not None:
            # The last group may have lost some of its rows.
            complete = keys < keys.max()
            if complete.any():
                scores, labels, groups = scores[complete], labels[complete], groups[complete]
                weights = None if weights is None else weights[complete]
        given = Predictions(read_only(scores), self._predictions.space, self._predictions.classes)
        return given, labels, weights, groups

    def _shorten(self) -> tuple[NDArray[Any] | None, ...]:
        """Join all parts, and keep the rows with the smallest numbers, in the order of the file."""
        joined = tuple(
            None if columns[0] is None else np.concatenate(columns)
            for columns in zip(*self._parts, strict=True)
        )
        keys = joined[0]
        assert keys is not None
        if len(keys) > self._size:
            kept = np.sort(np.argpartition(keys, self._size)[: self._size])
            joined = tuple(None if column is None else column[kept] for column in joined)
        self._parts, self._n_kept = [joined], min(len(keys), self._size)
        return joined
