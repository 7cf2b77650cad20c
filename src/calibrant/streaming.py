"""Accumulator: a metric collected batch by batch, or on many machines, in constant memory."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import LabelError, ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import MetricParts, declared_metrics, describe, parts_of
from calibrant.predictions import Predictions

__all__ = ["Accumulator", "streaming_metrics"]


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
        if np.ndim(sample_weight) == 1 and np.size(sample_weight) and not np.any(sample_weight):
            LabelledPredictions.parse(predictions, y_true, np.ones(len(sample_weight)))
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
