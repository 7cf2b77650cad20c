"""Predictions: scores of a classifier, parsed once and declared as probabilities or logits."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray
from calibrant.errors import PredictionError
from calibrant.numerics.reductions import row_maxima, row_sums
from calibrant.numerics.row_blocks import BlockSums, row_blocks
from calibrant.numerics.simplex import (
    bounded_gaps,
    log_softmax,
    renormalised_restriction,
    softmax,
    with_floor,
)
from calibrant.origin import Origin, from_frame, on_host
from calibrant.remedies import USE_LOGITS
from calibrant.space import ROW_SUM_TOLERANCE, Space, look_like_probabilities

__all__ = ["FLOOR_WITHOUT_ZEROS", "ROW_SUM_TOLERANCE", "Predictions", "read_only"]

FLOOR_WITHOUT_ZEROS = float(np.finfo(np.float32).tiny)
"""Floor for zeros if the calibration set has none."""

LARGEST_LOGIT = 1e12
"""Bound on the absolute value of logits: beyond it, squares and sums would overflow in float32."""


@dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """Scores of n rows for K classes, declared as probabilities or logits.

    Create one with :meth:`from_probabilities` or :meth:`from_logits`. Calibrators and metrics take a plain array as
    probabilities. Scores keep their float type and are read-only; ``logits``, ``log_probabilities`` and
    ``probabilities`` are computed on first use and cached.

    Attributes
    ----------
    scores : ndarray of shape (n, K)
        Outputs of the classifier, read-only.
    space : Space
        Whether ``scores`` are probabilities or logits.
    classes : ndarray of shape (K,) or None
        Names of the columns, if given or taken from a data frame.
    declared_floor : float or None
        The ``floor`` passed by the user; None derives it from the rows, see the notes.
    ignore_label : int, str or None
        Fits and metrics ignore rows with this label.
    origin : Origin or None
        The input container, if it was not a NumPy array of rows: a tensor, an array with more axes, a data frame.

    Notes
    -----
    **Zeros.** Probabilities below ``floor`` count as ``floor`` in logarithms. By default, the floor is half of the smallest
    positive probability if zeros occur, and at most 1 / (2K): about 1/200 for a forest of 100 trees, about 1e-45 for a
    float32 softmax. Without zeros, it is below all probabilities, 1.2e-38 or less. A calibrator stores the floor of its
    calibration set. The text of :cite:`kull2019` clips at 2.2e-308 and its programs at 2.2e-16; set ``floor`` to
    reproduce them. For forests and nearest neighbours, such small floors make the logarithms of zeros dominate all others
    and increase the log-loss.

    **Huge logits.** Logits are clipped at 1e12 in absolute value, so that squares and sums never overflow. Masked classes
    may therefore hold ``-finfo.max``. If the largest logit of a row is out of bounds, it is first subtracted from the row,
    which changes neither the softmax nor the arg-max.

    **float16.** Half-precision scores are converted to float32. Rows of probabilities are divided by their sums, because
    rounding to three digits moves these away from one.

    Examples
    --------
    >>> predictions = Predictions.from_logits([[0.0, 2.0], [1.0, -1.0]])
    >>> predictions.probabilities.round(3)
    array([[0.119, 0.881], [0.881, 0.119]])
    >>> Predictions.from_probabilities([0.2, 0.9])        # the positive class of two
    Predictions(2 rows, 2 classes, probabilities, float64)
    """

    scores: FloatArray
    space: Space
    classes: NDArray[Any] | None = None
    declared_floor: float | None = None
    ignore_label: int | str | None = None
    origin: Origin | None = None

    @classmethod
    def from_probabilities(
        cls,
        probabilities: Any,
        *,
        classes: Any = None,
        floor: float | None = None,
        class_axis: int | None = None,
        ignore_label: int | str | None = None,
    ) -> Self:
        """Parse probabilities: (n, K), or (n,) or (n, 1) for the positive class of two.

        Parameters
        ----------
        probabilities : array, tensor, list, pandas or polars frame
            Non-negative, every row summing to one within :data:`~calibrant.predictions.ROW_SUM_TOLERANCE`.
        classes : sequence of K labels, optional
            Label of every column. By default, the column names of a data frame if they match the labels.
        floor : float, optional
            Smaller probabilities count as this value in logarithms; see the notes of the class.
        class_axis : int, optional
            Axis of the classes, for arrays of any number of axes: 1 for (B, K, H, W), -1 for (..., K). Every other
            position is a row.
        ignore_label : int or str, optional
            Label of rows that do not count in fits and metrics, such as -100 or 255.
        """
        matrix, origin = _as_matrix(probabilities, "probabilities", class_axis)
        _check_ignored(matrix, ignore_label, "probabilities", "equal probabilities")
        if floor is not None:
            _check_floor(floor)
        if matrix.shape[1] == 1:
            _check_probability_range(matrix)
            matrix = np.hstack([1 - matrix, matrix])
        else:
            tolerance = (
                ROW_SUM_TOLERANCE if origin is None else max(ROW_SUM_TOLERANCE, origin.row_sum_tolerance)
            )
            _check_probability_rows(matrix, tolerance)
            if origin is not None and origin.row_sum_tolerance > 0:
                matrix = matrix / row_sums(matrix)[:, np.newaxis]
        return cls._of(matrix, Space.PROBABILITIES, classes, floor, ignore_label, origin)

    @classmethod
    def from_logits(
        cls,
        logits: Any,
        *,
        classes: Any = None,
        allow_probabilities: bool = False,
        class_axis: int | None = None,
        ignore_label: int | str | None = None,
    ) -> Self:
        """Parse logits: (n, K) scores before the softmax, or (n,) or (n, 1) log-odds of the positive class.

        Any finite numbers are valid; log-probabilities are logits too. See the notes of the class on huge logits.

        Parameters
        ----------
        logits : array, tensor, list, pandas or polars frame
        classes : sequence of K labels, optional
            Label of every column. By default, the column names of a data frame if they match the labels.
        allow_probabilities : bool, default=False
            Accept rows that all lie between 0 and 1 and sum to one. By default they raise an error.
        class_axis : int, optional
            Axis of the classes, for arrays of any number of axes: 1 for (B, K, H, W), -1 for (..., K). Every other
            position is a row.
        ignore_label : int or str, optional
            Label of rows that do not count in fits and metrics, such as -100 or 255.
        """
        matrix, origin = _as_matrix(logits, "logits", class_axis)
        _check_ignored(matrix, ignore_label, "logits", "zeros")
        least, largest = float(matrix.min()), float(matrix.max())
        if not np.isfinite([least, largest]).all():
            _raise_not_finite(matrix, "logits", "replace masked classes by a large negative number")
        if max(-least, largest) > LARGEST_LOGIT:
            matrix = _bounded(matrix)
        in_range = least >= 0 and largest <= 1  # else sums of rows need not be looked at
        if in_range and not allow_probabilities and look_like_probabilities(matrix):
            raise PredictionError(
                "these look like probabilities, not logits: all are between 0 and 1 and every row sums to 1; use "
                "Predictions.from_probabilities, or pass from_logits(..., allow_probabilities=True)."
            )
        if matrix.shape[1] == 1:
            matrix = np.hstack([np.zeros_like(matrix), matrix])
        return cls._of(matrix, Space.LOGITS, classes, None, ignore_label, origin)

    @classmethod
    def _of(
        cls,
        matrix: FloatArray,
        space: Space,
        classes: Any,
        floor: float | None,
        ignore_label: Any,
        origin: Origin | None,
    ) -> Self:
        """Return checked scores with the names of the columns that were given, or those of a data frame."""
        names = _class_names(classes, None if origin is None else origin.columns, matrix)
        return cls(read_only(matrix), space, names, floor, _checked_ignore_label(ignore_label), origin)

    @classmethod
    def parse(cls, X: Any) -> "Predictions":
        """Return ``X`` itself if it is parsed already, else parse it as probabilities."""
        return X if isinstance(X, Predictions) else cls.from_probabilities(X)

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return int(self.scores.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return int(self.scores.shape[1])

    @cached_property
    def probabilities(self) -> FloatArray:
        """Probabilities, (n, K): the scores themselves, or the softmax of the logits."""
        if self.space is Space.PROBABILITIES:
            return self.scores
        return read_only(softmax(self.scores))

    @cached_property
    def log_probabilities(self) -> FloatArray:
        """Natural logarithms of the probabilities, (n, K), at least log(floor)."""
        if self.space is Space.LOGITS:
            return read_only(log_softmax(self.scores))
        with np.errstate(divide="ignore"):
            logarithms = np.log(self.scores)
        return read_only(np.maximum(logarithms, np.log(self.floor), out=logarithms, dtype=logarithms.dtype))

    @cached_property
    def floor(self) -> float:
        """Lower bound on probabilities in logarithms; see the notes on zeros."""
        if self.declared_floor is not None:
            return self.declared_floor
        if self.space is Space.LOGITS:
            return FLOOR_WITHOUT_ZEROS
        smallest = float(self.scores.min())
        if smallest == 0:
            smallest = float(self.scores.min(where=self.scores > 0, initial=np.inf))
            floor = smallest / 2
        else:
            floor = min(smallest / 2, FLOOR_WITHOUT_ZEROS)
        # A zero is less than 1/K, however coarse the scores; half of the smallest float64 would be zero.
        return max(min(floor, 0.5 / self.n_classes), float(np.nextafter(0, 1)))

    @property
    def logits(self) -> FloatArray:
        """Logits of the classifier, or log-probabilities if it returned probabilities."""
        return self.scores if self.space is Space.LOGITS else self.log_probabilities

    @cached_property
    def predicted(self) -> NDArray[np.intp]:
        """Column number of the largest score of every row (the first of equals)."""
        largest = np.empty(self.n_rows, dtype=np.intp)

        # In blocks, because NumPy copies a read-only array before it computes an arg-max.
        def find(rows: slice) -> int:
            self.scores[rows].argmax(axis=1, out=largest[rows])
            return 1

        with BlockSums.over(self.n_rows, self.n_classes, self.scores.itemsize) as in_all_blocks:
            in_all_blocks(find)
        return largest

    def take(self, rows: Any) -> Self:
        """Return some of the rows, chosen by an index array, a boolean mask or a slice."""
        origin = None if self.origin is None else self.origin.of_some_rows()
        taken = replace(self, scores=read_only(self.scores[rows]), origin=origin)
        for known in ("predicted", "probabilities"):
            if known in self.__dict__:  # already computed
                taken.__dict__[known] = self.__dict__[known][rows]
        return taken

    def as_given(self, rows: FloatArray) -> Any:
        """Return probabilities (n, K) of these rows in the shape, library, type and device of the input.

        >>> predictions = Predictions.from_logits(np.zeros((2, 3, 4, 4)), class_axis=1)
        >>> predictions.probabilities.shape, predictions.as_given(predictions.probabilities).shape
        ((32, 3), (2, 3, 4, 4))
        """
        return rows if self.origin is None else self.origin.array(rows)

    def without_origin(self) -> Self:
        """Return the same rows without origin and ignore label."""
        if self.origin is None and self.ignore_label is None:
            return self
        alone = replace(self, origin=None, ignore_label=None)
        for known in ("predicted", "probabilities", "log_probabilities"):
            if known in self.__dict__:
                alone.__dict__[known] = self.__dict__[known]
        return alone

    def with_floor(self, floor: float) -> Self:
        """Return the same predictions with another floor for zeros."""
        _check_floor(floor)
        return self if floor == self.declared_floor else replace(self, declared_floor=floor)

    def without_zeros(self) -> Self:
        """Return the same predictions with smaller probabilities raised to the floor; rows still sum to one.

        The arg-max of every row is preserved. The differences of logits are bounded so that their softmax has no zeros.

        >>> Predictions.from_probabilities([[1.0, 0.0], [0.9, 0.1]]).without_zeros().probabilities.round(3)
        array([[0.952, 0.048], [0.9  , 0.1  ]])
        """
        scores = (
            bounded_gaps(self.scores) if self.space is Space.LOGITS else with_floor(self.scores, self.floor)
        )
        return self if scores is self.scores else replace(self, scores=read_only(scores))

    def restricted_to(self, columns: NDArray[np.intp]) -> Self:
        """Return the predictions for a subset of the classes, conditional on the true class being among them."""
        if self.space is Space.PROBABILITIES:
            scores = renormalised_restriction(self.scores, columns)
        else:
            scores = self.scores[:, columns]
        classes = None if self.classes is None else self.classes[columns]
        return replace(self, scores=read_only(scores), classes=classes)

    def with_class_order(self, order: NDArray[np.intp]) -> Self:
        """Return the predictions with the columns in another order; column j is that of class ``order[j]``."""
        classes = None if self.classes is None else self.classes[order]
        return replace(self, scores=read_only(self.scores.take(order, axis=1)), classes=classes)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return (
            f"Predictions({self.n_rows} rows, {self.n_classes} classes, {self.space.value}, "
            f"{self.scores.dtype})"
        )


def _as_matrix(X: Any, what: str, class_axis: int | None) -> tuple[FloatArray, Origin | None]:
    """Return the input as a float32 or float64 matrix, and its origin."""
    if np.ma.is_masked(X):
        row = int(np.argmax(np.ma.getmaskarray(X).reshape(len(X), -1).any(axis=1)))
        raise PredictionError(f"{what} have masked entries, the first in row {row}; remove those rows.")
    origin = Origin.of(X)
    X = from_frame(X) if origin is not None and origin.columns is not None else on_host(X)
    if hasattr(X, "toarray"):
        raise PredictionError(f"{what} must be dense, but are a sparse matrix; pass X.toarray().")
    try:
        matrix = np.asarray(X)
    except ValueError as error:
        raise PredictionError(
            f"{what} must form a rectangular table, but rows differ in length; "
            "give the same number of classes in every row."
        ) from error
    if matrix.ndim == 0 and matrix.dtype.kind == "O":
        raise PredictionError(
            f"{what} must be a table of rows by classes, not {type(X).__name__}; pass an array."
        )
    if matrix.dtype.kind == "O":
        matrix = _numbers(matrix, None if origin is None else origin.columns, what)
    if matrix.dtype.kind not in "fiub":
        raise PredictionError(f"{what} must be real numbers, not {matrix.dtype}; convert them first.")
    single = matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 4
    matrix = matrix.astype(np.float32 if single else np.float64, copy=False)
    if class_axis is not None:
        matrix, origin = _as_rows(matrix, origin, what, class_axis)
    elif matrix.ndim == 1:
        matrix = matrix[:, np.newaxis]
    if matrix.size == 0:
        raise PredictionError(f"{what} are empty, of shape {matrix.shape}; at least one row is needed.")
    if matrix.ndim != 2:
        raise PredictionError(
            f"{what} must be a table of rows by classes, but have shape {matrix.shape}; for more axes pass "
            f"Predictions.from_{what}(x, class_axis=...)."
        )
    return matrix, origin


def _as_rows(
    array: FloatArray, origin: Origin | None, what: str, class_axis: int
) -> tuple[FloatArray, Origin | None]:
    """Move the axis of the classes to the end, and flatten all other axes into rows."""
    if not isinstance(class_axis, int | np.integer) or not -array.ndim <= class_axis < array.ndim:
        raise PredictionError(
            f"class_axis must be one of the {array.ndim} axes of the {what}, which have shape {array.shape}, "
            f"but is {class_axis!r}."
        )
    class_axis %= array.ndim
    if array.size == 0 or (array.ndim == 2 and class_axis == 1):
        return array, origin
    last = np.moveaxis(array, class_axis, -1)
    origin = replace(origin or Origin(), shape=last.shape[:-1], class_axis=int(class_axis))
    return last.reshape(-1, last.shape[-1]), origin


def _check_ignored(matrix: FloatArray, ignore_label: Any, what: str, filler: str) -> None:
    """Raise an error for rows that are not finite; only the labels tell which rows are ignored."""
    if ignore_label is not None and not np.isfinite(matrix).all():
        _raise_not_finite(matrix, what, f"rows with the ignore_label need numbers too, such as {filler}")


def _checked_ignore_label(label: Any) -> int | str | None:
    if label is None or isinstance(label, str):
        return label
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        return int(label)
    raise PredictionError(f"ignore_label must be an integer or a string, not {label!r}.")


def _numbers(objects: NDArray[np.object_], names: list[Any] | None, what: str) -> FloatArray:
    """Convert objects to floats; the error names the first that cannot be converted."""
    try:
        return objects.astype(np.float64)
    except (TypeError, ValueError) as error:
        for place, entry in np.ndenumerate(objects):
            try:
                float(entry)
            except (TypeError, ValueError):
                column = place[-1] if names is None else names[place[-1]]
                raise PredictionError(
                    f"{what} must be numbers, but row {place[0]}, column {column!r} is {entry!r}; "
                    "drop columns that hold no scores, and rows without scores."
                ) from error
        raise


def _check_floor(floor: float) -> None:
    if not 0.0 < floor < 1.0:
        raise PredictionError(f"floor must lie strictly between 0 and 1, but is {floor}.")


def _check_probability_rows(matrix: FloatArray, tolerance: float) -> None:
    """Raise an error for rows that are not probabilities; in blocks, to save memory."""
    ones = np.ones(matrix.shape[1], matrix.dtype)

    def n_wrong(rows: slice) -> int:
        block = matrix[rows]
        # A product with ones is several times as fast as sums of short rows.
        deviations = block @ ones
        deviations -= 1
        np.abs(deviations, out=deviations)
        return 0 if block.min() >= 0 and deviations.max() <= tolerance else 1  # wrong for NaN too

    with np.errstate(invalid="ignore", over="ignore"):
        if len(matrix) == 1:
            wrong = n_wrong(slice(None))
        else:
            with BlockSums.over(len(matrix), matrix.shape[1], matrix.itemsize) as in_all_blocks:
                wrong = in_all_blocks(n_wrong)
    if wrong:
        _raise_of_rows(matrix, tolerance)


def _raise_of_rows(matrix: FloatArray, tolerance: float) -> None:
    """Raise the error that names the first invalid row."""
    with np.errstate(invalid="ignore", over="ignore"):
        totals = matrix @ np.ones(matrix.shape[1], matrix.dtype)
    if not np.isfinite(totals).all():
        _raise_not_finite(matrix, "probabilities", "remove or repair those rows")
    if matrix.min() < 0:
        row, column = divmod(int(np.argmin(matrix)), matrix.shape[1])
        raise PredictionError(
            f"probabilities must not be negative, but row {row}, column {column} is "
            f"{matrix[row, column]:.6g}; for logits, {USE_LOGITS}."
        )
    deviations = np.abs(totals - 1)
    if deviations.max() > tolerance:
        row = int(np.argmax(deviations))
        raise PredictionError(
            f"rows must sum to 1 within {tolerance:g}, but row {row} sums to {totals[row]:.6g}; "
            f"for logits, {USE_LOGITS}; for unnormalised scores, divide rows by their sums."
        )


def _check_probability_range(matrix: FloatArray) -> None:
    if not np.isfinite(matrix).all():
        _raise_not_finite(matrix, "probabilities", "remove or repair those rows")
    outside = (matrix < 0) | (matrix > 1)
    if outside.any():
        row = int(np.argmax(outside))
        raise PredictionError(
            f"a single column is the probability of the positive class, from 0 to 1, but row {row} is "
            f"{matrix[row, 0]:.6g}; for log-odds, {USE_LOGITS}."
        )


def _bounded(logits: FloatArray) -> FloatArray:
    """Clip logits at :data:`LARGEST_LOGIT` in absolute value; the softmax of every row stays the same.

    >>> _bounded(np.array([[5.0, -1e300], [1e300, 9e299], [2.0, 1.0]]))
    array([[ 5.e+00, -1.e+12], [ 0.e+00, -1.e+12], [ 2.e+00,  1.e+00]])
    """
    bounded: FloatArray = np.empty(logits.shape, logits.dtype)
    for rows in row_blocks(len(logits), logits.shape[1], logits.itemsize):
        block = logits[rows]
        tops = row_maxima(block)[:, np.newaxis]
        with np.errstate(over="ignore"):
            gaps = np.where(np.abs(tops) > LARGEST_LOGIT, block - tops, block)
        np.maximum(gaps, -LARGEST_LOGIT, out=bounded[rows], dtype=logits.dtype)
    return bounded


def _raise_not_finite(matrix: FloatArray, what: str, advice: str) -> None:
    wrong = ~np.isfinite(matrix)
    if not wrong.any():
        raise PredictionError(f"{what} are too large to be added up; divide them by a constant first.")
    row, column = divmod(int(np.argmax(wrong)), matrix.shape[1])
    raise PredictionError(
        f"{what} must be finite, but row {row}, column {column} is {matrix[row, column]} "
        f"({int(wrong.any(axis=1).sum())} such rows); {advice}."
    )


def _class_names(given: Any, frame_names: list[Any] | None, matrix: FloatArray) -> NDArray[Any] | None:
    """Return the class names passed by the user, or those of a data frame if they can be labels."""
    n_classes = matrix.shape[1]
    if given is None:
        if frame_names is None or len(frame_names) != n_classes:
            return None
        usable = all(isinstance(name, str) for name in frame_names) or all(
            isinstance(name, (int, np.integer)) for name in frame_names
        )
        return np.asarray(frame_names) if usable and len(set(frame_names)) == n_classes else None
    names = np.asarray(given)
    if names.dtype.kind == "O":
        names = names.astype(str) if all(isinstance(name, str) for name in names) else names
    if names.shape != (n_classes,) or names.dtype.kind not in "iuU" or len(np.unique(names)) != n_classes:
        raise PredictionError(
            f"classes must be {n_classes} different strings or integers, one per column, but are {given!r}."
        )
    return names


def read_only(array: FloatArray) -> FloatArray:
    """Return a read-only view; the flags of the array itself stay."""
    view = array.view()
    view.flags.writeable = False
    return view
