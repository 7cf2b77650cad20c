"""Learning batch by batch: what methods that can do without old rows share."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.errors import LabelError, MissingClassWarning, ParameterError, PredictionError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import warn_user
from calibrant.options import is_number
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["PartialFitting"]

# Up to so many rows are kept as they are, since a fit to few rows is too rough a place to expand a loss around.
ROWS_AT_HAND = 1000

SHOWN = 10  # how many classes a warning lists


class PartialFitting(Calibrator):
    """A calibrator with ``partial_fit``; abstract.

    As long as there are few rows they are all kept, in ``memory_``, and every batch leads to an ordinary fit of all
    of them. After that ``memory_`` holds what the method remembers of its rows in their stead, of constant size.
    """

    memory_: dict[str, Any]
    """What is remembered of past batches: the rows themselves while they are few, else sums over them."""

    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        classes: Any = None,
        half_life: float | None = None,
    ) -> Self:
        """Learn from one more batch of calibration rows; earlier batches are not needed again.

        The first 1,000 rows, or the first batch if that is longer, are fitted as by :meth:`fit`. What comes later is
        weighed against what is remembered of them. Until rows of two classes have come, probabilities stay as they
        are. A batch that is refused changes nothing, and :meth:`fit` forgets all batches.

        Parameters
        ----------
        X : array, frame or Predictions
            Probabilities or logits of the batch, of the same kind and in the same columns every time.
        y : array of shape (n,)
            True classes.
        sample_weight : array of shape (n,), optional
            A weight of two is the same as the row given twice.
        classes : sequence of K labels, optional
            Labels of the columns. Needed in the first batch if labels are not column numbers and the batch can lack
            some of them.
        half_life : float, optional
            Number of new rows after which all that was learnt before counts half, for classifiers that drift. Rows of
            one batch count alike. Nothing is forgotten if it is not given.
        """
        if half_life is not None and (not is_number(half_life) or not 0 < half_life < np.inf):
            raise ParameterError(f"half_life must be a positive number of rows or None, not {half_life!r}.")
        data = self._parsed_batch(X, y, sample_weight, classes)
        before = dict(vars(self))
        try:
            self.learn_batch(data, 1.0 if half_life is None else 0.5 ** (data.n_rows / half_life))
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def learn_batch(self, data: LabelledPredictions, kept: float) -> None:
        """Learn from a batch that is parsed; what was learnt before counts ``kept`` times as much as it did."""
        memory = vars(self).get("memory_", {"rows": 0.0})
        n_rows = memory["rows"] * kept + data.n_rows
        if memory["rows"] and "labels" not in memory:
            self._update(data, kept, n_rows)
        else:
            self._learn_rows(_together(memory, data, kept), n_rows)

    @abstractmethod
    def _condense(self, data: LabelledPredictions, n_rows: float) -> None:
        """Set ``memory_`` to what is remembered of the rows that were just fitted, ``rows`` among it."""

    @abstractmethod
    def _update(self, data: LabelledPredictions, kept: float, n_rows: float) -> None:
        """Learn from a batch and ``memory_``, and replace both the map and the memory; change nothing in place."""

    @property
    def _waits(self) -> bool:
        """Whether rows of one class only have come so far, so that there is no map yet."""
        return bool(vars(self).get("memory_", {}).get("waits", False))

    def _learn_rows(self, data: LabelledPredictions, n_rows: float) -> None:
        """Fit all rows so far, and keep them if they are few."""
        many = data.n_rows > ROWS_AT_HAND
        if np.count_nonzero(data.class_weights) < 2:
            if many:
                data = _thinned(data)
            self._wait(data)
            self.memory_ = _stored(data, n_rows, waits=True)
            return
        self.fit_labelled(data, warn_of_absent=False)
        if many:
            self._warn_of_late(data)
            self._condense(replace(data, predictions=data.predictions.with_floor(self.floor_)), n_rows)
        else:
            self.memory_ = _stored(data, n_rows, waits=False)

    def _warn_of_late(self, data: LabelledPredictions) -> None:
        late = self.classes_[data.class_weights == 0].tolist()
        if late:
            shown = ", ".join(map(repr, late[:SHOWN])) + (
                f" and {len(late) - SHOWN} more" if late[SHOWN:] else ""
            )
            warn_user(
                f"none of the first {data.n_rows} rows has class {shown}; what such rows would have told of earlier ones "
                "is lost.",
                MissingClassWarning,
            )

    def _wait(self, data: LabelledPredictions) -> None:
        """Set what parsing further rows needs, and nothing of a map."""
        self._forget()
        self.classes_ = data.classes
        names = data.predictions.classes
        self.column_names_ = None if names is None or np.array_equal(names, data.classes) else names
        self.space_ = data.predictions.space.value
        self.floor_ = data.predictions.floor
        self.present_columns_ = None

    def _parsed_batch(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> LabelledPredictions:
        name = type(self).__name__
        if "memory_" not in vars(self):
            if "classes_" in vars(self):
                raise ParameterError(
                    f"{name} was fitted by fit, which remembers no rows; begin with partial_fit on a clone of it."
                )
            predictions = Predictions.parse(X)
            if classes is not None:
                predictions = replace(predictions, classes=_labels_of(classes, predictions.n_classes))
            data = LabelledPredictions.parse(predictions, y, sample_weight)
            if self.traits.binary_only and data.n_classes != 2:
                raise PredictionError(f"{name} takes two classes, but there are {data.n_classes}.")
            return data
        predictions = self._parsed(X)
        if predictions.space != self.space_:
            raise PredictionError(
                f"the first batch was {self.space_}, but these predictions are {predictions.space.value}; "
                "pass the same kind every time."
            )
        known = self.classes_
        if classes is not None and not np.array_equal(_labels_of(classes, len(known)), known):
            raise LabelError(f"classes must be those of the first batch, {known.tolist()}, not {classes!r}.")
        # Column numbers need no names, and give clearer errors without.
        numbers = np.array_equal(known, np.arange(len(known)))
        data = LabelledPredictions.parse(
            replace(predictions, classes=None if numbers else known), y, sample_weight
        )
        if not np.array_equal(data.classes, known):
            raise LabelError(
                f"labels must be among those of the first batch, {known.tolist()}, but are {data.classes.tolist()}."
            )
        return data


def _labels_of(classes: Any, n_classes: int) -> NDArray[Any]:
    names = np.asarray(classes)
    if names.dtype.kind == "O" and all(isinstance(name, str) for name in names):
        names = names.astype(str)
    if names.shape != (n_classes,) or len(np.unique(names)) != n_classes:
        raise ParameterError(
            f"classes must be {n_classes} different labels, one per column, but are {classes!r}."
        )
    return names


def _thinned(data: LabelledPredictions) -> LabelledPredictions:
    """Return a systematic sample that stands for all rows, so that waiting for another class takes no more memory."""
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    size = ROWS_AT_HAND // 2
    mass = np.cumsum(weights)
    rows = np.searchsorted(mass, (np.arange(size) + 0.5) / size * mass[-1])
    return data.take(rows, np.full(size, mass[-1] / size))


def _stored(data: LabelledPredictions, n_rows: float, waits: bool) -> dict[str, Any]:
    """Return rows as plain arrays."""
    predictions = data.predictions
    return {
        "rows": float(n_rows),
        "waits": waits,
        "scores": np.array(predictions.scores),
        "space": predictions.space.value,
        "names": predictions.classes,
        "floor": predictions.declared_floor,
        "labels": data.labels,
        "classes": data.classes,
        "weights": data.weights,
    }


def _together(memory: dict[str, Any], data: LabelledPredictions, kept: float) -> LabelledPredictions:
    """Return stored rows, whose weights fade, followed by those of a batch."""
    if "labels" not in memory:
        return data
    predictions = Predictions(
        np.vstack([memory["scores"], data.predictions.scores]),
        Space(memory["space"]),
        memory["names"],
        memory["floor"],
    )
    weights = None
    if kept < 1 or memory["weights"] is not None or data.weights is not None:
        old = np.ones(len(memory["labels"])) if memory["weights"] is None else memory["weights"]
        new = np.ones(data.n_rows) if data.weights is None else data.weights
        weights = np.concatenate([old * kept, new])
    together = LabelledPredictions(
        predictions, np.concatenate([memory["labels"], data.labels]), memory["classes"], weights
    )
    # What has faded below the smallest float counts no more.
    return together if weights is None or weights.min() > 0 else together.take(weights > 0)
