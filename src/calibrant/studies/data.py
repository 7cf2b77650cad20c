"""StudyData: the rows of a data set with features or predictions, and true probabilities if known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import IntArray
from calibrant.errors import LabelError, PredictionError, StudyDataError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.options import real_array
from calibrant.predictions import Predictions
from calibrant.synthetic.task import SyntheticTask

__all__ = ["Rows", "StudyData", "Truth"]

Truth = NDArray[np.float64] | SyntheticTask
"""True probabilities of rows, (n, K), or the synthetic task that they were drawn from."""

ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a data set: true classes as column numbers, and either features or predictions.

    Attributes
    ----------
    labels : ndarray of shape (n,)
    features : ndarray of shape (n, d) or None
    predictions : Predictions or None
    truth : ndarray of shape (n, K) or None
        True probabilities.
    """

    labels: IntArray
    features: NDArray[np.float64] | None = None
    predictions: Predictions | None = None
    truth: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: IntArray) -> Self:
        """Return a subset of the rows."""
        return replace(
            self,
            labels=self.labels[rows],
            features=None if self.features is None else self.features[rows],
            predictions=None if self.predictions is None else self.predictions.take(rows),
            truth=None if self.truth is None else self.truth[rows],
        )


@dataclass(frozen=True, eq=False)
class StudyData:
    """A data set of a study; generators create one with a method ``from_...``.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        Names of the classes.
    rows : Rows or None
        Rows to be split.
    training : Rows or None
        Training set of classifiers, if it is separate.
    calibration, test : Rows or None
        Calibration set and test set, if the rows are already split.
    task : SyntheticTask or None
        The synthetic task that predictions and labels were drawn from.

    Examples
    --------
    >>> data = StudyData.from_scores([[0.9, 0.1], [0.3, 0.7]], [0, 1])
    >>> data.n_classes, len(data.rows)
    (2, 2)
    """

    classes: NDArray[Any]
    rows: Rows | None = None
    training: Rows | None = None
    calibration: Rows | None = None
    test: Rows | None = None
    task: SyntheticTask | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    @property
    def n_rows(self) -> int:
        """Number of rows of all parts."""
        return sum(len(part) for part in self._parts())

    @property
    def has_features(self) -> bool:
        """Whether the rows have features, on which classifiers are trained."""
        return self._parts()[0].features is not None

    @classmethod
    def from_features(
        cls,
        X: Any,
        y: Any,
        *,
        train: tuple[Any, Any] | None = None,
        calibration: tuple[Any, Any] | None = None,
    ) -> Self:
        """Create a data set with features.

        ``train`` is a separate training set of classifiers. If ``calibration`` is given too, ``X`` and ``y`` are the test set.
        """
        parts = [part for part in (train, calibration, (X, y)) if part is not None]
        labels = [_column(part[1]) for part in parts]
        if len({each.dtype.kind in "iub" for each in labels}) > 1:
            raise StudyDataError("some labels are numbers and others text; use one type.")
        classes, numbers = np.unique(np.concatenate(labels), return_inverse=True)
        if len(classes) < 2:
            raise StudyDataError("all rows have the same class; at least two classes are needed.")
        ends = np.cumsum([len(each) for each in labels])[:-1]
        found = [
            Rows(number.astype(np.intp), features=_matrix(part[0], len(number)))
            for part, number in zip(parts, np.split(numbers, ends), strict=True)
        ]
        widths = {each.features.shape[1] for each in found if each.features is not None}
        if len(widths) > 1:
            raise StudyDataError(f"rows have {sorted(widths)} features; give all rows the same number.")
        if train is None and calibration is not None:
            raise StudyDataError("there is a calibration set but no training set; give both or neither.")
        if calibration is not None:
            return cls(classes, training=found[0], calibration=found[1], test=found[2])
        return cls(classes, rows=found[-1], training=found[0] if train is not None else None)

    @classmethod
    def from_scores(cls, predictions: Any, y: Any, *, truth: Any = None) -> Self:
        """Create a data set with predictions of a classifier: probabilities, or :class:`~calibrant.Predictions`.

        ``truth`` are true probabilities, (n, K), or the :class:`~calibrant.synthetic.SyntheticTask` of the rows.
        """
        rows, classes = _scored(predictions, y)
        task = truth if isinstance(truth, SyntheticTask) else None
        return cls(classes, rows=_with_truth(rows, truth, len(classes)), task=task)

    @classmethod
    def from_split(cls, calibration: Sequence[Any], test: Sequence[Any], *, truth: Any = None) -> Self:
        """Create a data set from a calibration set and a test set, each a pair of predictions and labels.

        ``truth`` are true probabilities of the test set, or the task of all rows.
        """
        first, classes = _scored(*calibration)
        second, others = _scored(*test)
        if len(classes) != len(others):
            raise StudyDataError(
                f"calibration rows have {len(classes)} classes and test rows {len(others)}; give both the same columns."
            )
        if not np.array_equal(classes, others):
            raise StudyDataError("calibration and test rows have different class names; give both the same.")
        task = truth if isinstance(truth, SyntheticTask) else None
        return cls(classes, calibration=first, test=_with_truth(second, truth, len(classes)), task=task)

    def all_rows(self) -> Rows:
        """Return all rows that can be split: calibration and test sets together if they are separate."""
        if self.rows is not None:
            return self.rows
        assert self.calibration is not None
        assert self.test is not None
        return _joined(self.calibration, self.test)

    def every_row(self) -> Rows:
        """Return all rows, including the training set."""
        return self.all_rows() if self.training is None else _joined(self.training, self.all_rows())

    def with_features(self, change: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Self:
        """Return the same rows with other features."""
        parts = {
            name: replace(part, features=change(part.features))
            for name in ("rows", "training", "calibration", "test")
            if (part := getattr(self, name)) is not None and part.features is not None
        }
        return replace(self, **parts)

    def standardised(self) -> Self:
        """Standardise features by the training set, or by all rows if there is no separate training set.

        The programs behind the published tables use all rows, so features of the test set enter, but not its labels. A
        constant feature becomes zero.
        """
        basis = self.all_rows() if self.training is None else self.training
        if basis.features is None:
            raise StudyDataError("there are no features to standardise; remove standardise.")
        mean, spread = basis.features.mean(axis=0), basis.features.std(axis=0)
        # The standard deviation of a constant column is a rounding error.
        spread[spread <= ROUNDING * np.abs(mean)] = 0
        spread[spread == 0] = np.inf
        return self.with_features(lambda features: (features - mean) / spread)

    def _parts(self) -> list[Rows]:
        found = [part for part in (self.rows, self.training, self.calibration, self.test) if part is not None]
        if not found:
            raise StudyDataError(
                "the data set has no rows; create it with StudyData.from_features or from_scores."
            )
        return found


def _joined(first: Rows, second: Rows) -> Rows:
    def both(name: str) -> Any:
        parts = getattr(first, name), getattr(second, name)
        return None if any(part is None for part in parts) else np.concatenate(parts)

    predictions = None
    if first.predictions is not None and second.predictions is not None:
        if first.predictions.space is not second.predictions.space:
            raise StudyDataError(
                "calibration and test rows have scores of two kinds; give both as probabilities or both as logits."
            )
        scores = np.concatenate([first.predictions.scores, second.predictions.scores])
        predictions = replace(first.predictions, scores=scores)
    return Rows(both("labels"), both("features"), predictions, both("truth"))


def _column(y: Any) -> NDArray[Any]:
    """Return labels, (n,), from (n,) or (n, 1)."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) == 0:
        raise StudyDataError(f"labels have shape {labels.shape}; give one per row.")
    if labels.dtype.kind == "O":
        labels = labels.astype(str)
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all() or (labels != np.round(labels)).any():
            raise StudyDataError("labels must be integers or text, but some are fractions or not finite.")
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iubU":
        raise StudyDataError(f"labels must be integers or text, not {labels.dtype}.")
    return labels


def _matrix(X: Any, n_rows: int) -> NDArray[np.float64]:
    features = real_array(X)
    if features is None or features.ndim != 2 or features.shape[1] == 0:
        raise StudyDataError("features must be a numeric matrix; encode categories first.")
    if len(features) != n_rows:
        raise StudyDataError(f"there are {len(features)} rows of features but {n_rows} labels.")
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0]
        raise StudyDataError(
            f"features must be finite, but row {row}, column {column} is {features[row, column]}; impute missing values first."
        )
    return features


def _scored(predictions: Any, y: Any) -> tuple[Rows, NDArray[Any]]:
    labels = _column(y)
    try:
        parsed = Predictions.parse(predictions)
        if parsed.classes is None and labels.dtype.kind in "iub":
            _check_numbers(labels.astype(np.int64), parsed.n_classes)
        data = LabelledPredictions.parse(parsed, labels)
    except (PredictionError, LabelError) as error:
        raise StudyDataError(str(error)) from error
    # From here on labels are column numbers, so the names of columns are dropped.
    return Rows(data.labels, predictions=replace(data.predictions, classes=None)), data.classes


def _check_numbers(labels: NDArray[np.int64], n_classes: int) -> None:
    """Refuse labels that are not column numbers if columns have no names."""
    outside = (labels < 0) | (labels >= n_classes)
    if outside.any():
        row = int(np.argmax(outside))
        raise StudyDataError(
            f"labels must be column numbers from 0 to {n_classes - 1}, but row {row} has class {labels[row]}."
        )


def _with_truth(rows: Rows, truth: Any, n_classes: int) -> Rows:
    if truth is None:
        return rows
    if isinstance(truth, SyntheticTask):
        if truth.n_classes != n_classes:
            raise StudyDataError(f"the task has {truth.n_classes} classes but the scores have {n_classes}.")
        return rows
    numbers = real_array(truth)
    if numbers is None or numbers.shape != (len(rows), n_classes):
        raise StudyDataError(
            f"truth must be {len(rows)} rows of {n_classes} probabilities, or a SyntheticTask."
        )
    totals = numbers.sum(axis=1, keepdims=True)
    if not (np.isfinite(totals).all() and (numbers >= 0).all() and (totals > 0).all()):
        raise StudyDataError(
            "truth must be probabilities or counts of votes, not negative and not zero in a whole row."
        )
    return replace(rows, truth=numbers / totals)
