"""Sources, batches and sinks: what every file format implements, and the checks of cells that all share."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import (
    FileFormatError,
    LabelError,
    MissingExtraError,
    ParameterError,
    PredictionError,
    WeightError,
)
from calibrant.presentation.sentences import counted
from calibrant.remedies import CHOOSE_LABELS, DROP_MISSING, DROP_ROWS
from calibrant.space import Space
from calibrant.tables.columns import ScoreColumns, check_column, columns_asked_for, default_columns, listed

__all__ = [
    "LABEL_NAMES",
    "MISSING",
    "Batch",
    "ColumnBatch",
    "ColumnSource",
    "CompleteRows",
    "Names",
    "NoRowsError",
    "Sink",
    "Source",
    "as_integers",
    "check_finite",
    "check_names",
    "check_no_nul",
    "check_weights",
    "dropped_sentence",
    "pyarrow_module",
    "usual_labels",
]

LABEL_NAMES = ("label", "labels", "y", "y_true", "target")
"""Default names of the label column."""

FURTHER_LABEL_NAMES = {
    *LABEL_NAMES,
    *("targets", "y_test", "y_val", "class", "true_class", "true_label", "truth", "ground_truth", "actual"),
}
"""Names of the label column, in lower case, if no column has a default name."""

MISSING = {"", "na", "nan", "n/a", "null", "none", "<na>", "#n/a"}
"""Texts for a missing number, in lower or upper case."""

Place = Callable[[int], str]
"""Function that describes the position of a row for error messages."""

INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.0+)?")


class NoRowsError(FileFormatError):
    """The file has columns but no rows."""


@dataclass(frozen=True, eq=False)
class Names:
    """A column of labels or groups: distinct values, and the value of every row."""

    codes: NDArray[np.intp]  # (n,): position in ``values`` for every row
    values: NDArray[Any]  # (m,): distinct text or integers

    @classmethod
    def of(cls, array: NDArray[Any]) -> Self:
        """Encode an array of text or integers."""
        values, codes = np.unique(array, return_inverse=True)
        return cls(codes.reshape(-1), values)

    @property
    def array(self) -> NDArray[Any]:
        """The value of every row, (n,)."""
        return self.values[self.codes]

    def renamed(self, values: NDArray[Any]) -> "Names":
        """Return the same rows with other values, some of which may be equal."""
        distinct = Names.of(values)
        return Names(distinct.codes[self.codes], distinct.values)

    def first_row(self, code: int) -> int:
        """Return the first row with a value."""
        return int(np.argmax(self.codes == code))


def usual_labels(columns: Sequence[str]) -> list[str]:
    """Return the columns with a default name of labels; if there are none, those with a further usual name.

    >>> usual_labels(["class", "y", "p"]), usual_labels(["True_Class", "p"])
    (['y'], ['True_Class'])
    """
    found = [name for name in columns if name in LABEL_NAMES]
    return found or [name for name in columns if name.lower().replace(" ", "_") in FURTHER_LABEL_NAMES]


class Batch(ABC):
    """Consecutive rows of a file; columns are converted on request.

    Attributes
    ----------
    path : Path
        The file of these rows.
    first_row : int
        Number of preceding rows in the file.
    n_rows : int
    kept : ndarray or None
        Numbers of the remaining rows, if some were dropped.
    """

    path: Path
    first_row: int
    n_rows: int
    kept: NDArray[np.intp] | None = None

    @abstractmethod
    def scores(self, columns: Sequence[str]) -> NDArray[np.floating]:
        """Return these columns as finite numbers, (n, K); a PredictionError names the first invalid cell."""

    @abstractmethod
    def names(self, column: str) -> Names:
        """Return labels or groups as text or integers; a LabelError names the first missing one."""

    @abstractmethod
    def weights(self, column: str) -> NDArray[np.float64]:
        """Return weights, (n,); a WeightError names the first that is not a non-negative number."""

    def missing_numbers(self, column: str) -> NDArray[np.bool_]:  # noqa: ARG002
        """Return which rows have no number in a column of scores or weights."""
        raise self._not_dropping()

    def missing_names(self, column: str) -> NDArray[np.bool_]:  # noqa: ARG002
        """Return which rows have no value in a column of labels or groups."""
        raise self._not_dropping()

    def take(self, kept: NDArray[np.bool_]) -> "Batch":  # noqa: ARG002
        """Return some of the rows, which keep their positions for messages."""
        raise self._not_dropping()

    def _not_dropping(self) -> ParameterError:
        return ParameterError(
            f"{self.path}: rows with missing values cannot be dropped in this format; remove them first."
        )

    def number(self, row: int) -> int:
        """Return the number of a row among those of the batch as it was read."""
        return row if self.kept is None else int(self.kept[row])

    def place(self, row: int) -> str:
        """Return the position of a row of this batch in the file, counted from one.

        Text files add the line number, array files the index.
        """
        return f"row {self.first_row + self.number(row) + 1}"


class ColumnBatch(Batch):
    """Rows of a table, in which every class has a column of its own."""

    @abstractmethod
    def numbers(self, column: str, error_type: type[ValueError] = PredictionError) -> NDArray[np.floating]:
        """Return a numeric column, NaN for missing values."""

    def scores(self, columns: Sequence[str]) -> NDArray[np.floating]:
        """Return the values of these columns, (n, K); float32 if all columns are."""
        scores = np.column_stack([self.numbers(column) for column in columns])
        check_finite(scores, self.path, tuple(columns), self.place)
        return scores

    def weights(self, column: str) -> NDArray[np.float64]:
        """Return a column of weights."""
        weights = self.numbers(column, WeightError).astype(np.float64)
        check_weights(weights, self.path, column, self.place)
        return weights

    def _integers(self, values: NDArray[np.float64], column: str) -> NDArray[np.int64]:
        """Return labels or groups that are whole numbers; reject others."""
        broken = values != np.round(values)
        if broken.any():
            row = int(np.argmax(broken))
            raise LabelError(
                f"{self.path}: {self.place(row)}, column {column!r} is {values[row]:g}; labels and groups must be integers "
                "or text."
            )
        return values.astype(np.int64)


class Source(ABC):
    """A file of predictions that is open for reading; a context manager.

    Attributes
    ----------
    path : Path
    columns : tuple of str
        Names of all columns, or of all arrays.
    """

    path: Path
    columns: tuple[str, ...]

    @abstractmethod
    def batches(
        self, n_rows: int, columns: Sequence[str] | None = None, numbers: Sequence[str] = ()
    ) -> Iterator[Batch]:
        """Yield all rows in batches of at most ``n_rows``.

        Parameters
        ----------
        n_rows : int
        columns : sequence of str, optional
            The columns to read; by default all of them, so that the batches can be written again.
        numbers : sequence of str
            Columns that will be read as numbers only, which a text format may parse at once.
        """

    @abstractmethod
    def score_columns(self, columns: str | None, taken: Sequence[str], space: Space) -> ScoreColumns:
        """Return the score columns: those requested, or all numeric columns without another role."""

    @abstractmethod
    def approximate_rows(self) -> int:
        """Return the number of rows, or an estimate if counting them would require reading the file."""

    def column(self, name: str, role: str) -> str:
        """Return the name of a column, or raise an error if the file does not have it."""
        check_column(self.path, self.columns, name, role)
        return name

    def label_column(self, label: str | None) -> str:
        """Return the label column: the requested one, or the only one with a usual name."""
        if label is not None:
            return self.column(label, "label")
        found = usual_labels(self.columns)
        if len(found) == 1:
            return found[0]
        raise LabelError(f"{self.path}: {CHOOSE_LABELS}; there are {listed(found or self.columns)}.")

    def close(self) -> None:  # noqa: B027 (nothing to close unless a file stays open)
        """Close the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ColumnSource(Source):
    """A file in which every class has a column of its own; abstract."""

    @abstractmethod
    def numeric_columns(
        self, taken: Sequence[str]
    ) -> tuple[list[str], Callable[[str], NDArray[np.floating]]]:
        """Return the columns with numbers in the first rows, except for some, and a function that reads these rows."""

    def score_columns(self, columns: str | None, taken: Sequence[str], space: Space) -> ScoreColumns:  # noqa: ARG002
        """Return the requested columns, or all numeric ones without another role."""
        if columns is not None:
            return columns_asked_for(self.path, self.columns, columns)
        return default_columns(self.path, *self.numeric_columns(taken))


class Sink(ABC):
    """Writer of the batches of a source with new scores; everything else is unchanged.

    It is made with the arguments of ``writer`` of a :class:`~calibrant.tables.Format`.
    """

    drops_rows: ClassVar[bool] = False
    """Whether some of the rows of a source may be written."""

    @abstractmethod
    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:
        """Write the rows of a batch with these scores, (n, K)."""

    @abstractmethod
    def finish(self) -> None:
        """Write the end of the file."""


def check_finite(scores: NDArray[np.floating], path: Path, columns: tuple[str, ...], place: Place) -> None:
    """Reject scores, (n, K), with missing or infinite values."""
    if np.isfinite(scores.sum(dtype=np.float64)):  # cheaper than a look at every score; sums may overflow
        return
    wrong = ~np.isfinite(scores)
    if not wrong.any():
        return
    row, number = divmod(int(np.argmax(wrong)), scores.shape[1])
    column = f"column {columns[number]!r}" if len(columns) > number else f"column {number}"
    what = "has no value" if np.isnan(scores[row, number]) else f"is {scores[row, number]}"
    n_rows = int(wrong.any(axis=1).sum())
    more = f" ({n_rows} such rows up to here)" if n_rows > 1 else ""
    raise PredictionError(
        f"{path}: {place(row)}, {column} {what}{more}; scores must be finite numbers, so {DROP_ROWS}."
    )


def check_names(missing: NDArray[np.bool_], path: Path, column: str, place: Place) -> None:
    """Reject labels or groups with missing values."""
    if missing.any():
        raise LabelError(
            f"{path}: {place(int(np.argmax(missing)))}, column {column!r} is empty; {DROP_MISSING}."
        )


def check_no_nul(found: NDArray[np.bool_], path: Path, column: str, place: Place) -> None:
    """Reject labels or groups with NUL characters, which numpy drops at the end of text."""
    if found.any():
        raise LabelError(
            f"{path}: {place(int(np.argmax(found)))}, column {column!r} has a NUL character; remove it from the text."
        )


def check_weights(weights: NDArray[np.float64], path: Path, column: str, place: Place) -> None:
    """Reject weights that are missing, infinite or negative."""
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        what = "has no value" if np.isnan(weights[row]) else f"is {weights[row]:g}"
        raise WeightError(
            f"{path}: {place(row)}, column {column!r} {what}; weights must be finite and not negative."
        )


def as_integers(names: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return names as integers if all are integers, also as text; else None.

    >>> as_integers(np.array(["0", "-1", "2.0"])), as_integers(np.array(["007"]))
    (array([ 0, -1,  2]), None)
    """
    if names.dtype.kind in "iu":
        return names.astype(np.int64)
    if names.dtype.kind != "U" or not all(INTEGER.fullmatch(name) for name in names.tolist()):
        return None
    return np.array([int(name.partition(".")[0]) for name in names.tolist()], dtype=np.int64)


def pyarrow_module() -> Any:
    """Return pyarrow, or raise an error that says how to install it."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise MissingExtraError("pyarrow", "cli") from error
    return pyarrow


class CompleteRows:
    """Function that returns the rows of a batch in which no score is missing, and counts the others."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns, self.n_dropped = tuple(columns), 0

    def __call__(self, batch: Batch) -> Batch:
        """Return the complete rows of a batch."""
        missing = np.zeros(batch.n_rows, bool)
        for name in self._columns:
            missing |= batch.missing_numbers(name)
        self.n_dropped += int(missing.sum())
        return batch.take(~missing) if missing.any() else batch

    @property
    def note(self) -> str | None:
        """Sentence on the rows that were left out; None if there are none."""
        return dropped_sentence(self.n_dropped) if self.n_dropped else None


def dropped_sentence(n_rows: int) -> str:
    """Return a sentence on rows with a missing value.

    >>> dropped_sentence(2)
    '2 rows with a missing value were dropped.'
    """
    return f"{counted(n_rows, 'row')} with a missing value {'was' if n_rows == 1 else 'were'} dropped."
