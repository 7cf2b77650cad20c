"""Data of a report: labels, predictions, weights and groups, with random samples of them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import IntArray
from calibrant.intervals.groups import group_numbers
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions

__all__ = ["Rows", "drawn_by_class", "drawn_rows"]


# Number of rows of each class that a sample keeps at least, if there are as many.
KEPT_OF_CLASS = 500


@dataclass(frozen=True, eq=False)
class Rows:
    """Labels, predictions, weights and groups, parsed once.

    Attributes
    ----------
    data : LabelledPredictions
        Groups, if any, are numbered from 0 without gaps.
    """

    data: LabelledPredictions

    @classmethod
    def parse(cls, y_true: Any, y_proba: Any, sample_weight: Any, groups: Any) -> Self:
        """Validate and parse the inputs; rows of weight zero are dropped."""
        data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
        data = replace(data, predictions=replace(data.predictions, classes=data.classes))
        if groups is not None:
            data = replace(data, groups=group_numbers(groups, len(y_true), sample_weight))
        return cls(data)

    @cached_property
    def labels(self) -> NDArray[Any]:
        """True classes as the user's labels."""
        return self.data.classes[self.data.labels]

    @property
    def predictions(self) -> Predictions:
        """Predictions with named columns."""
        return self.data.predictions

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """Weights, or None for unit weights."""
        return self.data.weights

    @property
    def groups(self) -> IntArray | None:
        """Group number of every row, or None."""
        return self.data.groups

    @property
    def n_groups(self) -> int | None:
        """Number of groups, or None without groups."""
        return None if self.groups is None else len(np.unique(self.groups))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.data.n_rows

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.data.n_classes

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """Labels as strings."""
        return tuple(str(label) for label in self.data.classes.tolist())

    @cached_property
    def n_present(self) -> int:
        """Number of classes that occur."""
        return int(np.count_nonzero(np.bincount(self.data.labels, minlength=self.n_classes)))

    @cached_property
    def confidence(self) -> NDArray[np.float64]:
        """Confidence: probability of the predicted class of every row, at most one."""
        chosen = self.predictions.probabilities[np.arange(self.n_rows), self.predictions.predicted]
        return np.minimum(chosen.astype(np.float64), 1.0)

    @cached_property
    def hits(self) -> NDArray[np.bool_]:
        """Whether the predicted class is correct."""
        return np.equal(self.predictions.predicted, self.data.labels)

    def mean(self, values: NDArray[Any]) -> float:
        """Return a weighted mean over the rows."""
        return float(np.average(values, weights=self.weights))

    def take(self, rows: IntArray | None) -> Self:
        """Return a subset of the rows; all for None."""
        if rows is None:
            return self
        data = self.data.take(rows)
        if data.groups is not None:
            data = replace(data, groups=np.unique(data.groups, return_inverse=True)[1].reshape(-1))
        return type(self)(data)

    def with_predictions(self, predictions: Predictions) -> Self:
        """Return the same rows with other predictions, such as calibrated ones."""
        named = replace(predictions, classes=self.data.classes)
        return type(self)(replace(self.data, predictions=named))

    def one_class(self, column: int) -> Self:
        """Return the one-vs-rest problem of a class, which becomes class 1."""
        probability = np.clip(self.predictions.probabilities[:, column], 0.0, 1.0)
        happened = (self.data.labels == column).astype(np.intp)
        predictions = Predictions.from_probabilities(probability, classes=np.arange(2))
        return type(self)(LabelledPredictions(predictions, happened, np.arange(2), self.weights, self.groups))


def drawn_by_class(rows: Rows, limit: int, random_state: int) -> tuple[IntArray | None, Rows]:
    """Return the indices of a random sample of up to ``limit`` rows (None for all rows), and the sample.

    Up to 500 rows of every rare class are kept. Weights restore the class frequencies, so weighted fits and means estimate
    those of all rows. Groups are sampled as units, whatever their classes.
    """
    drawn = drawn_rows(rows, limit, limit * rows.n_classes, random_state)
    if drawn is None or rows.groups is not None:
        return drawn, rows.take(drawn)
    labels, generator = rows.data.labels, np.random.default_rng(random_state)
    counts = np.bincount(labels, minlength=rows.n_classes)
    least = np.minimum(counts, min(KEPT_OF_CLASS, limit // (2 * rows.n_present)))
    if (counts * limit >= least * rows.n_rows).all():
        return drawn, rows.take(drawn)
    others = counts - least
    wanted = least + (limit - least.sum()) * others // max(int(others.sum()), 1)
    chosen = [
        generator.choice(np.flatnonzero(labels == column), wanted[column], replace=False)
        for column in np.flatnonzero(wanted)
    ]
    drawn = np.sort(np.concatenate(chosen)).astype(np.intp)
    sample = rows.take(drawn)
    weights = (counts / np.maximum(wanted, 1))[sample.data.labels]
    weights *= 1.0 if sample.weights is None else sample.weights
    return drawn, Rows(replace(sample.data, weights=weights / weights.mean()))


def drawn_rows(rows: Rows, most_rows: int, most_numbers: int, random_state: int) -> IntArray | None:
    """Return the sorted indices of a random sample of rows; None if all rows are within the limits.

    If there are groups, they are sampled as units, so sampled and remaining rows share no group.
    """
    limit = max(1, min(most_rows, most_numbers // rows.n_classes))
    if rows.n_rows <= limit:
        return None
    generator = np.random.default_rng(random_state)
    if rows.groups is None:
        return np.sort(generator.choice(rows.n_rows, limit, replace=False, shuffle=False)).astype(np.intp)
    sizes = np.bincount(rows.groups)
    order = generator.permutation(len(sizes))
    enough = max(2, int(np.searchsorted(np.cumsum(sizes[order]), limit, side="right")))
    return np.flatnonzero(np.isin(rows.groups, order[:enough])).astype(np.intp)
