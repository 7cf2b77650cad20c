"""Scores and outcomes of one event."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array, FloatArray
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import check_two_classes, columns, confidences
from calibrant.metrics.utility import OneClass, TopClasses, Utility
from calibrant.options import check_choice
from calibrant.presentation.sentences import class_text

__all__: list[str] = []

EventKind = Literal["auto", "confidence", "positive", "class", "top-label"]
"""Event and its score. ``"confidence"``: the predicted class is correct; its confidence. ``"positive"``: the second class of
two; its probability. ``"class"``: the class ``label``; its probability. ``"top-label"``: the predicted class is correct, in
rows that predict ``label``; its confidence. ``"auto"``: ``"positive"`` for two classes, else ``"confidence"``."""


@dataclass(frozen=True, eq=False)
class EventRows:
    """Scores and outcomes of one event."""

    kind: str  # an EventKind other than "auto"
    name: str  # such as "predicted class" or "class 'cat'"
    utility: Utility  # the event as a utility for cumulative tests
    data: LabelledPredictions
    scores: FloatArray  # (n,) predicted probability of the event, in its float type
    occurred: NDArray[np.bool_]  # (n,)

    @classmethod
    def of(cls, data: LabelledPredictions, kind: EventKind = "auto", label: Any = None) -> Self:
        """Select an event; ``label`` is only for the kinds "class" and "top-label"."""
        check_choice("kind", kind, get_args(EventKind))
        if kind in ("class", "top-label"):
            column = column_of(data, label, kind)
            return cls.of_class(data, column) if kind == "class" else cls.of_predicted(data, column)
        if label is not None:
            raise ParameterError(
                f"label is for kind='class' and kind='top-label', not for kind={kind!r}; omit it."
            )
        if kind == "positive":
            check_two_classes(data.n_classes, "kind='class' with label=")
        if kind == "confidence" or data.n_classes != 2:
            right = data.predictions.predicted == data.labels
            return cls(
                "confidence", "predicted class", TopClasses(1), data, confidences(data.predictions), right
            )
        positive = cls.of_class(data, 1)
        return cls("positive", positive.name, positive.utility, data, positive.scores, positive.occurred)

    @classmethod
    def of_class(cls, data: LabelledPredictions, column: int) -> Self:
        """Return the event of a column's class, with its probability."""
        scores = data.predictions.probabilities[:, column]
        name = class_text(data.classes[column])
        return cls("class", name, OneClass(column), data, scores, data.labels == column)

    @classmethod
    def every_class(cls, data: LabelledPredictions) -> Iterator[Self]:
        """Yield the event of every class; faster for many classes than calling :meth:`of_class`."""
        for column, scores in enumerate(columns(data.predictions)):
            name = class_text(data.classes[column])
            yield cls("class", name, OneClass(column), data, scores, data.labels == column)

    @classmethod
    def every_predicted(cls, data: LabelledPredictions) -> Iterator[Self]:
        """Yield the rows that predict each class, for all classes that are predicted."""
        for column in np.unique(data.predictions.predicted).tolist():
            yield cls.of_predicted(data, column)

    @classmethod
    def of_predicted(cls, data: LabelledPredictions, column: int) -> Self:
        """Return the rows that predict the class of a column, with their confidence."""
        name = class_text(data.classes[column])
        rows = data.predictions.predicted == column
        if not rows.any():
            raise ParameterError(f"no row predicts {name}, so it cannot be evaluated; choose another label.")
        chosen = data.take(rows)
        scores = confidences(chosen.predictions)
        return cls("top-label", f"predicted {name}", TopClasses(1), chosen, scores, chosen.labels == column)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.data.n_rows

    @property
    def weights(self) -> Float64Array | None:
        """Weights of the rows, (n,), or None."""
        return self.data.weights


def column_of(data: LabelledPredictions, label: Any, kind: str) -> int:
    """Return the column of a class, or raise an error that lists the classes."""
    column = np.flatnonzero(data.classes == label)
    if label is None or len(column) != 1:
        known = data.classes[:20].tolist()
        more = f" and {data.n_classes - 20} more" if data.n_classes > 20 else ""
        raise ParameterError(f"kind={kind!r} needs label=, one of the classes {known}{more}, not {label!r}.")
    return int(column[0])
