"""The events that a metric assesses: their scores, their outcomes, and the classes that they refer to."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array, FloatArray, IntArray, Matrix
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.simplex import softmax
from calibrant.options import check_choice
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__: list[str] = []


Kind = Literal["confidence", "classwise", "positive"]
"""``"confidence"``: the predicted class, by its confidence. ``"classwise"``: every class by its own probability,
mean over classes. ``"positive"``: the second class of two by its probability."""

Error = Callable[[FloatArray, NDArray[np.bool_], Float64Array | None], float]
"""A calibration error of one column: scores, outcomes and weights, each of shape (n,)."""

# Columns are read in groups: reading one column of a row-major array touches as much memory as reading sixteen.
COLUMNS_AT_A_TIME = 16


def check_kind(kind: Any) -> None:
    """Raise on an unknown kind of event."""
    check_choice("kind", kind, get_args(Kind))


def check_two_classes(n_classes: int, instead: str = "kind='classwise'") -> None:
    """Raise if ``kind="positive"`` is undefined, since there are not two classes."""
    if n_classes != 2:
        raise ParameterError(f"kind='positive' is for two classes, but there are {n_classes}; use {instead}.")


def float64_probabilities(predictions: Predictions, rows: slice) -> Matrix:
    """Return probabilities of some rows in float64, (b, K), a copy; logits are converted in float64."""
    block = predictions.scores[rows].astype(np.float64)
    return np.asarray(softmax(block), dtype=np.float64) if predictions.space is Space.LOGITS else block


def confidences(predictions: Predictions) -> FloatArray:
    """Return the probability of the predicted class of every row, (n,), in its own float type."""
    return predictions.probabilities[np.arange(predictions.n_rows), predictions.predicted]


def columns(predictions: Predictions) -> Iterator[FloatArray]:
    """Yield the probabilities of one class after another, each (n,) and contiguous; O(n) memory."""
    for first in range(0, predictions.n_classes, COLUMNS_AT_A_TIME):
        group = predictions.probabilities[:, first : first + COLUMNS_AT_A_TIME]
        yield from np.ascontiguousarray(group.T)


def events(data: LabelledPredictions, kind: Kind) -> Iterator[tuple[FloatArray, NDArray[np.bool_]]]:
    """Yield scores and outcomes, (n,) each, of the one event of this kind or of every class in turn."""
    check_kind(kind)
    if kind == "confidence":
        yield confidences(data.predictions), data.predictions.predicted == data.labels
    elif kind == "positive":
        check_two_classes(data.n_classes)
        yield data.predictions.probabilities[:, 1], data.labels == 1
    else:
        for k, column in enumerate(columns(data.predictions)):
            yield column, data.labels == k


def mean_over_events(data: LabelledPredictions, kind: Kind, error: Error) -> float:
    """Return the error of the one event of this kind, or the mean of the errors of all classes."""
    return float(np.mean([error(scores, hits, data.weights) for scores, hits in events(data, kind)]))


ALL_ROWS = slice(None)


@dataclass(frozen=True, eq=False)
class EventScores:
    """Scores of S events in every row, with the class to which each refers."""

    scores: FloatArray  # (n, S) probabilities in their own float type
    targets: IntArray  # (n, S), or (S,) if the classes are the same in all rows
    binned_by_class: bool = False  # whether scores of different classes are binned separately

    def hits(self, labels: IntArray) -> NDArray[np.bool_]:
        """Return whether the class of each score occurred, (n, S)."""
        matches: NDArray[np.bool_] = self.targets == labels[:, np.newaxis]
        return matches


class EventChoice(ABC):
    """The choice of S events per row, such as the predicted class or every class."""

    binned_by_class: bool = False
    """Whether scores that refer to different classes are binned separately."""

    @abstractmethod
    def n_events(self, n_classes: int) -> int:
        """Return the number of events, S."""

    @abstractmethod
    def __call__(self, predictions: Predictions, rows: slice = ALL_ROWS) -> EventScores:
        """Return the events of some rows."""

    def columns(self, predictions: Predictions) -> Iterator[tuple[FloatArray, IntArray]]:
        """Yield one event after another for all rows: scores (n,) and targets (n,) or ()."""
        events = self(predictions)
        for column, scores in enumerate(np.ascontiguousarray(events.scores.T)):
            yield scores, events.targets[..., column]


@dataclass(frozen=True)
class PredictedClass(EventChoice):
    """One event: the most probable class, binned for all rows together or per predicted class."""

    binned_by_class: bool = False

    def n_events(self, n_classes: int) -> int:  # noqa: ARG002
        return 1

    def __call__(self, predictions: Predictions, rows: slice = ALL_ROWS) -> EventScores:
        predicted = predictions.predicted[rows, np.newaxis]
        scores = np.take_along_axis(predictions.probabilities[rows], predicted, axis=1)
        return EventScores(scores, predicted, self.binned_by_class)


@dataclass(frozen=True)
class SingleClass(EventChoice):
    """One event: the class of a given column."""

    column: int

    def n_events(self, n_classes: int) -> int:  # noqa: ARG002
        return 1

    def __call__(self, predictions: Predictions, rows: slice = ALL_ROWS) -> EventScores:
        chosen = slice(self.column, self.column + 1)
        return EventScores(predictions.probabilities[rows, chosen], np.array([self.column]))


@dataclass(frozen=True)
class EveryClass(EventChoice):
    """One event for each class, in the order of the columns."""

    def n_events(self, n_classes: int) -> int:
        return n_classes

    def __call__(self, predictions: Predictions, rows: slice = ALL_ROWS) -> EventScores:
        return EventScores(predictions.probabilities[rows], np.arange(predictions.n_classes))

    def columns(self, predictions: Predictions) -> Iterator[tuple[FloatArray, IntArray]]:
        for column, scores in enumerate(columns(predictions)):
            yield scores, np.array(column)


@dataclass(frozen=True)
class TopRanks(EventChoice):
    """One event for each of the k most probable classes of a row, in descending order."""

    k: int
    binned_by_class: bool = False

    def n_events(self, n_classes: int) -> int:
        return min(self.k, n_classes)

    def __call__(self, predictions: Predictions, rows: slice = ALL_ROWS) -> EventScores:
        block = predictions.probabilities[rows]
        ranked = _largest(block, self.n_events(predictions.n_classes))
        return EventScores(np.take_along_axis(block, ranked, axis=1), ranked, self.binned_by_class)


def _largest(matrix: FloatArray, k: int) -> IntArray:
    """Return the columns of the k largest entries of every row, the largest first; O(nk) memory."""
    largest = np.empty((len(matrix), k), dtype=np.intp)
    for rows in row_blocks(*matrix.shape):
        largest[rows] = _largest_in_block(matrix[rows], k)
    return largest


def _largest_in_block(block: FloatArray, k: int) -> IntArray:
    """Return the columns of the largest entries of every row; ties go to the first column."""
    if k < block.shape[1] // 4:
        # Only the k largest are sorted, with columns in order first, so that the stable sort resolves ties.
        chosen = np.sort(np.argpartition(-block, k - 1, axis=1)[:, :k], axis=1)
        order = np.argsort(-np.take_along_axis(block, chosen, axis=1), axis=1, kind="stable")
        return np.take_along_axis(chosen, order, axis=1)
    return np.argsort(-block, axis=1, kind="stable")[:, :k]
