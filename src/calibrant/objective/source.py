"""Sources of labelled predictions that a fit can read more than once: arrays, memory maps, batches."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.errors import LabelError, PredictionError, WeightError
from calibrant.labelled_predictions import LARGEST_WEIGHT, NO_SUM, SMALLEST_WEIGHT, LabelledPredictions
from calibrant.numerics.row_blocks import State
from calibrant.objective.rows import ArrayRows, FeatureRows, StreamedRows
from calibrant.predictions import FLOOR_WITHOUT_ZEROS, Predictions
from calibrant.space import Space

__all__ = ["ArraySource", "BatchSource", "RowSource", "floor_of"]

Features = Callable[[Predictions], FloatArray]
Labels = Callable[[NDArray[np.intp]], NDArray[Any]]

BATCH_ENTRIES = 2**20  # of a memory map that are read at a time


class RowSource(ABC):
    """Labelled predictions of K classes that can be read any number of times, always the same rows.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        Label of every column.
    n_rows : int
    total_weight : float
        Sum of the weights; the number of rows without.
    class_weights : ndarray of shape (K,)
        Total weight of the rows of every class.
    is_weighted : bool
        Whether rows have weights.
    first : LabelledPredictions
        Some of the rows, for what all rows have in common: space, names, floor and float type.
    """

    classes: NDArray[Any]
    n_rows: int
    total_weight: float
    class_weights: Vector
    is_weighted: bool
    first: LabelledPredictions

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    @abstractmethod
    def features(self, features: Features, labels: Labels | None = None) -> FeatureRows:
        """Return features and labels, the latter as column numbers or what ``labels`` makes of them."""

    @abstractmethod
    def mapped(self, change: Callable[[LabelledPredictions], LabelledPredictions]) -> "RowSource":
        """Return the source with every batch replaced; the number of rows must stay."""

    @abstractmethod
    def summed(self, contribution: Callable[[LabelledPredictions], State]) -> State:
        """Return the sum of what every batch contributes."""

    @abstractmethod
    def per_row(
        self, compute: Callable[[LabelledPredictions], NDArray[Any]], dtype: Any = np.float64
    ) -> NDArray[Any]:
        """Return a number of every row, (n,), in memory and in the order of the rows."""

    def with_counting_weights(self) -> "RowSource":
        """Return the same rows with weights that average at least one, for methods that count rows."""
        mean = self.total_weight / self.n_rows
        if mean >= 1:
            return self
        return self.mapped(
            lambda data: replace(data, weights=None if data.weights is None else data.weights / mean)
        )

    @staticmethod
    def from_batches(
        batches: Iterable[Any] | Callable[[], Iterable[Any]], *, classes: Any = None
    ) -> "BatchSource":
        """Return a source that reads batches ``(X, y)`` or ``(X, y, sample_weight)`` again for every pass.

        A batch in which no row counts, since all weights are zero or all labels are the ignored one, is passed over.

        Parameters
        ----------
        batches : iterable or callable
            A collection that can be iterated any number of times, or a function that returns a new iterator. X is as
            in :meth:`calibrant.Calibrator.fit`.
        classes : sequence of K labels, optional
            Labels of the columns, in their order; needed if labels are not column numbers.

        Examples
        --------
        >>> batches = [([[0.9, 0.1], [0.2, 0.8]], [0, 1]), ([[0.6, 0.4]], [1])]
        >>> source = RowSource.from_batches(batches)
        >>> source.n_rows, source.class_weights
        (3, array([1., 2.]))
        """
        if isinstance(batches, Iterator):
            raise PredictionError(
                "batches can be read only once, but a fit needs several passes; pass a list, or a function that returns a "
                "new iterator."
            )

        def read() -> Iterator[LabelledPredictions]:
            for batch in batches() if callable(batches) else batches:
                X, y, *weights = batch
                if np.shape(X)[:1] == (0,):
                    continue
                data = _parsed(Predictions.parse(X), y, weights[0] if weights else None, classes)
                if data is not None:
                    yield data

        return BatchSource(read)

    @staticmethod
    def from_arrays(
        scores: Any,
        labels: Any,
        sample_weight: Any = None,
        *,
        space: Literal["probabilities", "logits"] = "probabilities",
        classes: Any = None,
    ) -> "BatchSource":
        """Return a source over arrays that need not fit into memory, such as memory maps, read in blocks.

        Parameters
        ----------
        scores : array of shape (n, K)
        labels : array of shape (n,)
        sample_weight : array of shape (n,), optional
        space : {"probabilities", "logits"}
            Space of the scores.
        classes : sequence of K labels, optional
            Labels of the columns, in their order; needed if labels are not column numbers.
        """
        if len(scores) != len(labels):
            raise LabelError(
                f"there are {len(scores)} rows of predictions but {len(labels)} labels; pass one label per row."
            )
        parse = Predictions.from_logits if Space(space) is Space.LOGITS else Predictions.from_probabilities
        step = max(1, BATCH_ENTRIES // max(1, int(np.prod(np.shape(scores)[1:]))))

        def read() -> Iterator[LabelledPredictions]:
            for start in range(0, len(scores), step):
                rows = slice(start, start + step)
                weights = None if sample_weight is None else sample_weight[rows]
                data = _parsed(parse(scores[rows]), labels[rows], weights, classes)
                if data is not None:
                    yield data

        return BatchSource(read)


class ArraySource(RowSource):
    """Rows in memory."""

    def __init__(self, data: LabelledPredictions) -> None:
        self.data = self.first = data
        self.classes, self.n_rows = data.classes, data.n_rows
        self.is_weighted = data.weights is not None

    @cached_property
    def total_weight(self) -> float:  # type: ignore[override]
        return self.data.total_weight

    @cached_property
    def class_weights(self) -> Vector:  # type: ignore[override]
        return self.data.class_weights

    def features(self, features: Features, labels: Labels | None = None) -> ArrayRows:
        return _feature_rows(self.data, features, labels)

    def summed(self, contribution: Callable[[LabelledPredictions], State]) -> State:
        return contribution(self.data)

    def per_row(
        self, compute: Callable[[LabelledPredictions], NDArray[Any]], dtype: Any = np.float64
    ) -> NDArray[Any]:
        return compute(self.data).astype(dtype, copy=False)

    def mapped(self, change: Callable[[LabelledPredictions], LabelledPredictions]) -> "ArraySource":
        return ArraySource(change(self.data))


@dataclass(frozen=True)
class _Facts:
    """Statistics of all rows that a fit needs in advance; those of two sets of rows add up."""

    n_rows: int
    class_weights: Vector
    smallest: float
    has_zero: bool
    is_weighted: bool
    weight_range: tuple[float, float]

    @classmethod
    def of(cls, data: LabelledPredictions) -> Self:
        smallest, has_zero = np.inf, False
        if data.predictions.space is Space.PROBABILITIES:
            scores = data.predictions.scores
            smallest = float(scores.min())
            has_zero = smallest == 0
            if has_zero:
                smallest = float(scores.min(where=scores > 0, initial=np.inf))
        weights = np.ones(1) if data.weights is None else data.weights
        weight_range = float(weights.min()), float(weights.max())
        return cls(
            data.n_rows, data.class_weights, smallest, has_zero, data.weights is not None, weight_range
        )

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.n_rows + other.n_rows,
            self.class_weights + other.class_weights,
            min(self.smallest, other.smallest),
            self.has_zero or other.has_zero,
            self.is_weighted or other.is_weighted,
            (
                min(self.weight_range[0], other.weight_range[0]),
                max(self.weight_range[1], other.weight_range[1]),
            ),
        )

    def floor(self, n_classes: int) -> float:
        """Return the floor for zeros of all rows."""
        return floor_of(self.smallest, self.has_zero, n_classes)


def floor_of(smallest: float, has_zero: bool, n_classes: int) -> float:
    """Return the floor for zeros from the smallest positive probability, as :attr:`Predictions.floor` has it."""
    floor = smallest / 2 if has_zero else min(smallest / 2, FLOOR_WITHOUT_ZEROS)
    return max(min(floor, 0.5 / n_classes), float(np.nextafter(0, 1)))


class BatchSource(RowSource):
    """Rows that are read again for every pass, batch by batch; memory holds one batch at a time.

    Parameters
    ----------
    read : callable
        Returns an iterator over :class:`~calibrant.labelled_predictions.LabelledPredictions`, the same rows every time.
    """

    def __init__(self, read: Callable[[], Iterator[LabelledPredictions]]) -> None:
        self._read = read
        first: LabelledPredictions | None = None
        facts: list[_Facts] = []
        for number, data in enumerate(read()):
            if first is None:
                first = data
            elif data.n_classes != first.n_classes or data.predictions.space is not first.predictions.space:
                raise PredictionError(
                    f"batch {number} has {data.n_classes} columns of {data.predictions.space.value}, but the first has "
                    f"{first.n_classes} of {first.predictions.space.value}; pass the same columns in every batch."
                )
            with np.errstate(over="ignore"):
                facts = [reduce(add, [*facts, _Facts.of(data)])]
        if first is None:
            raise PredictionError("there are no batches with rows that count; at least one row is needed.")
        (found,) = facts
        with np.errstate(over="ignore"):
            if not np.isfinite(found.class_weights.sum()):
                raise WeightError(NO_SUM)
        self.classes, self.n_rows = first.classes, found.n_rows
        self._floor, self.is_weighted = found.floor(first.n_classes), found.is_weighted
        smallest, self._largest_weight = found.weight_range
        self.first = self._completed(first)
        self.class_weights = found.class_weights
        if not (
            SMALLEST_WEIGHT * self._largest_weight <= smallest
            and 1 / LARGEST_WEIGHT <= self._largest_weight <= LARGEST_WEIGHT
        ):
            # The weights of the fit are bounded, those of the sum above are not.
            self.class_weights = self.summed(lambda data: data.class_weights)
        self.total_weight = float(self.class_weights.sum())

    def _completed(self, data: LabelledPredictions) -> LabelledPredictions:
        """Return a batch with what follows from all batches: the floor and the bounds of weights."""
        if data.predictions.declared_floor is None:
            data = replace(data, predictions=data.predictions.with_floor(self._floor))
        if self.is_weighted and data.weights is None:
            data = replace(data, weights=np.ones(data.n_rows))
        return data.with_bounded_weights(self._largest_weight)

    def batches(self) -> Iterator[LabelledPredictions]:
        """Read all batches once."""
        return map(self._completed, self._read())

    def features(self, features: Features, labels: Labels | None = None) -> StreamedRows:
        some = features(self.first.predictions.take(slice(0, 1)))

        def read() -> Iterator[ArrayRows]:
            return (_feature_rows(data, features, labels) for data in self.batches())

        return StreamedRows(read, self.n_rows, some.shape[1], self.total_weight, some.dtype)

    def summed(self, contribution: Callable[[LabelledPredictions], State]) -> State:
        return reduce(add, map(contribution, self.batches()))

    def per_row(
        self, compute: Callable[[LabelledPredictions], NDArray[Any]], dtype: Any = np.float64
    ) -> NDArray[Any]:
        numbers, start = np.empty(self.n_rows, dtype), 0
        for data in self.batches():
            numbers[start : start + data.n_rows] = compute(data)
            start += data.n_rows
        return numbers

    def mapped(self, change: Callable[[LabelledPredictions], LabelledPredictions]) -> "BatchSource":
        return BatchSource(lambda: (change(data) for data in self.batches()))


def _feature_rows(data: LabelledPredictions, features: Features, labels: Labels | None) -> ArrayRows:
    wanted = data.labels if labels is None else labels(data.labels)
    return ArrayRows(features(data.predictions), wanted, data.weights)


def _parsed(predictions: Predictions, y: Any, sample_weight: Any, classes: Any) -> LabelledPredictions | None:
    """Parse one batch, None if no row counts; a class that it lacks must not change what the others mean."""
    if classes is not None:
        predictions = replace(predictions, classes=np.asarray(classes))
    data = LabelledPredictions.parse_batch(predictions, y, sample_weight)
    if data is None:
        return None
    known = np.arange(data.n_classes) if predictions.classes is None else predictions.classes
    if not np.array_equal(data.classes, known):
        raise LabelError(
            f"labels {data.classes.tolist()} are not column numbers; pass classes=[...] with the label of every column."
        )
    return data
