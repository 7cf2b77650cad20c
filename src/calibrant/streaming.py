"""Metrics collected batch by batch, or on many machines, in constant memory, with jackknife intervals."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import nan, sqrt
from operator import add
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from calibrant.arrays import IntArray
from calibrant.errors import LabelError, ParameterError
from calibrant.intervals import Interval
from calibrant.intervals.few_units import OutcomeSums
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import (
    NO_INTERVAL,
    MetricParts,
    declared_metrics,
    describe,
    is_positive_by_noise,
    parts_of,
)
from calibrant.origin import on_host
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["Accumulator", "JackknifeEstimate", "JackknifeSums", "RunningMetric", "streaming_metrics"]


def streaming_metrics() -> list[str]:
    """Return the names of all metrics that can be collected batch by batch.

    >>> "confidence_ece" in streaming_metrics(), "kde_ece" in streaming_metrics()
    (True, False)
    """
    return [name for name, function in declared_metrics().items() if parts_of(function) is not None]


class Accumulator:
    r"""Collect a metric from batches of rows.

    A binned error and a proper score are functions of sums over rows,

    .. math:: m(A \cup B) = v\bigl( s(A) + s(B) \bigr),

    so only the sums s are kept: a few numbers for a score, K times the number of bins for a classwise error,
    whatever the number of rows. The result is that of all rows at once, up to the rounding of the sums.

    Parameters
    ----------
    metric : str or function
        Name of a metric, the function itself, or a ``functools.partial`` of it that sets options.
    classes : sequence of K labels, optional
        Labels of the columns. Needed if labels are not column numbers and a batch can lack some of them.

    Attributes
    ----------
    definition : str
        The metric with all its options.
    n_rows : int
        Number of rows so far; those of weight zero do not count.

    Notes
    -----
    Bins must be known before the first batch: equal width, or ``binning=FixedEdges(...)``. For quantile bins,
    choose the edges from a sample of the scores: ``EqualMass(15)(scores)`` returns them. Accumulators can be
    pickled, sent to where the rows are, and merged in any order. An update costs what the metric costs on the
    batch.

    Examples
    --------
    >>> from functools import partial
    >>> from calibrant.metrics import confidence_ece
    >>> first = Accumulator(partial(confidence_ece, n_bins=10))
    >>> second = Accumulator(partial(confidence_ece, n_bins=10))
    >>> first.update([0, 0, 1], [[0.8, 0.2]] * 3).update([0], [[0.8, 0.2]])
    Accumulator(confidence_ece(n_bins=10, strategy='uniform', norm=1), 4 rows)
    >>> round(first.merge(second.update([0] * 6, [[0.8, 0.2]] * 6)).result(), 6)
    0.1
    """

    def __init__(self, metric: str | Callable[..., Any], *, classes: Any = None) -> None:
        self._metric = _function(metric)
        self._classes = _distinct(classes)
        self._sums: Any = None
        self.definition = describe(self._metric)
        self.n_rows = 0
        self._parts().check_batches()  # refuses what does not add up, and options that are wrong

    def update(self, y_true: Any, y_proba: Any, sample_weight: Any = None) -> Self:
        """Add a batch of rows, which may be empty, and return self; a batch that is refused changes nothing."""
        if np.shape(y_true)[:1] == (0,) and np.shape(y_proba)[:1] == (0,):
            return self
        data = self._parsed(y_true, y_proba, sample_weight)
        if data is None:
            return self
        sums = self._parts().of(data)
        self._sums = sums if self._sums is None else self._sums + sums
        self._classes = data.classes
        self.n_rows += data.n_rows
        return self

    def merge(self, other: "Accumulator") -> Self:
        """Add what another accumulator of the same metric has collected, and return self."""
        if not isinstance(other, Accumulator) or other.definition != self.definition:
            described = other.definition if isinstance(other, Accumulator) else type(other).__name__
            raise ParameterError(
                f"only the same metric can be merged into {self.definition}, not {described}."
            )
        if other._sums is None:
            return self
        self._check_classes(other._classes)
        self._sums = other._sums if self._sums is None else self._sums + other._sums
        self._classes = other._classes
        self.n_rows += other.n_rows
        return self

    def result(self) -> float:
        """Return the metric of all rows so far."""
        if self._sums is None:
            raise ParameterError(f"{self.definition} has no rows yet; call update first.")
        return self._parts().value(self._sums)

    def __repr__(self) -> str:
        return f"Accumulator({self.definition}, {self.n_rows} rows)"

    def _parts(self) -> MetricParts:
        return _parts(self._metric)

    def _parsed(self, y_true: Any, y_proba: Any, sample_weight: Any) -> LabelledPredictions | None:
        predictions = Predictions.parse(y_proba)
        self._check_classes(predictions.classes)
        if self._classes is not None and len(self._classes) != predictions.n_classes:
            self._check_classes(np.arange(predictions.n_classes))
        known = self._classes
        if known is not None and not np.array_equal(known, np.arange(predictions.n_classes)):
            # Column numbers need no names, and give clearer errors without.
            predictions = replace(predictions, classes=known)
        if predictions.ignore_label is not None and np.all(
            np.asarray(on_host(y_true)) == predictions.ignore_label
        ):
            return None
        weights = on_host(sample_weight)
        if np.ndim(weights) > 0 and np.size(weights) and not np.any(weights):
            LabelledPredictions.parse(predictions, y_true, np.ones(np.shape(weights)))
            return None
        data = LabelledPredictions.parse(predictions, y_true, sample_weight)
        self._check_classes(data.classes)
        return data

    def _check_classes(self, classes: NDArray[Any] | None) -> None:
        known = self._classes
        if known is not None and classes is not None and not np.array_equal(known, classes):
            raise LabelError(
                f"the classes of all batches must be the same, but are {classes.tolist()} "
                f"after {known.tolist()}; give the columns of every batch in one order."
            )


class JackknifeEstimate(NamedTuple):
    """A metric of all rows with the standard error of the delete-a-group jackknife.

    Attributes
    ----------
    value : float
    standard_error : float
        NaN if there is only one part, or if the value is not finite.
    n_parts : int
        Number of parts with rows.
    has_interval : bool
        Whether the metric has an interval; False if it is positive by noise alone.
    why_none : str or None
        Why the rows have no interval that keeps its level, such as too few rows of a rare class; None if there is one.
    n_rare : int or None
        Number of rows of the rarer of two classes if it is rare; they limit the degrees of freedom.
    """

    value: float
    standard_error: float
    n_parts: int
    has_interval: bool = True
    why_none: str | None = None
    n_rare: int | None = None

    @property
    def note(self) -> str | None:
        """Why there is no interval, if there is none."""
        if not self.has_interval:
            return NO_INTERVAL
        return None if self.why_none is None else f"no interval, since {self.why_none}"

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the interval from the quantile of Student's t with one degree of freedom less than there are parts.

        NaN for one part, for metrics that are positive by noise alone, such as a binned calibration error, and if
        ``why_none`` gives a reason.
        """
        if self.n_parts < 2 or self.note is not None:
            return nan, nan
        degrees = min(self.n_parts, self.n_parts if self.n_rare is None else self.n_rare) - 1
        half = float(stdtrit(degrees, (1 + level) / 2)) * self.standard_error
        return self.value - half, self.value + half

    def described(
        self, definition: str, level: float, n_rows: int, parts: str = "random parts of the rows"
    ) -> Interval:
        """Return the interval with the definition of the metric."""
        method = f"jackknife over {self.n_parts} {parts}"
        ends = self.interval(level)
        return Interval(
            self.value, *ends, level, method, definition, n_rows, self.standard_error, note=self.note
        )


class JackknifeSums:
    r"""Several metrics with jackknife standard errors, from one pass over the rows.

    The rows are divided into m parts. With :math:`\theta_{(j)}` the metric of all rows except those of part j,

    .. math:: s^2 = \frac{m - 1}{m} \sum_j \bigl( \theta_{(j)} - \bar\theta \bigr)^2

    is the variance of the metric of all rows :cite:`efron1987`. A binned error of calibrated predictions is positive by noise,
    and no interval around it contains the true error, so such metrics have none. Nor is there one, with the reason in
    ``why_none``, for fewer than five rows of a rare class, effectively fewer than five rows by their weights, and where
    effectively fewer than five of the less probable outcomes are expected. For five to ten events of a rare class, 95 % intervals
    of the squared ``debiased_ece`` contain the true value in 86 % of the cases only, see
    :doc:`/promises`. Only sums are kept: for every metric those of an :class:`Accumulator`, times the number of parts.

    Parameters
    ----------
    metrics : sequence of str or function
        As for :class:`Accumulator`.
    n_parts : int, default=100
        Number of parts, m.

    Attributes
    ----------
    definitions : list of str
        The metrics with all their options.
    n_rows : int
        Number of rows so far.

    Notes
    -----
    Assign rows to parts at random, and all rows of a group to the same part. Sums from several machines add up with ``+``.
    An update costs what the metrics cost on the batch, whatever the number of parts.

    Examples
    --------
    For a mean, the jackknife with one row in each part is the usual standard error.

    >>> rows = LabelledPredictions.parse([[0.9, 0.1]] * 10, [0] * 8 + [1] * 2)
    >>> (found,) = JackknifeSums(["accuracy"], 10).update(rows, np.arange(10)).results()
    >>> found.value, round(found.standard_error, 6), round((0.8 * 0.2 / 9) ** 0.5, 6)
    (0.8, 0.133333, 0.133333)
    """

    def __init__(self, metrics: Sequence[str | Callable[..., Any]], n_parts: int = 100) -> None:
        self._metrics = [_function(metric) for metric in metrics]
        self.n_parts = n_parts
        self.definitions = [describe(metric) for metric in self._metrics]
        self._sums: list[tuple[NDArray[np.float64], ...]] = [() for _ in self._metrics]
        self._rows = np.zeros(n_parts, dtype=np.int64)
        self._outcomes: OutcomeSums | None = None
        for metric in self._metrics:
            _parts(metric).check_batches()

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return int(self._rows.sum())

    def update(self, data: LabelledPredictions, part: IntArray) -> Self:
        """Add rows, with the part of every row, and return self."""
        for number, metric in enumerate(self._metrics):
            found = _parts(metric).of_parts(data, part, self.n_parts)
            self._sums[number] = _total(self._sums[number], found)
        self._rows += np.bincount(part, minlength=self.n_parts)
        self._outcomes = _both(self._outcomes, OutcomeSums.of(data) if data.n_rows else None)
        return self

    def __add__(self, other: object) -> "JackknifeSums":
        """Return the sums of both sets of rows."""
        if not isinstance(other, JackknifeSums):
            return NotImplemented
        if (self.definitions, self.n_parts) != (other.definitions, other.n_parts):
            raise ParameterError("only sums of the same metrics and parts can be added; make both alike.")
        both = JackknifeSums(self._metrics, self.n_parts)
        both._sums = [_total(one, another) for one, another in zip(self._sums, other._sums, strict=True)]
        both._rows = self._rows + other._rows
        both._outcomes = _both(self._outcomes, other._outcomes)
        return both

    def results(self) -> list[JackknifeEstimate]:
        """Return the estimate of every metric."""
        if self.n_rows == 0:
            raise ParameterError(f"{', '.join(self.definitions)}: no rows yet; call update first.")
        return [
            self._estimate(_parts(metric), sums, not is_positive_by_noise(metric))
            for metric, sums in zip(self._metrics, self._sums, strict=True)
        ]

    def _estimate(
        self, parts: MetricParts, sums: tuple[NDArray[np.float64], ...], has_interval: bool
    ) -> JackknifeEstimate:
        filled = np.flatnonzero(self._rows)
        n_parts = len(filled)
        value = parts.value(parts.from_arrays(*(each.sum(axis=0) for each in sums)))
        if n_parts < 2 or not np.isfinite(value):
            return JackknifeEstimate(value, nan, n_parts, has_interval)
        assert self._outcomes is not None
        without = [_all_but_one(each[filled]) for each in sums]
        values = np.array(
            [parts.value(parts.from_arrays(*(each[at] for each in without))) for at in range(n_parts)]
        )
        squares = ((values - values.mean()) ** 2).sum()
        error = sqrt((n_parts - 1) / n_parts * squares)
        outcomes = self._outcomes
        return JackknifeEstimate(value, error, n_parts, has_interval, outcomes.why_none, outcomes.n_rare)

    def __repr__(self) -> str:
        return f"JackknifeSums({', '.join(self.definitions)}; {self.n_parts} parts, {self.n_rows} rows)"


def _both(one: OutcomeSums | None, other: OutcomeSums | None) -> OutcomeSums | None:
    return other if one is None else one if other is None else one + other


class RunningMetric:
    """Streaming calibration metric in the manner of torchmetrics: update, compute, reset, merge.

    For training loops and their callbacks. It takes predictions first, as torchmetrics does, and keeps the sums of an
    :class:`Accumulator`, not the rows. It needs neither torch nor torchmetrics.

    Parameters
    ----------
    metric : str or function, default="confidence_ece"
        One of :func:`streaming_metrics`, the function itself, or a ``functools.partial`` of it that sets options.
    space : {"probabilities", "logits"}, default="probabilities"
        What ``preds`` are.
    class_axis : int, optional
        Axis of the classes, for ``preds`` of more than two axes: 1 for (B, K, H, W).
    ignore_label : int or str, optional
        Label of rows that do not count, such as -100.
    classes : sequence of K labels, optional
        Labels of the columns. Needed if labels are not column numbers and a batch can lack some of them.

    Notes
    -----
    It can be pickled. With several processes, gather the objects and :meth:`merge` them, see :doc:`/pytorch`.

    Examples
    --------
    >>> ece = RunningMetric("confidence_ece", space="logits")
    >>> ece.update([[2.0, 0.0], [0.0, 2.0]], [0, 0])
    >>> ece.update([[2.0, 0.0], [2.0, 0.0]], [0, 0])
    >>> round(ece.compute(), 4)
    0.1308
    >>> ece.reset()
    """

    def __init__(
        self,
        metric: str | Callable[..., Any] = "confidence_ece",
        *,
        space: str = "probabilities",
        class_axis: int | None = None,
        ignore_label: int | str | None = None,
        classes: Any = None,
    ) -> None:
        if space not in list(Space):
            raise ParameterError(f"space must be 'probabilities' or 'logits', not {space!r}.")
        self._settings = (metric, classes)
        self._from_array = partial(
            Predictions.from_logits if space == Space.LOGITS else Predictions.from_probabilities,
            class_axis=class_axis,
            ignore_label=ignore_label,
        )
        self._accumulator = self._new()

    def _parse(self, preds: Any) -> Predictions:
        return preds if isinstance(preds, Predictions) else self._from_array(preds)

    def update(self, preds: Any, target: Any, sample_weight: Any = None) -> None:
        """Add a batch: scores (n, K), or of more axes, or :class:`Predictions`, and true classes.

        A batch that is refused changes nothing.
        """
        if not _is_empty(target):
            self._accumulator.update(target, self._parse(preds), sample_weight)

    def compute(self) -> float:
        """Return the metric of all rows since the last :meth:`reset`."""
        return self._accumulator.result()

    def reset(self) -> None:
        """Remove all rows."""
        self._accumulator = self._new()

    def merge(self, other: "RunningMetric") -> Self:
        """Add the rows of another object of the same metric, and return self."""
        self._accumulator.merge(other._accumulator if isinstance(other, RunningMetric) else other)
        return self

    def __call__(self, preds: Any, target: Any, sample_weight: Any = None) -> float:
        """Add a batch and return the metric of that batch alone; NaN if no row of it counts."""
        batch = self._new()
        if not _is_empty(target):
            batch.update(target, self._parse(preds), sample_weight)
        self._accumulator.merge(batch)
        return batch.result() if batch.n_rows else float("nan")

    def __repr__(self) -> str:
        return f"RunningMetric({self._accumulator.definition}, {self._accumulator.n_rows} rows)"

    def _new(self) -> Accumulator:
        metric, classes = self._settings
        return Accumulator(metric, classes=classes)


def _is_empty(labels: Any) -> bool:
    return bool(np.shape(labels)[:1] == (0,))


def _distinct(classes: Any) -> NDArray[Any] | None:
    if classes is None:
        return None
    names = np.asarray(classes)
    if names.ndim != 1 or len(np.unique(names)) != len(names):
        raise ParameterError(f"classes must be different labels, one per column, but are {classes!r}.")
    return names


def _function(metric: str | Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(metric, str):
        return metric
    try:
        return declared_metrics()[metric]
    except KeyError:
        raise ParameterError(
            f"there is no metric {metric!r}; known are {list(declared_metrics())}."
        ) from None


def _parts(metric: Callable[..., Any]) -> MetricParts:
    """Return the parts of a metric; they are not kept, since their functions cannot be pickled."""
    parts = parts_of(metric)
    if parts is None:
        raise ParameterError(
            f"{describe(metric)} needs all rows at once; {streaming_metrics()} can be collected in batches."
        )
    return parts


def _total(
    one: tuple[NDArray[np.float64], ...], other: tuple[NDArray[np.float64], ...]
) -> tuple[NDArray[np.float64], ...]:
    return tuple(map(add, one, other)) if one and other else one or other


def _all_but_one(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of all parts but each one, added up so that no difference of large numbers is taken.

    >>> _all_but_one(np.array([1.0, 2.0, 4.0]))
    array([6., 5., 3.])
    """
    before, after = np.zeros_like(sums), np.zeros_like(sums)
    np.cumsum(sums[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumsum(sums[:0:-1], axis=0)[::-1]
    return before + after
