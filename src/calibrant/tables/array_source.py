"""Files of arrays: an array of scores, with arrays of labels, weights and groups."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileFormatError, LabelError, PredictionError, WeightError
from calibrant.remedies import CHOOSE_ARRAY, CHOOSE_LABEL_FILE
from calibrant.space import Space
from calibrant.tables.columns import ScoreColumns, check_column, listed
from calibrant.tables.source import (
    Batch,
    Names,
    Source,
    check_finite,
    check_names,
    check_no_nul,
    check_weights,
)

__all__ = ["ArraySource"]

USUAL_NAMES = {
    Space.PROBABILITIES: ("probabilities", "probs", "proba", "y_proba", "p"),
    Space.LOGITS: ("logits", "z"),
}
CLASS_NAMES = ("classes", "class_names")
LAST_CODE_POINT = 0x10FFFF


class ArrayFile(Protocol):
    """Arrays of an open file by name."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...

    def array(self, name: str) -> NDArray[Any]:
        """Return one array."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class ArrayBatch(Batch):
    """Rows of arrays of the same length."""

    def __init__(self, source: "ArraySource", first_row: int, n_rows: int) -> None:
        self._source, self.path, self.first_row, self.n_rows = source, source.path, first_row, n_rows

    def place(self, row: int) -> str:
        """Return row and index."""
        return f"{super().place(row)} (index {self.first_row + self.number(row)})"

    def scores(self, columns: Sequence[str]) -> NDArray[np.floating]:
        """Return the array of scores, (n, K), in its floating type."""
        (name,) = columns
        values = self._rows(name)
        if values.dtype.kind not in "fiub":
            raise PredictionError(
                f"{self.path}: the array {name!r} is of type {values.dtype}; it must be numeric."
            )
        single = values.dtype.kind == "f" and values.dtype.itemsize <= 4
        scores: NDArray[np.floating] = np.array(values, dtype=np.float32 if single else np.float64)
        scores = scores.reshape(self.n_rows, -1)
        check_finite(scores, self.path, (), self.place)
        return scores

    def names(self, column: str) -> Names:
        """Return text as text, and integers as integers."""
        return Names.of(self._labels(column))

    def _labels(self, column: str) -> NDArray[Any]:
        path, values = self.path, np.array(self._flat(column, LabelError))
        if values.dtype.kind in "SU":
            values = _as_text(values, path, column)
            check_no_nul(_has_nul(values), path, column, self.place)
            check_names(np.char.str_len(values) == 0, path, column, self.place)
            return values
        if values.dtype.kind == "f":
            check_names(np.isnan(values), path, column, self.place)
            broken = values != np.round(values)
            if broken.any():
                row = int(np.argmax(broken))
                raise LabelError(
                    f"{path}: {self.place(row)}, array {column!r} is {values[row]:g}; labels and groups must be integers or text."
                )
        elif values.dtype.kind not in "iub":
            raise LabelError(
                f"{path}: the array {column!r} is of type {values.dtype}; labels and groups must be integers or text."
            )
        return values.astype(np.int64)

    def weights(self, column: str) -> NDArray[np.float64]:
        """Return an array of weights."""
        values = self._flat(column, WeightError)
        if values.dtype.kind not in "fiub":
            raise WeightError(
                f"{self.path}: the array {column!r} is of type {values.dtype}; it must be numeric."
            )
        weights = np.array(values, dtype=np.float64)
        check_weights(weights, self.path, column, self.place)
        return weights

    def missing_numbers(self, column: str) -> NDArray[np.bool_]:
        """Return which rows have no number."""
        values = self._rows(column)
        missing = np.zeros(self.n_rows, bool)
        if values.dtype.kind == "f":
            missing |= np.isnan(values).reshape(self.n_rows, -1).any(axis=1)
        return missing

    def missing_names(self, column: str) -> NDArray[np.bool_]:
        """Return which rows have no value, or an empty text."""
        values = np.asarray(self._flat(column, LabelError))
        missing = np.zeros(self.n_rows, bool)
        if values.dtype.kind == "f":
            missing |= np.isnan(values)
        if values.dtype.kind in "SU":
            missing |= np.char.str_len(values) == 0
        return missing

    def take(self, kept: NDArray[np.bool_]) -> "ArrayBatch":
        """Return some of the rows."""
        taken = ArrayBatch(self._source, self.first_row, int(kept.sum()))
        taken.kept = np.flatnonzero(kept)
        return taken

    def _rows(self, name: str) -> NDArray[Any]:
        rows = self._source.array(name)
        if self.kept is not None:
            return rows[self.first_row + self.kept]
        return rows[self.first_row : self.first_row + self.n_rows]

    def _flat(self, name: str, error_type: type[ValueError]) -> NDArray[Any]:
        shape = self._source.shapes[name]
        if len(shape) == 2 and shape[1] == 1:
            return self._rows(name)[:, 0]
        if len(shape) != 1:
            raise error_type(
                f"{self.path}: the array {name!r} has shape {shape}; one entry per row is needed."
            )
        return self._rows(name)


class ArraySource(Source):
    """A file of arrays, which have the role of columns."""

    def __init__(self, path: Path, members: ArrayFile) -> None:
        self.path, self.members = path, members
        self.columns = members.names
        self.shapes = dict(members.shapes)
        self._arrays: dict[str, NDArray[Any]] = {}
        self.score_name: str | None = None
        if not self.columns:
            raise FileFormatError(f"{path} has no arrays; save an array of scores.")

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Add an array of another file, such as that of the labels."""
        self.columns = (*self.columns, name)
        self.shapes[name] = array.shape
        self._arrays[name] = array

    def label_column(self, label: str | None) -> str:
        """Return the array of labels."""
        if label is None and len(self.columns) == 1:
            raise LabelError(
                f"{self.path} has one array, {listed(self.columns)}; {CHOOSE_LABEL_FILE}, such as labels.npy."
            )
        return super().label_column(label)

    def array(self, name: str) -> NDArray[Any]:
        """Return one array; always the same object."""
        if name not in self._arrays:
            self._arrays[name] = self.members.array(name)
        return self._arrays[name]

    def batches(
        self,
        n_rows: int,
        columns: Sequence[str] | None = None,
        numbers: Sequence[str] = (),  # noqa: ARG002
    ) -> Iterator[ArrayBatch]:
        """Yield all rows of the required arrays."""
        needed = [*(columns or []), *([] if self.score_name is None else [self.score_name])]
        lengths = {name: self.shapes[name][:1] for name in needed or self.columns[:1]}
        first = next(iter(lengths))
        for name, length in lengths.items():
            if length != lengths[first] or not length:
                raise FileFormatError(
                    f"{self.path}: the arrays {first!r} and {name!r} have the shapes {self.shapes[first]} and "
                    f"{self.shapes[name]}; one entry per row is needed in both."
                )
        total = lengths[first][0]
        if total == 0:
            raise FileFormatError(
                f"{self.path}: the array {first!r} has no rows; at least one row is needed."
            )
        for start in range(0, total, n_rows):
            yield ArrayBatch(self, start, min(n_rows, total - start))

    def score_columns(self, columns: str | None, taken: Sequence[str], space: Space) -> ScoreColumns:
        """Return the requested array, or the one with a usual name, or the only two-dimensional one."""
        if columns is not None:
            check_column(self.path, self.columns, columns, "score")
            name = columns
        else:
            name = self._usual(taken, space)
        shape = self.shapes[name]
        if len(shape) not in (1, 2) or 0 in shape:
            raise PredictionError(
                f"{self.path}: the array {name!r} has shape {shape}; it must be (rows, classes), or have one score per row."
            )
        self.score_name = name
        n_columns = shape[1] if len(shape) == 2 else 1
        return ScoreColumns((name,), self._class_names(n_columns))

    def usual_arrays(self, space: Space) -> list[str]:
        """Return the arrays with a usual name of scores in this space."""
        return [name for name in self.columns if name in USUAL_NAMES[space]]

    def approximate_rows(self) -> int:
        """Return the number of rows."""
        return max(self.shapes[self.score_name or self.columns[0]][0], 1)

    def close(self) -> None:
        """Close the file."""
        self._arrays.clear()
        self.members.close()

    def _usual(self, taken: Sequence[str], space: Space) -> str:
        usual = self.usual_arrays(space)
        tables = [name for name in self.columns if name not in taken and len(self.shapes[name]) == 2]
        for found in (usual, tables):
            if len(found) == 1:
                return found[0]
        raise PredictionError(
            f"{self.path}: {CHOOSE_ARRAY} {space.value}; there are {listed(usual or tables or self.columns)}."
        )

    def _class_names(self, n_columns: int) -> tuple[str, ...]:
        for name in self.columns:
            if name in CLASS_NAMES and self.shapes[name] == (n_columns,):
                found = self.array(name)
                if found.dtype.kind in "SU":
                    found = _as_text(np.array(found), self.path, name)
                return tuple(str(one) for one in found.tolist())
        return tuple(str(number) for number in range(n_columns))


def _as_text(values: NDArray[Any], path: Path, name: str) -> NDArray[np.str_]:
    """Return text, decoded from UTF-8 if it is bytes; reject invalid text."""
    sentence = f"{path}: the array {name!r} is not Unicode text; write it again."
    if values.dtype.kind == "S":
        try:
            return np.char.decode(values, "utf-8")
        except UnicodeDecodeError as error:
            raise FileFormatError(sentence) from error
    if (_codes(values) > LAST_CODE_POINT).any():
        raise FileFormatError(sentence)
    return values


def _codes(texts: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the code points of texts, (n, longest), padded with zeros."""
    kind = np.dtype("u4").newbyteorder(texts.dtype.byteorder)
    codes: NDArray[np.uint32] = np.ascontiguousarray(texts).view(kind)
    return codes.reshape(len(texts), -1) if texts.dtype.itemsize else np.zeros((len(texts), 1), np.uint32)


def _has_nul(texts: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which texts have a zero before their end."""
    codes = _codes(texts)
    found: NDArray[np.bool_] = ((codes[:, :-1] == 0) & (codes[:, 1:] != 0)).any(axis=1)
    return found
