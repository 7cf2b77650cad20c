"""Evaluate predictions in partitions: metrics that are functions of sums over rows, with jackknife intervals."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import nan, sqrt
from typing import Any, Self

import numpy as np
from scipy.special import stdtrit

from calibrant.distributed.engine import TreeSum
from calibrant.distributed.layout import layout_of
from calibrant.distributed.opening import EngineName, engine_of
from calibrant.distributed.source import PartitionedSource, parts_of_rows
from calibrant.errors import ParameterError
from calibrant.intervals import Interval
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import (
    NO_INTERVAL,
    MetricParts,
    declared_metrics,
    describe,
    is_positive_by_noise,
    options_of,
    parts_of,
)
from calibrant.options import check_level
from calibrant.streaming import streaming_metrics

__all__ = ["Metric", "evaluate", "intervals_of", "metrics_by_name"]

Metric = Callable[..., Any]

N_PARTS = 100

DEFAULT = ("log_loss", "brier_score", "accuracy", "confidence_ece", "classwise_ece")


def evaluate(
    frame: Any,
    *,
    label: str,
    columns: str | Sequence[str],
    space: str,
    metrics: Sequence[str | Metric] | None = None,
    sample_weight: str | None = None,
    key: str | None = None,
    classes: Sequence[Any] | None = None,
    level: float = 0.95,
    engine: EngineName | None = None,
) -> dict[str, Interval]:
    """Return metrics of rows in partitions, each with a confidence interval.

    Parameters
    ----------
    frame, label, columns, space, sample_weight, classes, engine
        As in :func:`~calibrant.distributed.fit`.
    metrics : sequence of str or function, optional
        Names out of :func:`calibrant.streaming.streaming_metrics`, functions, or ``functools.partial`` of them with options.
        Log-loss, Brier score, accuracy, confidence-ECE and classwise-ECE by default.
    key : str, optional
        Column that says which rows belong together; the interval then treats keys, not rows, as independent.
    level : float, default=0.95
        Confidence level.

    Returns
    -------
    dict of str to Interval
        By the name of the metric; for a function with options by its definition.

    Notes
    -----
    Two passes: the first checks the rows, the second adds up all metrics. A hash of the row, or of its key, assigns it to one
    of 100 parts; the interval is that of the delete-a-group jackknife over these parts, with Student's t. Neither value nor
    interval depends on the partitioning. Binned errors have no interval, since they are positive by noise alone; the
    debiased error, such as ``partial(debiased_ece, signed=True, strategy="uniform")``, has one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"p_0": [0.9] * 4, "p_1": [0.1] * 4, "y": [0, 0, 0, 1]})
    >>> found = evaluate(table, label="y", columns="p_*", space="probabilities", metrics=["accuracy"])
    >>> found["accuracy"].estimate
    0.75
    """
    check_level(level)
    chosen = metrics_by_name(DEFAULT if metrics is None else metrics)
    partitions = engine_of(frame, engine)
    layout = layout_of(partitions.schema, columns, space, label=label, weight=sample_weight, key=key)
    return intervals_of(PartitionedSource.of(partitions, layout, classes), chosen, level)


def intervals_of(source: PartitionedSource, metrics: dict[str, Metric], level: float) -> dict[str, Interval]:
    """Return the intervals of metrics by name, from one pass."""
    functions = list(metrics.values())
    found = source.summed(partial(_PartSums.of, functions))
    sums = found.in_order()
    return {
        name: _interval(function, [part[place] for part in sums], level, source.n_rows)
        for place, (name, function) in enumerate(metrics.items())
    }


def metrics_by_name(metrics: Sequence[str | Metric]) -> dict[str, Metric]:
    """Return functions by name; refuse what needs all rows at once."""
    known = declared_metrics()
    found: dict[str, Metric] = {}
    for metric in metrics:
        if isinstance(metric, str):
            if metric not in known:
                raise ParameterError(
                    f"there is no metric {metric!r}; in partitions there are {streaming_metrics()}."
                )
            function: Metric = known[metric]
            if options_of(function).get("strategy") == "quantile" and metric in streaming_metrics():
                function = partial(function, strategy="uniform")  # equal-mass bins need all scores
            name = metric
        else:
            function, name = metric, describe(metric)
        _parts(function).check_batches()
        found[name] = function
    return found


def _parts(function: Metric) -> MetricParts:
    # Made anew, since its functions cannot be pickled.
    parts = parts_of(function)
    if parts is None:
        raise ParameterError(
            f"{describe(function)} needs all rows at once; in partitions there are {streaming_metrics()}."
        )
    return parts


@dataclass(frozen=True, eq=False)
class _PartSums:
    """Sums of every metric over each part of the rows; those of two sets of rows add up."""

    sums: dict[int, list[Any]]

    @classmethod
    def of(cls, metrics: Sequence[Metric], data: LabelledPredictions) -> Self:
        of_row = parts_of_rows(data, N_PARTS)
        order = np.argsort(of_row, kind="stable")
        bounds = np.searchsorted(of_row[order], np.arange(N_PARTS + 1))
        data = data.take(order)
        parts = [_parts(metric) for metric in metrics]
        return cls(
            {part: [metric.of(some) for metric in parts] for part, some in _slices(data, bounds.tolist())}
        )

    def __add__(self, other: Self) -> Self:
        sums = dict(self.sums)
        for part, theirs in other.sums.items():
            mine = sums.get(part)
            sums[part] = theirs if mine is None else [a + b for a, b in zip(mine, theirs, strict=True)]
        return type(self)(sums)

    def in_order(self) -> list[list[Any]]:
        """Return the sums of all parts that have rows, by their number."""
        return [self.sums[part] for part in sorted(self.sums)]


def _slices(data: LabelledPredictions, bounds: list[int]) -> Iterator[tuple[int, LabelledPredictions]]:
    for part, (start, stop) in enumerate(pairwise(bounds)):
        if stop > start:
            yield part, data.take(slice(start, stop))


def _interval(function: Metric, sums: list[Any], level: float, n_rows: int) -> Interval:
    r"""Return the metric of all rows with its jackknife interval; without one if it is positive by noise alone.

    .. math:: s^2 = \frac{m - 1}{m} \sum_j \bigl( \theta_{(j)} - \bar\theta \bigr)^2

    where :math:`\theta_{(j)}` leaves out part j of m.
    """
    tree: TreeSum[Any] = TreeSum()
    for part in sums:
        tree.add(part)
    metric, definition = _parts(function), describe(function)
    value, m = metric.value(tree.total()), len(sums)
    error = half = nan
    if m > 1 and np.isfinite(value):
        # Cumulative sums before and after each part, so that each part is added only a few times.
        before, after = [sums[0]], [sums[-1]]
        for part in sums[1:-1]:
            before.append(before[-1] + part)
        for part in sums[-2:0:-1]:
            after.append(part + after[-1])
        after.reverse()  # after[j] is the sum of all parts from j + 1 on
        without = [after[0], *(before[j - 1] + after[j] for j in range(1, m - 1)), before[-1]]
        values = np.array([metric.value(part) for part in without])
        error = sqrt((m - 1) / m * ((values - values.mean()) ** 2).sum())
        half = float(stdtrit(m - 1, (1 + level) / 2)) * error
    method = f"jackknife over {m} parts of the rows by hash"
    if is_positive_by_noise(function):
        return Interval(value, nan, nan, level, method, definition, n_rows, error, note=NO_INTERVAL)
    return Interval(value, value - half, value + half, level, method, definition, n_rows, error)
