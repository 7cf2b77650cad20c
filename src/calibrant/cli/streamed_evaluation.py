"""Metrics with jackknife intervals from one pass over a file, in constant memory."""

import zlib
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.cli.measurement import Measurement, rooted
from calibrant.cli.metric_choice import Metric, name_of
from calibrant.cli.score_meaning import check_declared
from calibrant.cli.waiting import Waiting
from calibrant.errors import ParameterError, WeightError
from calibrant.metrics.declaration import describe, options_of
from calibrant.streaming import JackknifeEstimate, JackknifeSums
from calibrant.tables.prediction_file import CodedRows, PredictionFile

__all__ = ["Streamed", "measured_in_batches"]


class Streamed(NamedTuple):
    """Results of one pass over the rows."""

    measurements: list[Measurement]
    n_rows: int
    not_computed: list[str]


class _StreamedMetric(NamedTuple):
    """A metric as it can be summed over rows, and as it is shown."""

    shown: Metric
    summed: Metric
    is_square: bool

    @classmethod
    def of(cls, metric: Metric) -> "_StreamedMetric":
        """Return the streaming form of a metric; raise ParameterError if there is none."""
        shown, is_square = metric, False
        if name_of(metric) == "debiased_ece":
            options = options_of(metric)
            if options["strategy"] == "quantile" and options["binning"] is None:
                shown = partial(metric, strategy="uniform")  # equal-mass bins need all scores
            # For good predictions the clipped root of a debiased square is zero, so the interval is that of the square.
            is_square = not options["signed"] and options["norm"] == 2
        summed = partial(shown, signed=True) if is_square else shown
        JackknifeSums([summed])  # raises
        return cls(shown, summed, is_square)

    def measurement(self, found: JackknifeEstimate, level: float, n_rows: int) -> Measurement:
        """Return the value with its interval."""
        ends = (found.value, *found.interval(level))
        how = f"jackknife over {found.n_parts} random parts of the rows"
        if self.is_square:
            ends = (rooted(ends[0]), rooted(ends[1]), rooted(ends[2]))
            how += ", square roots of the interval of the square"
        return Measurement(name_of(self.shown), *ends, None, None, describe(self.shown), how, n_rows)


class _Sums:
    """Visitor of the batches of a file that sums all metrics."""

    def __init__(self, predictions: PredictionFile, metrics: list[Metric], waiting: Waiting) -> None:
        self.sums = JackknifeSums(metrics)
        self.n_rows = 0
        self._predictions, self._waiting = predictions, waiting
        self._generator = np.random.default_rng(0)

    def __call__(self, rows: CodedRows) -> None:
        if self.n_rows == 0 and rows.data is not None:
            check_declared(self._predictions.path, rows.data.predictions)
        self.n_rows += rows.n_rows
        self._waiting.rows(self.n_rows)
        if rows.data is not None:
            data = rows.data.with_bounded_weights()
            self.sums.update(data, self._parts(rows, data.n_rows))

    def _parts(self, rows: CodedRows, n_rows: int) -> NDArray[np.intp]:
        """Return the part of every row; rows of a group are in the same part, wherever they are in the file."""
        if rows.groups is None:
            return self._generator.integers(0, self.sums.n_parts, n_rows)
        hashes = [zlib.crc32(str(name).encode()) % self.sums.n_parts for name in rows.groups.values.tolist()]
        return np.array(hashes, dtype=np.intp)[rows.groups.codes]


def measured_in_batches(
    predictions: PredictionFile, metrics: list[Metric], level: float, waiting: Waiting
) -> Streamed:
    """Return every metric that is a function of sums over rows, with its interval, in constant memory.

    Each row, or each group, is assigned at random to one of a hundred parts. Intervals come from the delete-a-group
    jackknife over these parts, which is valid for means and binned errors.
    """
    found, not_computed = [], []
    for metric in metrics:
        try:
            found.append(_StreamedMetric.of(metric))
        except ParameterError:
            not_computed.append(name_of(metric))
        else:
            if found[-1].shown is not metric:
                not_computed.append(f"equal-mass bins of {name_of(metric)} (equal-width bins instead)")
    visitor = predictions.visit(lambda: _Sums(predictions, [one.summed for one in found], waiting))
    assert isinstance(visitor, _Sums)
    if visitor.sums.n_rows == 0:
        raise WeightError(f"{predictions.path}: all weights are zero; at least one must be positive.")
    estimates = visitor.sums.results()
    measurements = [
        one.measurement(estimate, level, visitor.sums.n_rows)
        for one, estimate in zip(found, estimates, strict=True)
    ]
    return Streamed(measurements, visitor.n_rows, not_computed)
