"""The rows that a classifier and its calibrator are made from, parsed once."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_consistent_length, column_or_1d, indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_method_params, _check_sample_weight

from calibrant.errors import LabelError, WeightError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions

__all__ = ["TrainingRows"]


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRows:
    """Features, labels and weights of n rows.

    Attributes
    ----------
    X : array, frame or sparse matrix of n rows
        Passed on to the estimator as it is.
    y : ndarray of shape (n,)
        Labels as the estimator sees them.
    classes : ndarray of shape (K,)
        All labels, sorted.
    codes : ndarray of shape (n,)
        Position of every label in ``classes``.
    weights : ndarray of shape (n,) or None
        Weights in the calibration; those of the estimator are among ``fit_parameters``.
    fit_parameters : dict
        Passed on to the estimator's ``fit``; what has n rows is split like ``X``.
    groups : ndarray of shape (n,) or None
        Which rows belong together, for calibrators that hold rows out themselves.
    """

    X: Any
    y: NDArray[Any]
    classes: NDArray[Any]
    codes: NDArray[np.intp]
    weights: NDArray[np.float64] | None
    fit_parameters: dict[str, Any]
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
                raise WeightError("sample_weight is zero for every row; at least one row must count.")
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
    if type_of_target(y) in ("multilabel-indicator", "multiclass-multioutput"):
        raise LabelError(
            f"y must have one label per row, but has shape {np.shape(y)}; "
            "calibrate several outputs one by one; for one-hot rows, pass y.argmax(axis=1)."
        )
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    return labels
