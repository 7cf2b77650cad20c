"""Training rows of a classifier, and the predictions of a trained estimator for a fixed list of classes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_consistent_length, column_or_1d, indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_method_params, _check_sample_weight

from calibrant.arrays import Float64Array, FloatArray
from calibrant.errors import LabelError, ParameterError, PredictionError, WeightError
from calibrant.labelled_predictions import NO_WEIGHT, LabelledPredictions
from calibrant.numerics.simplex import log_softmax
from calibrant.predictions import Predictions

__all__ = [
    "IMPOSSIBLE",
    "RESPONSES",
    "TrainingRows",
    "estimator_response",
    "known_columns",
    "mean_scores",
    "response_method",
]


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRows:
    """Features, labels and weights of n rows."""

    X: Any  # Passed on to the estimator as it is
    y: NDArray[Any]  # (n,): labels as the estimator sees them
    classes: NDArray[Any]  # (K,): all labels, sorted
    codes: NDArray[np.intp]  # (n,): position of every label in ``classes``
    # (n,): weights in the calibration; those of the estimator are among ``fit_parameters``
    weights: NDArray[np.float64] | None
    # Passed on to the estimator's ``fit``; what has n rows is split like ``X``
    fit_parameters: dict[str, Any]
    # (n,): which rows belong together, for calibrators that hold rows out themselves
    groups: NDArray[Any] | None = None

    @classmethod
    def parse(
        cls, X: Any, y: Any, sample_weight: Any, fit_parameters: dict[str, Any], groups: Any = None
    ) -> Self:
        """Check labels and weights; what is wrong with ``X``, the estimator will say."""
        (X,) = indexable(X)
        labels = _parsed_labels(y)
        check_consistent_length(X, labels)
        if len(labels) == 0:
            raise LabelError("there are no rows; rows of at least two classes are needed.")
        weights = None
        if sample_weight is not None:
            try:
                weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            except ValueError as error:
                raise WeightError(str(error)) from error
            if not weights.any():
                raise WeightError(NO_WEIGHT)
        classes, codes = np.unique(labels, return_inverse=True)
        counted = codes if weights is None else codes[weights > 0]
        if len(np.unique(counted)) < 2:
            raise LabelError(
                f"the {len(counted)} rows that count are all of one class, {classes[counted[0]].item()!r}; "
                "rows of at least two classes are needed to train and calibrate."
            )
        if groups is not None:
            groups = np.asarray(groups)
            check_consistent_length(groups, labels)
        return cls(X, labels, classes, codes, weights, fit_parameters, groups)

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return len(self.codes)

    def with_classes(self, more: NDArray[Any]) -> Self:
        """Return the same rows with a list of classes that includes ``more``."""
        listed = set(self.classes.tolist())
        if listed.isdisjoint(more.tolist()):
            raise LabelError(
                f"labels such as {self.classes.tolist()[0]!r} are not among the classes of the estimator, "
                f"such as {more.tolist()[0]!r}; pass labels of the same kind."
            )
        if listed.issuperset(more.tolist()):
            return self
        classes = np.unique(np.concatenate([self.classes, more]))
        return replace(self, classes=classes, codes=np.searchsorted(classes, self.classes)[self.codes])

    def trained(self, estimator: Any, rows: NDArray[np.intp] | None = None) -> Any:
        """Return a clone of ``estimator`` that is trained on some of the rows, or on all."""
        if rows is None:
            parameters = _check_method_params(self.X, self.fit_parameters)
            return clone(estimator).fit(self.X, self.y, **parameters)
        X, y = _safe_split(estimator, self.X, self.y, rows)
        return clone(estimator).fit(X, y, **_check_method_params(self.X, self.fit_parameters, rows))

    def labelled(self, predictions: Predictions, rows: NDArray[np.intp]) -> LabelledPredictions:
        """Return ``predictions`` for ``rows`` with their labels and weights, without rows of weight zero."""
        classes = self.classes
        if classes.dtype.kind == "O" and all(isinstance(label, str) for label in classes):
            classes = classes.astype(str)
        groups = None if self.groups is None else self.groups[rows]
        if self.weights is None:
            return LabelledPredictions(predictions, self.codes[rows], classes, None, groups)
        weights = self.weights[rows]
        data = LabelledPredictions(predictions, self.codes[rows], classes, weights, groups)
        return data.take(weights > 0)


def _parsed_labels(y: Any) -> NDArray[Any]:
    if getattr(y, "dtype", None) in (np.float32, np.float64) and not np.isfinite(y).all():
        raise LabelError("y must name a class in every row, but some rows have NaN or infinity; remove them.")
    check_classification_targets(y)
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    return labels


def mean_scores(
    rows: Sequence[NDArray[np.intp]], scores: Sequence[FloatArray], n_rows: int
) -> tuple[NDArray[np.intp], Float64Array]:
    """Return the rows that are held out at least once, and their mean scores; each part has rows and their scores."""
    totals, times = np.zeros((n_rows, scores[0].shape[1])), np.zeros(n_rows)
    for own_rows, own_scores in zip(rows, scores, strict=True):
        # Not "+=", since a bootstrap may hold the same row out twice in one split.
        np.add.at(totals, own_rows, own_scores)
        np.add.at(times, own_rows, 1)
    held_out = np.flatnonzero(times)
    return held_out, totals[held_out] / times[held_out, np.newaxis]


RESPONSES = ("auto", "predict_proba", "predict_log_proba", "decision_function")

IMPOSSIBLE = float(np.finfo(np.float32).tiny)
"""Probability that stands in for zero among logits, where there is no smallest positive one to go by."""


def response_method(estimator: Any, response: str) -> str:
    """Return the name of the method to ask; "auto" prefers probabilities to decision values."""
    candidates = ["predict_proba", "decision_function"] if response == "auto" else [response]
    for name in candidates:
        if hasattr(estimator, name):
            return name
    wanted = " or ".join(candidates)
    raise ParameterError(
        f"estimator {type(estimator).__name__} has no {wanted}; pass a classifier that has one, "
        "or another response."
    )


def known_columns(estimator: Any, classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the positions in ``classes`` of the classes that a fitted estimator tells apart."""
    own = getattr(estimator, "classes_", None)
    if own is None:
        return np.arange(len(classes))
    position = {label: column for column, label in enumerate(classes.tolist())}
    own = np.asarray(own).tolist()
    unknown = [label for label in own if label not in position]
    if unknown:
        raise LabelError(
            f"estimator {type(estimator).__name__} has class {unknown[0]!r} in its classes_, but y has only "
            f"the classes {classes.tolist()[:10]!r}; labels of one kind are needed."
        )
    return np.array([position[label] for label in own], dtype=np.intp)


def estimator_response(estimator: Any, X: Any, method: str, classes: NDArray[Any]) -> Predictions:
    """Return what ``estimator.method(X)`` says, with one column for each of ``classes``.

    Probabilities stay probabilities; log-probabilities and decision values become logits, where a single
    decision value is the log-odds of the second class. A class that the estimator was trained without gets
    probability 0. Among logits, such a class and a log-probability of minus infinity get the logarithm of
    :data:`IMPOSSIBLE`, or the smallest finite entry of the row if that is lower
    still, so that an impossible class never overtakes a possible one.
    """
    columns = known_columns(estimator, classes)
    # Trees and others take the logarithm of an exact zero; the floor below is the answer to that.
    with np.errstate(divide="ignore" if method == "predict_log_proba" else "warn"):
        values = np.asarray(getattr(estimator, method)(X))
    if method == "predict_proba":
        values = _one_column_per_class(values, len(columns), estimator, method)
        return Predictions.from_probabilities(_spread(values, columns, len(classes), 0.0))
    if method == "decision_function":
        _refuse_one_vs_one(estimator, len(columns))
        if len(columns) == 2 and (values.ndim == 1 or values.shape[1] == 1):
            values = values.reshape(-1)
            values = np.stack([np.zeros_like(values), values], axis=1)
    values = _one_column_per_class(values, len(columns), estimator, method)
    if len(columns) < len(classes):
        # The logarithm of "no probability" means something only next to other logarithms of probabilities.
        values = log_softmax(_floored(values))
    return Predictions.from_logits(_floored(_spread(values, columns, len(classes), -np.inf)))


def _one_column_per_class(values: NDArray[Any], n_columns: int, estimator: Any, method: str) -> FloatArray:
    if values.ndim != 2 or values.shape[1] != n_columns:
        advice = (
            "if these are pairs of classes, set decision_function_shape='ovr'"
            if method == "decision_function"
            else "its classes_ must name the columns"
        )
        raise PredictionError(
            f"{method} of {type(estimator).__name__} has shape {values.shape}, but one column for each of "
            f"its {n_columns} classes is needed; {advice}."
        )
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def _refuse_one_vs_one(estimator: Any, n_columns: int) -> None:
    """With three classes there are three pairs too, so the shape alone would not give them away."""
    final = estimator
    # A frozen estimator passes on what it holds; a pipeline ends in the classifier; a search holds the best.
    while True:
        if hasattr(final, "steps"):
            final = final.steps[-1][1]
        elif hasattr(final, "best_estimator_"):
            final = final.best_estimator_
        else:
            break
    if n_columns > 2 and getattr(final, "decision_function_shape", None) == "ovo":
        raise PredictionError(
            f"decision_function of {type(final).__name__} compares pairs of classes, which is no score for "
            "each class; set decision_function_shape='ovr'."
        )


def _spread(values: FloatArray, columns: NDArray[np.intp], n_classes: int, absent: float) -> FloatArray:
    """Return ``values`` in their ``columns`` of a matrix for all classes, ``absent`` everywhere else."""
    if np.array_equal(columns, np.arange(n_classes)):
        return values
    matrix = np.full((len(values), n_classes), absent, dtype=values.dtype)
    matrix[:, columns] = values
    return matrix


def _floored(logits: FloatArray) -> FloatArray:
    """Replace minus infinity by log(floor), or by the smallest finite entry of the row if that is lower."""
    impossible = np.isneginf(logits)
    if not impossible.any():
        return logits
    floor = logits.dtype.type(np.log(IMPOSSIBLE))
    lowest = np.where(impossible, floor, logits).min(axis=1, keepdims=True)
    return np.where(impossible, np.minimum(lowest, floor), logits)
