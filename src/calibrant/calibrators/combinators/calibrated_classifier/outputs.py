"""Training and calibration of classifiers with several outputs: labels of a row, or several class columns."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_consistent_length, indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_method_params

from calibrant.arrays import FloatArray, IntArray
from calibrant.calibrator import Calibrator
from calibrant.calibrators.combinators.calibrated_classifier.training_rows import mean_scores, response_method
from calibrant.calibrators.combinators.multilabel import SHARED, MultilabelCalibration
from calibrant.calibrators.combinators.multioutput import MultioutputCalibration
from calibrant.errors import LabelError, ParameterError, PredictionError
from calibrant.predictions import Predictions

__all__ = ["OutputPairs", "has_several_outputs"]

SEVERAL = ("multilabel-indicator", "multiclass-multioutput")


def has_several_outputs(y: Any) -> bool:
    """Return whether every row has several labels.

    >>> has_several_outputs([[0, 1], [1, 1]]), has_several_outputs([0, 1])
    (True, False)
    """
    try:
        shape = tuple(y.shape) if hasattr(y, "shape") else np.asarray(y).shape
    except ValueError:  # rows of different lengths
        return False
    if len(shape) != 2 or shape[1] < 2:
        return False
    return type_of_target(y) in SEVERAL


@dataclass(frozen=True, eq=False)
class OutputPairs:
    """Estimators with several outputs, and the calibrators of their predictions."""

    classes: list[NDArray[Any]]  # Classes of every output
    is_multilabel: bool  # Whether outputs are labels that a row has or has not
    pairs: list[tuple[Any, Any]]
    response: str  # The prediction method

    @classmethod
    def fitted(
        cls,
        estimator: Any,
        method: str | Calibrator,
        response: str,
        X: Any,
        Y: Any,
        weights: Any,
        for_estimator: dict[str, Any],
        splits: list[tuple[IntArray, IntArray]],
        *,
        ensemble: bool,
    ) -> Self:
        """Train and calibrate: one pair for each split, or a single one on the pooled held-out predictions."""
        (X,) = indexable(X)
        labels = np.asarray(Y.toarray() if hasattr(Y, "toarray") else Y)
        check_consistent_length(X, labels)
        is_multilabel = type_of_target(labels) == SEVERAL[0]
        classes = [np.unique(column) for column in labels.T]
        if is_multilabel:
            classes = [np.arange(2) for _ in classes]
        row_weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        if isinstance(estimator, FrozenEstimator):
            asked = response_method(estimator, response)
            parts = [(estimator, np.arange(len(labels)), _responses(estimator, X, asked, classes))]
        else:
            parts = []
            for train, test in splits:
                part_X, part_y = _safe_split(estimator, X, labels, train)
                trained = clone(estimator).fit(
                    part_X, part_y, **_check_method_params(X, for_estimator, train)
                )
                asked = response_method(trained, response)
                test_X, _ = _safe_split(estimator, X, None, test, train)
                parts.append((trained, test, _responses(trained, test_X, asked, classes)))
            if not ensemble:
                whole = clone(estimator).fit(X, labels, **_check_method_params(X, for_estimator))
                held_out = zip(*(scores for _, _, scores in parts), strict=True)
                pooled = [
                    mean_scores([rows for _, rows, _ in parts], output, len(labels)) for output in held_out
                ]
                parts = [(whole, pooled[0][0], [means for _, means in pooled])]
        pairs = []
        for trained, rows, scores in parts:
            calibrator = _calibrator(method, is_multilabel, asked)
            given = _given(scores, is_multilabel, asked)
            calibrator.fit(given, labels[rows], None if row_weights is None else row_weights[rows])
            pairs.append((trained, calibrator))
        return cls(classes, is_multilabel, pairs, asked)

    def predict_proba(self, X: Any) -> Any:
        """Return calibrated probabilities, the mean over all pairs: (n, L) for labels, else a list of arrays (n, K)."""
        found = []
        for estimator, calibrator in self.pairs:
            scores = _responses(estimator, X, self.response, self.classes)
            found.append(calibrator.predict_proba(_given(scores, self.is_multilabel, self.response)))
        if self.is_multilabel:
            return np.mean(found, axis=0)
        return [np.mean(parts, axis=0) for parts in zip(*found, strict=True)]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return labels above one half, or the most probable class of every output, (n, L)."""
        probabilities = self.predict_proba(X)
        if self.is_multilabel:
            above: NDArray[Any] = np.asarray(probabilities > 0.5, dtype=np.intp)
            return above
        return np.column_stack(
            [own[part.argmax(axis=1)] for own, part in zip(self.classes, probabilities, strict=True)]
        )


def _calibrator(method: str | Calibrator, is_multilabel: bool, asked: str) -> Any:
    if not is_multilabel:
        return MultioutputCalibration(method)
    chosen = SHARED if isinstance(method, str) and method == "auto" else method
    return MultilabelCalibration(chosen, space="probabilities" if asked == "predict_proba" else "logits")


def _given(scores: list[FloatArray], is_multilabel: bool, asked: str) -> Any:
    """Return predictions in the form that the calibrator takes."""
    if not is_multilabel:
        parsed = Predictions.from_probabilities if asked == "predict_proba" else Predictions.from_logits
        return [parsed(part) for part in scores]
    if asked == "predict_proba":
        return np.column_stack([part[:, 1] for part in scores])
    return np.column_stack([part[:, 1] - part[:, 0] for part in scores])


def _responses(estimator: Any, X: Any, asked: str, classes: list[NDArray[Any]]) -> list[FloatArray]:
    """Return what the estimator predicts for every output, (n, K) each, with a column for each of its classes."""
    if asked == "predict_log_proba":
        raise ParameterError(
            "response='predict_log_proba' is for one output; use 'auto' for several outputs."
        )
    given = getattr(estimator, asked)(X)
    absent = 0.0 if asked == "predict_proba" else -1e6
    if isinstance(given, list | tuple):
        if len(given) != len(classes):
            raise _wrong_shape(estimator, asked, f"{len(given)} outputs", len(classes))
        own = getattr(estimator, "classes_", classes)
        return [
            _spread(np.asarray(part), known, all_, absent)
            for part, known, all_ in zip(given, own, classes, strict=True)
        ]
    matrix = np.asarray(given)
    if matrix.ndim != 2 or matrix.shape[1] != len(classes) or any(len(each) != 2 for each in classes):
        raise _wrong_shape(estimator, asked, f"shape {matrix.shape}", len(classes))
    if asked == "predict_proba":
        return [np.column_stack([1 - column, column]) for column in matrix.T]
    return [np.column_stack([np.zeros_like(column), column]) for column in matrix.T]


def _wrong_shape(estimator: Any, asked: str, found: str, n_outputs: int) -> PredictionError:
    return PredictionError(
        f"{asked} of {type(estimator).__name__} has {found}, but {n_outputs} outputs are needed: a list with one array (n, K) "
        "per output, or one column per label."
    )


def _spread(part: FloatArray, known: Any, classes: NDArray[Any], absent: float) -> FloatArray:
    if part.ndim == 1:
        part = np.column_stack([np.zeros_like(part), part])
    known = np.asarray(known).astype(classes.dtype) if len(np.atleast_1d(known)) else classes
    unknown = np.setdiff1d(known, classes)
    if len(unknown):
        raise LabelError(
            f"an estimator knows class {unknown[0]!r}, which y has not; pass labels of one kind."
        )
    columns = np.searchsorted(classes, known)
    matrix = np.full((len(part), len(classes)), absent, dtype=part.dtype)
    matrix[:, columns] = part
    return matrix
