"""LabelledPredictions: predictions with the true classes and sample weights."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import CalibrationWarning, LabelError, WeightError
from calibrant.labels import encode_labels, shift_of_labels
from calibrant.notices import warn_user
from calibrant.origin import on_host
from calibrant.predictions import Predictions
from calibrant.remedies import NAME_COLUMNS, SAMPLE_WEIGHT
from calibrant.space import Space

__all__ = ["NO_SUM", "LabelledPredictions", "are_swapped", "shift_warning"]

SMALLEST_WEIGHT = 1e-12
"""Lower bound on positive weights relative to the largest; smaller ones would be lost in the rounding of sums."""

LARGEST_WEIGHT = 1e100
"""Upper bound on the largest weight and on its inverse, so that products of weights neither overflow nor underflow."""

SWAPPED = (
    "labels and predictions are swapped; metrics, assess and compare take (y, p), calibrators fit(p, y)."
)

NO_WEIGHT = f"{SAMPLE_WEIGHT} zero for every row; at least one row must count."
NO_SUM = f"{SAMPLE_WEIGHT} too large to be added up; divide all by a constant first."


@dataclass(frozen=True, eq=False, repr=False)
class LabelledPredictions:
    """Predictions with the true class of every row, and optional sample weights.

    Attributes
    ----------
    predictions : Predictions
    labels : ndarray of shape (n,)
        Column number of the true class.
    classes : ndarray of shape (K,)
        Label of every column.
    weights : ndarray of shape (n,) or None
        Positive float64 weights; None if all are one. Parsing removes rows of weight zero, and raises weights to at least
        1e-12 of the largest.
    groups : ndarray of shape (n,) or None
        Groups of dependent rows, which cross-validation keeps together; None if all rows are independent.

    Examples
    --------
    >>> data = LabelledPredictions.parse([[0.7, 0.3], [0.2, 0.8]], ["no", "yes"])
    >>> data.labels, data.classes
    (array([0, 1]), array(['no', 'yes'], dtype='<U3'))
    """

    predictions: Predictions
    labels: NDArray[np.intp]
    classes: NDArray[Any]
    weights: NDArray[np.float64] | None = None
    groups: NDArray[Any] | None = None

    @classmethod
    def parse(cls, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Parse predictions, labels and weights, and check that they match; see :doc:`/concepts` for labels."""
        every = cls._of_all_rows(X, y, sample_weight)
        data = every._counted()
        if data is None:
            if every.labels.max() < 0:
                raise LabelError(
                    f"all {every.n_rows} labels are the ignore_label {Predictions.parse(X).ignore_label!r}; at least one "
                    "row must count."
                )
            raise WeightError(NO_WEIGHT)
        return data.with_bounded_weights()

    @classmethod
    def parse_batch(cls, X: Any, y: Any, sample_weight: Any = None) -> Self | None:
        """Parse one batch of a larger set of rows: weights are not bounded, and the result is None if no row counts.

        :meth:`with_bounded_weights` needs the largest weight of all batches. A batch in which all weights are zero or all
        labels are ignored is no error.
        """
        return cls._of_all_rows(X, y, sample_weight)._counted()

    @classmethod
    def _of_all_rows(cls, X: Any, y: Any, sample_weight: Any) -> Self:
        """Parse all rows, including those with the ignored label (column number -1) and those of weight zero."""
        try:
            predictions = Predictions.parse(X)
            y = _by_rows(y, predictions, "labels", LabelError)
            labels, classes = encode_labels(
                y, predictions.n_classes, predictions.classes, predictions.ignore_label
            )
        except ValueError:
            if are_swapped(X, y):
                raise LabelError(SWAPPED) from None
            raise
        if len(labels) != predictions.n_rows:
            raise LabelError(
                f"there are {predictions.n_rows} rows of predictions but {len(labels)} labels; "
                "pass one label per row."
            )
        weights = None
        if sample_weight is not None:
            sample_weight = _by_rows(sample_weight, predictions, "sample_weight", WeightError)
            weights = _parsed_weights(sample_weight, predictions.n_rows)
        return cls(predictions.without_origin(), labels, classes, weights)

    def _counted(self) -> Self | None:
        """Return the rows with a label and a positive weight; None if there are none."""
        data = self
        if data.labels.min() < 0:
            if data.labels.max() < 0:
                return None
            data = data.take(data.labels >= 0)
        if data.weights is not None and not data.weights.any():
            return None
        if data.shift_of_labels:
            warn_user(shift_warning(data.n_classes, data.shift_of_labels), CalibrationWarning)
        if data.weights is None or data.weights.min() > 0:
            return data
        return data.take(data.weights > 0)

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return self.predictions.n_rows

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return self.predictions.n_classes

    @property
    def shift_of_labels(self) -> int:
        """-1 if the labels look as if they started from 1, 1 if they look as if they started from -1, else 0."""
        if self.classes.dtype.kind not in "iu" or not np.array_equal(self.classes, np.arange(self.n_classes)):
            return 0
        if self.n_classes < 3 or (self.labels.min() == 0 and self.labels.max() == self.n_classes - 1):
            return 0
        return shift_of_labels(self.labels, self.predictions.predicted, self.n_classes)

    @property
    def total_weight(self) -> float:
        """Sum of the weights; the number of rows if there are none."""
        return float(self.n_rows if self.weights is None else self.weights.sum())

    @property
    def class_weights(self) -> NDArray[np.float64]:
        """Total weight of the rows of every class, (K,)."""
        return np.bincount(self.labels, self.weights, minlength=self.n_classes).astype(np.float64)

    def log_loss(self, predictions: Predictions | None = None) -> float:
        """Return the mean log-loss of these predictions, or of others for the same rows; infinite if a true class has zero.

        >>> data = LabelledPredictions.parse([[0.5, 0.5], [0.5, 0.5]], [0, 1])
        >>> round(data.log_loss(), 4), data.log_loss(Predictions.parse([[1, 0], [1, 0]]))
        (0.6931, inf)
        """
        return float(np.average(self.row_losses("log", predictions), weights=self.weights))

    def squared_error(self, predictions: Predictions | None = None) -> float:
        """Return the mean Brier score, summed over classes, of these predictions or of others for the same rows.

        >>> round(LabelledPredictions.parse([[0.9, 0.1]], [0]).squared_error(), 4)
        0.02
        """
        return float(np.average(self.row_losses("brier", predictions), weights=self.weights))

    def row_losses(
        self, loss: Literal["log", "brier"], predictions: Predictions | None = None
    ) -> NDArray[np.float64]:
        """Return the loss of every row, (n,), of these predictions or of others for the same rows."""
        predictions = self.predictions if predictions is None else predictions
        own = np.arange(self.n_rows), self.labels
        if loss == "brier":
            p = predictions.probabilities
            squares: NDArray[np.float64] = np.einsum("ij,ij->i", p, p, dtype=np.float64)
            return squares - 2.0 * p[own] + 1.0
        if predictions.space is Space.LOGITS:
            logarithms = predictions.log_probabilities[own].astype(np.float64)
        else:
            with np.errstate(divide="ignore"):
                logarithms = np.log(predictions.scores[own].astype(np.float64))
        return np.negative(logarithms, dtype=np.float64)

    def with_counting_weights(self) -> Self:
        """Return the same rows with weights whose mean is at least one, for methods that depend on the sample size.

        Weights with a larger mean are frequencies and stay. Smaller ones, such as weights that sum to one, are relative and
        are rescaled, so that they do not reduce the sample size.

        >>> LabelledPredictions.parse([[0.5, 0.5]] * 2, [0, 1], [0.25, 0.75]).with_counting_weights().weights
        array([0.5, 1.5])
        """
        if self.weights is None or (mean := float(self.weights.mean())) >= 1:
            return self
        return replace(self, weights=self.weights / mean)

    def with_bounded_weights(self, largest: float | None = None) -> Self:
        """Return the same rows with weights within ``SMALLEST_WEIGHT`` and ``LARGEST_WEIGHT``.

        ``largest`` is the largest weight of all rows of a fit, by default that of these rows.

        >>> data = LabelledPredictions.parse([[0.5, 0.5]], [0], [1.0])
        >>> data.with_bounded_weights(1e16).weights
        array([10000.])
        """
        if self.weights is None:
            return self
        largest = float(self.weights.max()) if largest is None else largest
        bounded = float(np.clip(largest, 1 / LARGEST_WEIGHT, LARGEST_WEIGHT))
        weights = self.weights if bounded == largest else self.weights / largest * bounded
        return replace(self, weights=np.maximum(weights, SMALLEST_WEIGHT * bounded))

    def take(self, rows: Any, weights: NDArray[np.float64] | None = None) -> Self:
        """Return some of the rows, with new ``weights`` if given."""
        if weights is None and self.weights is not None:
            weights = self.weights[rows]
        groups = None if self.groups is None else self.groups[rows]
        return type(self)(self.predictions.take(rows), self.labels[rows], self.classes, weights, groups)

    def restricted_to(self, columns: NDArray[np.intp]) -> Self:
        """Return the data for a subset of the classes; the label of every row must be among them."""
        codes = np.searchsorted(columns, self.labels)
        predictions = self.predictions.restricted_to(columns)
        return type(self)(predictions, codes, self.classes[columns], self.weights, self.groups)

    def with_class_order(self, order: NDArray[np.intp]) -> Self:
        """Return the data with the columns in another order; column j is that of class ``order[j]``."""
        predictions = self.predictions.with_class_order(order)
        labels = np.argsort(order)[self.labels]
        return type(self)(predictions, labels, self.classes[order], self.weights, self.groups)


def shift_warning(n_classes: int, shift: int) -> str:
    """Return the warning for labels that look shifted by one column."""
    first = -shift
    return (
        f"labels are taken as column numbers 0..{n_classes - 1}, but agree with the predicted classes far better as "
        f"{first}..{n_classes - 1 + first}; if they are, {NAME_COLUMNS}[{first}, ..., {n_classes - 1 + first}]."
    )


def are_swapped(X: Any, y: Any) -> bool:
    """Return whether labels and predictions were passed in the wrong order.

    >>> are_swapped([0, 1], [[0.9, 0.1], [0.2, 0.8]]), are_swapped(["no", "yes"], [0.1, 0.8]), are_swapped([0.1, 0.8], [0, 1])
    (True, True, False)
    """
    return not isinstance(X, Predictions) and _can_be_labels(X) and _can_only_be_predictions(y)


def _can_be_labels(X: Any) -> bool:
    try:
        given = np.asarray(on_host(X))
    except ValueError:  # rows of different lengths
        return False
    if given.size == 0 or given.ndim == 0 or given.size != len(given):
        return False
    return given.dtype.kind != "f" or bool((given == np.round(given)).all())


def _can_only_be_predictions(y: Any) -> bool:
    if isinstance(y, Predictions):
        return True
    try:
        given = np.asarray(on_host(y))
    except ValueError:
        return False
    if given.dtype.kind not in "fiub":
        return False
    return (given.ndim == 2 and given.shape[1] > 1) or bool((given != np.round(given)).any())


def _by_rows(
    values: Any, predictions: Predictions, what: str, error: type[LabelError] | type[WeightError]
) -> Any:
    """Flatten labels or weights that have the shape of the predictions without the class axis."""
    shape = None if predictions.origin is None else predictions.origin.shape
    values = on_host(values)
    if shape is None or np.shape(values) == (predictions.n_rows,):
        return values
    if np.shape(values) != shape:
        raise error(
            f"{what} must have the shape {shape} of the predictions without their class axis, but have shape "
            f"{np.shape(values)}; pass one value per position."
        )
    return np.asarray(values).reshape(-1)


def _parsed_weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    if np.iscomplexobj(sample_weight):
        raise WeightError("sample_weight must be real numbers; pass one per row.")
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise WeightError("sample_weight must be numbers; pass one per row.") from error
    if weights.shape != (n_rows,):
        raise WeightError(
            f"sample_weight must have one number per row, but has shape {weights.shape} for {n_rows} rows; "
            "pass a flat array of that length."
        )
    wrong = ~np.isfinite(weights) | (weights < 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise WeightError(
            f"sample_weight must be finite and not negative, but row {row} has {weights[row]}; "
            "set it to zero to leave the row out."
        )
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not np.isfinite(total):
        raise WeightError(NO_SUM)
    return weights
