"""The rows of one event: what was said of it, and whether it happened."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import columns, confidences
from calibrant.metrics.utility import OneClass, TopClasses, Utility
from calibrant.options import check_choice
from calibrant.wording import class_text

__all__ = ["EventKind", "EventRows"]

EventKind = Literal["auto", "confidence", "positive", "class", "top-label"]
"""``"confidence"``: the predicted class being right, by the confidence in it. ``"positive"``: the second class of two
by its probability. ``"class"``: the class ``label`` by its probability. ``"top-label"``: the predicted class being
right, among the rows that predict ``label``. ``"auto"``: ``"positive"`` for two classes, else ``"confidence"``."""


@dataclass(frozen=True, eq=False)
class EventRows:
    """Scores and outcomes of one event.

    Attributes
    ----------
    kind : str
        Any :data:`EventKind` but ``"auto"``.
    name : str
        The event in words, such as ``"predicted class"`` or ``"class 'cat'"``.
    utility : Utility
        The event for the tests by cumulative residuals.
    data : LabelledPredictions
        The rows that take part.
    scores : ndarray of shape (n,)
        Probability that was given to the event, in its own float type.
    happened : ndarray of shape (n,)
    """

    kind: str
    name: str
    utility: Utility
    data: LabelledPredictions
    scores: NDArray[np.floating]
    happened: NDArray[np.bool_]

    @classmethod
    def of(cls, data: LabelledPredictions, kind: EventKind = "auto", label: Any = None) -> Self:
        """Choose an event; ``label`` is for the kinds "class" and "top-label" and none else."""
        check_choice("kind", kind, get_args(EventKind))
        if kind in ("class", "top-label"):
            column = column_of(data, label, kind)
            return cls.of_class(data, column) if kind == "class" else cls.of_predicted(data, column)
        if label is not None:
            raise ParameterError(
                f"label is for kind='class' and kind='top-label', not for kind={kind!r}; leave it out."
            )
        if kind == "positive" and data.n_classes != 2:
            raise ParameterError(
                f"kind='positive' is for two classes, but there are {data.n_classes}; use kind='class' with label=."
            )
        if kind == "confidence" or data.n_classes != 2:
            right = data.predictions.predicted == data.labels
            return cls(
                "confidence", "predicted class", TopClasses(1), data, confidences(data.predictions), right
            )
        positive = cls.of_class(data, 1)
        return cls("positive", positive.name, positive.utility, data, positive.scores, positive.happened)

    @classmethod
    def of_class(cls, data: LabelledPredictions, column: int) -> Self:
        """Take the class of a column by its own probability."""
        scores = data.predictions.probabilities[:, column]
        name = class_text(data.classes[column])
        return cls("class", name, OneClass(column), data, scores, data.labels == column)

    @classmethod
    def every_class(cls, data: LabelledPredictions) -> Iterator[Self]:
        """Yield the rows of one class after another; of many classes faster than :meth:`of_class` for each."""
        for column, scores in enumerate(columns(data.predictions)):
            name = class_text(data.classes[column])
            yield cls("class", name, OneClass(column), data, scores, data.labels == column)

    @classmethod
    def every_predicted(cls, data: LabelledPredictions) -> Iterator[Self]:
        """Yield the rows that predict one class after another, of those that some row predicts."""
        for column in np.unique(data.predictions.predicted).tolist():
            yield cls.of_predicted(data, column)

    @classmethod
    def of_predicted(cls, data: LabelledPredictions, column: int) -> Self:
        """Take the rows that predict the class of a column, by their confidence."""
        name = class_text(data.classes[column])
        rows = data.predictions.predicted == column
        if not rows.any():
            raise ParameterError(
                f"no row predicts {name}, so nothing can be said of it; choose another label."
            )
        chosen = data.take(rows)
        scores = confidences(chosen.predictions)
        return cls("top-label", f"predicted {name}", TopClasses(1), chosen, scores, chosen.labels == column)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.data.n_rows

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """Weights of the rows, (n,), or None."""
        return self.data.weights


def column_of(data: LabelledPredictions, label: Any, kind: str) -> int:
    """Return the column of a class, or say which classes there are."""
    column = np.flatnonzero(data.classes == label)
    if label is None or len(column) != 1:
        known = data.classes[:20].tolist()
        more = f" and {data.n_classes - 20} more" if data.n_classes > 20 else ""
        raise ParameterError(f"kind={kind!r} needs label=, one of the classes {known}{more}, not {label!r}.")
    return int(column[0])
