"""Layout: which columns of Arrow rows hold scores, labels, weights and keys, and how a piece of rows is parsed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, NoReturn
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.errors import LabelError, ParameterError, PredictionError, WeightError
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["Layout", "Piece", "content_hash", "layout_of", "listed", "mixed", "part_of"]

SHOWN = 8  # names that a message lists
PIECE_ENTRIES = 2**20  # scores that are parsed at a time


@dataclass(frozen=True)
class Piece:
    """Some consecutive rows of a partition."""

    table: Any
    where: str  # File or partition, for messages
    first: int  # Number of rows of it before these

    def place(self, row: int) -> str:
        """Return where a row of this piece is, counted from one."""
        return f"{self.where}, row {self.first + row + 1:,}"


@dataclass(frozen=True)
class Layout:
    """Names of the columns and the meaning of the scores."""

    scores: tuple[str, ...]  # Score columns, one per class, or a single one of the second class of two
    space: Space
    label: str | None = None
    weight: str | None = None
    key: str | None = None
    dtype: str = "float64"  # Float type of the scores: float32 if all columns are at most that, else float64
    others: tuple[str, ...] = ()  # Further columns that are read

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        roles = [name for name in (self.label, self.weight, self.key) if name is not None]
        return list(dict.fromkeys([*self.scores, *roles, *self.others]))

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return max(2, len(self.scores))

    @property
    def piece_rows(self) -> int:
        """Number of rows that are parsed at a time."""
        return max(1024, PIECE_ENTRIES // len(self.scores))

    def check(self, schema: Any, where: str) -> None:
        """Refuse a file or partition that lacks one of the columns, or has other things than numbers as scores."""
        import pyarrow as pa

        for name in self.names:
            if name not in schema.names:
                raise PredictionError(
                    f"{where} has no column {name!r}, but only {listed(schema.names)}; give all partitions one schema."
                )
        for name in self.scores:
            kind = schema.field(name).type
            if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
                raise PredictionError(
                    f"{where} has {kind} in the score column {name!r}; give all partitions one schema with numbers there."
                )

    def predictions(self, piece: Piece) -> Predictions:
        """Return the parsed scores; an error names the row."""
        scores = self._scores(piece)
        parse = Predictions.from_logits if self.space is Space.LOGITS else Predictions.from_probabilities
        try:
            return parse(scores).without_origin()
        except PredictionError as error:
            self._explain(piece, scores, error)

    def _scores(self, piece: Piece) -> FloatArray:
        columns = [piece.table.column(name) for name in self.scores]
        scores = np.empty((piece.table.num_rows, len(columns)), self.dtype)
        for place, column in enumerate(columns):
            if column.null_count:
                row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise PredictionError(
                    f"{piece.place(row)}: column {self.scores[place]!r} has no value; remove or repair the row."
                )
            scores[:, place] = column.to_numpy(zero_copy_only=False)
        return scores

    def _explain(self, piece: Piece, scores: FloatArray, error: PredictionError) -> NoReturn:
        """Raise an error for the first row that is wrong, by its place in the partition."""
        wrong = ~np.isfinite(scores)
        what = "is"
        if not wrong.any() and self.space is Space.PROBABILITIES:
            wrong, what = (scores < 0) | (scores > 1 if len(self.scores) == 1 else False), "is out of range:"
        if wrong.any():
            row, column = divmod(int(np.argmax(wrong)), scores.shape[1])
            raise PredictionError(
                f"{piece.place(row)}: {self.space.value[:-1].replace('probabilitie', 'probability')} in column "
                f"{self.scores[column]!r} {what} {scores[row, column]}; remove or repair the row."
            ) from None
        if self.space is Space.PROBABILITIES:
            totals = scores.sum(axis=1)
            row = int(np.argmax(np.abs(totals - 1)))
            raise PredictionError(
                f"{piece.place(row)}: probabilities sum to {totals[row]:.6g} and not to 1; for logits pass "
                "space='logits'."
            ) from None
        raise PredictionError(f"{piece.place(0)} and those after it: {error}") from error

    def labels(self, piece: Piece) -> NDArray[Any]:
        """Return the labels, integers or strings."""
        import pyarrow as pa

        assert self.label is not None
        column = piece.table.column(self.label)
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise LabelError(f"{piece.place(row)}: there is no label; remove the row.")
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_floating(column.type):
            numbers = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
            wrong = numbers != np.round(numbers)
            if wrong.any():
                row = int(np.argmax(wrong))
                raise LabelError(
                    f"{piece.place(row)}: the label {numbers[row]} names no class; pass integers or strings."
                )
            return numbers.astype(np.int64)
        if pa.types.is_integer(column.type):
            return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            coded = column.dictionary_encode()
            names = np.array(coded.dictionary.to_pylist(), dtype=str)
            texts: NDArray[Any] = names[coded.indices.to_numpy(zero_copy_only=False)]
            return texts
        raise LabelError(
            f"{piece.where} has {column.type} in the label column {self.label!r}; labels must be integers or strings."
        )

    def codes(self, piece: Piece, labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
        """Return the column number of every label; an error names the row of an unknown one."""
        if (labels.dtype.kind == "U") != (classes.dtype.kind == "U"):
            raise LabelError(
                f"{piece.place(0)}: the label {labels[0].item()!r} is of another kind than the classes "
                f"{listed(classes.tolist())}; give all labels one type."
            )
        order = np.argsort(classes, kind="stable")
        places = np.searchsorted(classes, labels, sorter=order)
        places[places == len(classes)] = 0
        codes: NDArray[np.intp] = order[places]
        wrong = classes[codes] != labels
        if wrong.any():
            row = int(np.argmax(wrong))
            raise LabelError(
                f"{piece.place(row)}: the label {labels[row].item()!r} is not among the classes "
                f"{listed(classes.tolist())}; correct it, or pass classes=[...]."
            )
        return codes

    def weights(self, piece: Piece) -> Vector | None:
        """Return the weights, or None if all rows count once."""
        if self.weight is None:
            return None
        weights = np.asarray(piece.table.column(self.weight).to_numpy(zero_copy_only=False), dtype=np.float64)
        wrong = ~np.isfinite(weights) | (weights < 0)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise WeightError(
                f"{piece.place(row)}: the weight {weights[row]} is not a finite number of at least zero; set it to zero to "
                "leave the row out."
            )
        return weights

    def keys(self, piece: Piece) -> NDArray[np.uint64] | None:
        """Return a hash of the key of every row, equal for equal keys; None without a key column."""
        if self.key is None:
            return None
        coded = piece.table.column(self.key).dictionary_encode()
        names = coded.dictionary.to_pylist()
        hashes = np.array([crc32(repr(name).encode()) for name in names], dtype=np.uint64)
        of_rows: NDArray[np.uint64] = mixed(hashes)[coded.indices.to_numpy(zero_copy_only=False)]
        return of_rows


def layout_of(
    schema: Any,
    columns: str | Sequence[str],
    space: str,
    *,
    label: str | None = None,
    weight: str | None = None,
    key: str | None = None,
) -> Layout:
    """Find the columns in a schema; score columns are given by name, or by a pattern such as ``p_*``."""
    import pyarrow as pa

    if space not in list(Space):
        raise ParameterError(f"space must be 'probabilities' or 'logits', not {space!r}.")
    names = schema.names
    if isinstance(columns, str):
        chosen = [columns] if columns in names else [name for name in names if fnmatchcase(name, columns)]
        chosen = [name for name in chosen if name not in (label, weight, key)]
    else:
        chosen = list(columns)
    if not chosen:
        raise ParameterError(f"no column matches columns={columns!r}; there are {listed(names)}.")
    if len(set(chosen)) < len(chosen):
        raise ParameterError(f"columns must be different, but are {listed(chosen)}.")
    layout = Layout(tuple(chosen), Space(space), label, weight, key)
    for name in layout.names:
        if name not in names:
            raise ParameterError(f"there is no column {name!r}; there are {listed(names)}.")
    layout.check(schema, "the table")
    short = (pa.float32(), pa.float16())
    if all(schema.field(name).type in short for name in chosen):
        layout = replace(layout, dtype="float32")
    return layout


def listed(values: Sequence[Any]) -> str:
    """Return the first few values, separated by commas."""
    shown = ", ".join(repr(value) for value in list(values)[:SHOWN])
    return f"{shown} and {len(values) - SHOWN} more" if len(values) > SHOWN else shown


GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64 bits: the finaliser of splitmix64, in which every bit depends on all others.

    >>> mixed(np.arange(2, dtype=np.uint64)).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    values = values + GOLDEN
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return found


def content_hash(scores: FloatArray, labels: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return a hash of the scores and the label of every row; float32 scores and the same in float64 give one hash."""
    hashes = labels.astype(np.uint64)
    for column in scores.T:
        bits = (column.astype(np.float64) + 0.0).view(np.uint64)  # plus zero: -0.0 is 0.0
        hashes = mixed(hashes ^ bits)
    return hashes


def part_of(hashes: NDArray[np.uint64], n_parts: int, salt: int) -> NDArray[np.intp]:
    """Return one of n parts for every row, as good as random and independent for different salts.

    >>> np.bincount(part_of(np.arange(1000, dtype=np.uint64), 4, 0)).tolist()
    [239, 274, 233, 254]
    """
    salted = mixed(hashes ^ mixed(np.array([salt], dtype=np.uint64)))
    return (salted % np.uint64(n_parts)).astype(np.intp)
