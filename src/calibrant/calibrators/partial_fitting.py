"""Learning batch by batch: what methods that can do without old rows share."""

import re
from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.calibrator import Calibrator
from calibrant.calibrators.remembered_rows import ROWS_AT_HAND, followed_by, most_rows, stored, thinned
from calibrant.errors import LabelError, MissingClassWarning, ParameterError, PredictionError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import Notice, held_back, warn_user
from calibrant.options import check_half_life
from calibrant.predictions import Predictions

__all__ = ["PartialFitting"]

# After so many new rows a map is compared with a fit of the sample, sooner if it seems worse than none.
ROWS_BETWEEN_CHECKS = 100

# Where an object is in memory says nothing about it.
ADDRESS = re.compile(" at 0x[0-9a-f]+")

SHOWN = 10  # how many classes a warning lists


class PartialFitting(Calibrator):
    """A calibrator with ``partial_fit``; abstract.

    As long as there are few rows they are all kept, in ``memory_``, and every batch leads to an ordinary fit of all
    of them. After that ``memory_`` holds what the method remembers of its rows in their stead, and a sample of them, both
    of constant size. Where what is remembered is rough, a map that the sample refutes is fitted to the sample anew.
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
        are. An empty batch and one that is refused change nothing, and :meth:`fit` forgets all batches. A warning is
        given when its cause arises, and not again with every batch in which it lasts.

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
        check_half_life(half_life)
        self._check_parameters()
        past = vars(self).get("memory_", {})
        self._check_same_parameters(past.get("parameters", {}))
        if np.shape(X)[:1] == (0,) and np.shape(y)[:1] == (0,):
            return self
        data = self._parsed_batch(X, y, sample_weight, classes)
        kept = 1.0 if half_life is None else 0.5 ** (data.n_rows / half_life)
        before = dict(vars(self))
        try:
            with held_back() as notices:
                self.learn_batch(data, kept)
                beside = self._sampled(past, data, kept)
            kinds = sorted({_kind_of(notice) for notice in notices})
            self.memory_ = self.memory_ | beside | {"parameters": self._parameters(), "notices": kinds}
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        for notice in notices:
            if _kind_of(notice) not in past.get("notices", ()):
                warn_user(*notice)
        return self

    def _check_parameters(self) -> None:
        """Raise an error for parameters that mean nothing; a fit may come much later."""

    def learn_batch(self, data: LabelledPredictions, kept: float) -> None:
        """Learn from a batch that is parsed; what was learnt before counts ``kept`` times as much as it did."""
        memory = vars(self).get("memory_", {"rows": 0.0})
        n_rows = memory["rows"] * kept + data.n_rows
        if memory["rows"] and "labels" not in memory:
            self._update(data, kept, n_rows)
        else:
            self._learn_rows(followed_by(memory, data, kept), n_rows)

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

    @abstractmethod
    def _rough_parameters(self, n_classes: int) -> int:
        """Return the number of parameters for which the past is remembered roughly; 0 if sums are exact."""

    def _condenses(self, data: LabelledPredictions) -> bool:  # noqa: ARG002
        """Tell whether rows that were just fitted can be replaced by what :meth:`_condense` makes of them."""
        return True

    def _most_rows(self, n_classes: int) -> int:
        """Return how many rows are kept at most where they cannot be condensed."""
        return most_rows(n_classes)

    def _fit_rows(self, data: LabelledPredictions, *, sampled: bool) -> None:  # noqa: ARG002
        """Fit rows; if they are a sample, their weights say how many rows each of them stands for."""
        self.fit_labelled(data, warn_of_absent=False)

    def _learn_rows(self, data: LabelledPredictions, n_rows: float) -> None:
        """Fit all rows so far, and keep them if they are few or nothing else can stand for them."""
        many, sampled = data.n_rows > ROWS_AT_HAND, vars(self).get("memory_", {}).get("sampled", False)
        waits = np.count_nonzero(data.class_weights) < 2
        if waits:
            if many:
                data, sampled = thinned(data), True
            self._wait(data)
        else:
            self._fit_rows(data, sampled=sampled)
            most = self._most_rows(data.n_classes) if many else ROWS_AT_HAND
            if many and self._condenses(data):
                self._warn_of_late(data)
                self._condense(replace(data, predictions=data.predictions.with_floor(self.floor_)), n_rows)
                return
            if data.n_rows > most:
                data = replace(data, predictions=data.predictions.with_floor(self.floor_))
                data, sampled = thinned(data, most // 2), True
        self.memory_ = stored(data) | {"rows": float(n_rows), "waits": waits, "sampled": sampled}

    def _sampled(self, past: dict[str, Any], data: LabelledPredictions, kept: float) -> dict[str, Any]:
        """Return a sample of all rows to keep beside the memory, having begun again from it if it refutes the map."""
        n_rough = self._rough_parameters(data.n_classes)
        if "labels" in self.memory_ or not n_rough:
            return {}
        sample = followed_by(past if "labels" in past else past.get("sample", {}), data, kept)
        sample = replace(sample, predictions=sample.predictions.with_floor(self.floor_))
        if sample.n_rows > most_rows(data.n_classes):
            sample = thinned(sample)
        unchecked = past.get("unchecked", 0) + data.n_rows
        # With one class alone, all others having faded away, there is nothing to compare.
        comparable = "sample" in past and np.count_nonzero(sample.class_weights) > 1
        if comparable and self._is_due(sample, unchecked):
            unchecked = 0
            if self._is_refuted(sample, n_rough):
                n_rows = self.memory_["rows"]
                self._fit_rows(sample, sampled=True)
                if not self._condenses(sample):
                    self.memory_ = stored(sample) | {"rows": n_rows, "waits": False, "sampled": True}
                    return {}
                self._condense(sample, n_rows)
        return {"sample": stored(sample), "unchecked": unchecked}

    def _is_due(self, sample: LabelledPredictions, unchecked: int) -> bool:
        if unchecked >= ROWS_BETWEEN_CHECKS:
            return True
        return self.traits.contains_identity and (
            sample.log_loss(self.transform(sample.predictions))
            > sample.log_loss(sample.predictions.without_zeros())
        )

    def _is_refuted(self, sample: LabelledPredictions, n_rough: int) -> bool:
        r"""Tell whether a fit of the sample is better on it than chance explains.

        Of a sample of m rows, the log-likelihood of its own fit exceeds that of the fit of all rows by half of a
        chi-squared variable with P degrees of freedom, of mean P / 2 and variance P / 2; more than
        :math:`P + 3 \sqrt{2 P}` is no chance.
        """
        with held_back():
            fitted = self._fitted_anew(sample)
        own = sample.log_loss(self.transform(sample.predictions))
        best = sample.log_loss(fitted.transform(sample.predictions))
        n_rows = float(sample.n_rows)
        if sample.weights is not None:
            weights = sample.weights / sample.weights.max()
            n_rows = float(weights.sum() ** 2 / (weights @ weights))
        freedom = self._degrees_of_freedom(n_rough, n_rows)
        return bool(n_rows * (own - best) > freedom + 3 * np.sqrt(2 * freedom))

    def _fitted_anew(self, sample: LabelledPredictions) -> Self:
        """Return a copy that is fitted to the sample alone."""
        fitted: Self = clone(self)
        fitted._fit_rows(sample, sampled=True)
        return fitted

    def _degrees_of_freedom(self, n_rough: int, n_rows: float) -> float:  # noqa: ARG002
        """Return how many parameters so many rows decide on; fewer than there are where a penalty holds them."""
        return float(n_rough)

    def _parameters(self) -> dict[str, str]:
        parameters = self.get_params(deep=False)
        return {name: ADDRESS.sub("", repr(value)) for name, value in parameters.items()}

    def _check_same_parameters(self, first: dict[str, str]) -> None:
        now = self._parameters()
        for name, value in first.items():
            if now.get(name) != value:
                raise ParameterError(
                    f"{name} was {value} in earlier batches and is {now.get(name)} now, which what is remembered of them "
                    "does not fit; set it back, or begin with partial_fit on a clone."
                )

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


def _kind_of(notice: Notice) -> str:
    """Return what a warning is about, whatever numbers it gives."""
    return re.sub("[0-9]+", "#", notice[0])
