"""Accumulator: a metric collected batch by batch, or on many machines, in constant memory."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import LabelError, ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import MetricParts, declared_metrics, describe, parts_of
from calibrant.origin import on_host
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["Accumulator", "RunningMetric", "streaming_metrics"]


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
        # Made anew, since its functions cannot be pickled.
        parts = parts_of(self._metric)
        if parts is None:
            raise ParameterError(
                f"{self.definition} needs all rows at once; {streaming_metrics()} can be collected in batches."
            )
        return parts

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
        self._parse = partial(
            Predictions.from_logits if space == Space.LOGITS else Predictions.from_probabilities,
            class_axis=class_axis,
            ignore_label=ignore_label,
        )
        self._accumulator = self._new()

    def update(self, preds: Any, target: Any, sample_weight: Any = None) -> None:
        """Add a batch: scores (n, K), or of more axes, and true classes; a batch that is refused changes nothing."""
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
