"""Rows in partitions: the source of rows of fits and metrics, wherever the partitions are."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.distributed.engine import Engine, Task
from calibrant.distributed.layout import Layout, Piece, content_hash, listed, mixed, part_of
from calibrant.errors import LabelError, ParameterError, WeightError
from calibrant.labelled_predictions import LARGEST_WEIGHT, NO_SUM, SMALLEST_WEIGHT, LabelledPredictions
from calibrant.labels import encode_labels
from calibrant.numerics.row_blocks import State
from calibrant.objective.rows import ArrayRows, Block, FeatureRows
from calibrant.objective.source import RowSource, floor_of
from calibrant.options import is_whole
from calibrant.predictions import Predictions, read_only
from calibrant.space import Space

__all__ = ["PartitionedSource", "Smallest", "parts_of_rows"]

Change = Callable[[LabelledPredictions], LabelledPredictions]
Features = Callable[[Predictions], FloatArray]
Labels = Callable[[NDArray[np.intp]], NDArray[Any]]

# Salts: folds, parts of a jackknife and samples are independent of each other.
FOLDS, JACKKNIFE, SAMPLE, OTHERS = 1, 2, 3, 4

# A pass over partitions costs so much more than a Hessian of this many parameters that every pass computes it.
DENSE_PARAMETERS = 256


@dataclass(frozen=True)
class Fold:
    """The rows of one fold, or all others."""

    n_folds: int
    number: int
    held_out: bool
    salt: int

    def keeps(self, data: LabelledPredictions) -> NDArray[np.bool_]:
        """Tell which rows are kept."""
        is_own: NDArray[np.bool_] = part_of(_hashes(data), self.n_folds, self.salt) == self.number
        return is_own if self.held_out else ~is_own


def _hashes(data: LabelledPredictions) -> NDArray[np.uint64]:
    """Return the hash of the key of every row if there are keys, else that of its scores and label."""
    if data.groups is not None:
        return data.groups
    return content_hash(data.predictions.scores, data.labels)


def parts_of_rows(data: LabelledPredictions, n_parts: int) -> NDArray[np.intp]:
    """Return one of n parts for every row, by a hash of its key or content; independent of the folds."""
    return part_of(_hashes(data), n_parts, JACKKNIFE)


@dataclass(frozen=True, eq=False)
class Reading:
    """Parser of a piece of rows into labelled predictions, for workers; it can be pickled."""

    layout: Layout
    classes: NDArray[Any]  # (K,)
    floor: float
    largest_weight: float  # Of all rows
    folds: tuple[Fold, ...] = ()  # Which rows are kept
    changes: tuple[Change, ...] = ()  # Applied to every batch, in this order

    def __call__(self, piece: Piece) -> LabelledPredictions | None:
        """Return the rows, or None if none of them counts."""
        layout = self.layout
        predictions = layout.predictions(piece)
        return self.completed(
            predictions,
            layout.codes(piece, layout.labels(piece), self.classes),
            layout.weights(piece),
            layout.keys(piece),
        )

    def completed(
        self,
        predictions: Predictions,
        labels: NDArray[np.intp],
        weights: Vector | None = None,
        keys: NDArray[np.uint64] | None = None,
    ) -> LabelledPredictions | None:
        """Return parsed rows with the floor and the weights of all rows, after all changes."""
        names = None if np.array_equal(self.classes, np.arange(len(self.classes))) else self.classes
        predictions = replace(predictions, classes=names).with_floor(self.floor)
        data = LabelledPredictions(predictions, labels, self.classes, weights, keys)
        if weights is not None:
            counts = weights > 0
            if not counts.all():
                if not counts.any():
                    return None
                data = data.take(counts)
            data = data.with_bounded_weights(self.largest_weight)
        for fold in self.folds:
            kept = np.flatnonzero(fold.keeps(data))
            if len(kept) == 0:
                return None
            data = data.take(kept)
        for change in self.changes:
            data = change(data)
        return data


class PartitionedSource(RowSource):
    """Labelled predictions in partitions, for fits and metrics that are sums over rows.

    Use :meth:`of`.
    """

    def __init__(
        self,
        engine: Engine | None,
        reading: Reading,
        first: LabelledPredictions,
        n_rows: int,
        *,
        class_weights: Vector | None = None,
    ) -> None:
        self._engine, self.reading, self.first = engine, reading, first
        self.n_rows, self.classes = n_rows, first.classes
        self.is_weighted = reading.layout.weight is not None
        if class_weights is not None:
            self.__dict__["class_weights"] = class_weights

    @classmethod
    def of(cls, engine: Engine, layout: Layout, classes: Sequence[Any] | None = None) -> Self:
        """Read all rows once: check them, and find the classes, the floor and the weights."""
        found: Survey = engine.summed(Task(layout, surveyed(layout)))
        columns = classes_of(found, layout, classes)
        floor = floor_of(found.smallest, found.has_zero, layout.n_classes)
        smallest, largest = found.weight_range
        reading = Reading(layout, columns, floor, largest)
        weights = np.zeros(len(columns))
        places = {label: place for place, label in enumerate(columns.tolist())}
        unknown = [label for label in found.labels if label not in places]
        if not unknown:
            for label, seen in found.labels.items():
                weights[places[label]] = seen.weight
        with np.errstate(over="ignore"):
            if not np.isfinite(weights.sum()):
                raise WeightError(NO_SUM)
        parse = Predictions.from_logits if layout.space == "logits" else Predictions.from_probabilities
        scores = found.scores if len(layout.scores) > 1 else found.scores[:, -1:]
        predictions = parse(scores).without_origin()
        first = reading.completed(
            predictions, np.zeros(1, dtype=np.intp), np.ones(1) if layout.weight else None
        )
        assert first is not None
        is_bounded = SMALLEST_WEIGHT * largest <= smallest and 1 / LARGEST_WEIGHT <= largest <= LARGEST_WEIGHT
        # With an unknown label, a pass finds where it is.
        exact = is_bounded and not unknown
        return cls(engine, reading, first, found.n_rows, class_weights=weights if exact else None)

    @cached_property
    def class_weights(self) -> Vector:  # type: ignore[override]
        """Total weight of the rows of every class, (K,)."""
        return self.summed(lambda data: data.class_weights)

    @cached_property
    def total_weight(self) -> float:  # type: ignore[override]
        """Sum of the weights; the number of rows without."""
        return float(self.class_weights.sum()) if self.is_weighted else float(self.n_rows)

    @property
    def engine(self) -> Engine:
        """The engine of the partitions; workers have none."""
        assert self._engine is not None
        return self._engine

    def summed(self, contribution: Callable[[LabelledPredictions], State]) -> State:
        reading = self.reading

        def of_piece(piece: Piece) -> State | None:
            data = reading(piece)
            return None if data is None else contribution(data)

        return self.engine.summed(Task(reading.layout, of_piece))

    def mapped(self, change: Change) -> "PartitionedSource":
        reading = replace(self.reading, changes=(*self.reading.changes, change))
        return PartitionedSource(self.engine, reading, change(self.first), self.n_rows)

    def features(self, features: Features, labels: Labels | None = None) -> "PartitionedRows":
        def of_data(data: LabelledPredictions) -> ArrayRows:
            wanted = data.labels if labels is None else labels(data.labels)
            return ArrayRows(features(data.predictions), wanted, data.weights)

        return PartitionedRows(
            self.engine, self.reading, of_data, of_data(self.first), self.n_rows, self.total_weight
        )

    def per_row(
        self,
        compute: Callable[[LabelledPredictions], NDArray[Any]],  # noqa: ARG002
        dtype: Any = np.float64,  # noqa: ARG002
    ) -> NDArray[Any]:
        raise ParameterError(
            "numbers of every row do not leave the partitions; with rows on a cluster cv is a number of folds, which a hash "
            "of every row deals out."
        )

    def sample(self, size: int) -> LabelledPredictions:
        """Return the different rows of the smallest hashes, in memory, each with the weight of all its copies."""

        def smallest(data: LabelledPredictions) -> Smallest:
            hashes = content_hash(data.predictions.scores, data.labels)
            if data.groups is not None:
                hashes = mixed(hashes ^ data.groups)
            # Keys are floats, which hold 53 bits.
            keys = part_of(hashes, 2**53, SAMPLE).astype(np.float64)
            weights = np.ones(data.n_rows) if data.weights is None else data.weights
            columns = (data.predictions.scores, data.labels, weights, data.groups)
            return Smallest(size, keys, columns, merge=True).kept()

        found = self.summed(smallest).ordered()
        scores, labels, weights, groups = found.columns
        assert scores is not None
        assert labels is not None
        assert weights is not None
        predictions = replace(self.first.predictions, scores=read_only(scores))
        plain = not self.is_weighted and weights.max() == 1
        return LabelledPredictions(predictions, labels, self.classes, None if plain else weights, groups)

    def __getstate__(self) -> dict[str, Any]:
        # What a contribution refers to travels to workers, which have no engine.
        return {**self.__dict__, "_engine": None}


class PartitionedRows(FeatureRows):
    """Features of rows in partitions; a pass is a job of the engine."""

    dense_parameters = DENSE_PARAMETERS

    def __init__(
        self,
        engine: Engine | None,
        reading: Reading,
        of_data: Callable[[LabelledPredictions], ArrayRows],
        first: ArrayRows,
        n_rows: int,
        total_weight: float,
    ) -> None:
        self._engine, self.reading, self._of_data, self._first = engine, reading, of_data, first
        self.n_rows, self.total_weight = n_rows, total_weight
        self.n_columns, self.dtype = first.n_columns, first.dtype

    @contextmanager
    def passes(
        self, width: int, itemsize: int = 8, min_rows: int = 1
    ) -> Iterator[Callable[[Callable[[Block], State]], State]]:
        yield _Pass(self, width, itemsize, min_rows)

    def mapped(
        self,
        features: Callable[[FloatArray], FloatArray] | None = None,
        labels: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    ) -> "PartitionedRows":
        of_data = self._of_data

        def changed(data: LabelledPredictions) -> ArrayRows:
            return of_data(data).mapped(features, labels)

        first = self._first.mapped(features, labels)
        return PartitionedRows(self._engine, self.reading, changed, first, self.n_rows, self.total_weight)

    def folds(self, cv: Any) -> list[tuple[FeatureRows, FeatureRows]]:
        if not is_whole(cv, 2):
            raise ParameterError(
                f"cv must be a number of folds where rows are in partitions, not {cv!r}; a hash of every row deals them out."
            )
        assert self._engine is not None
        counted = _fold_counts(self._engine, self.reading, int(cv))
        n_rows, weights = counted[:, 0], counted[:, 1:].sum(axis=1)
        if not n_rows.all():
            raise ParameterError(
                f"a hash of the rows leaves one of {cv} folds empty; pass key= with a column that tells rows apart, or "
                "fewer folds."
            )

        def part(number: int, held_out: bool) -> PartitionedRows:
            own = np.arange(int(cv)) == number
            chosen = own if held_out else ~own
            return PartitionedRows(
                self._engine,
                _with_fold(self.reading, int(cv), number, held_out),
                self._of_data,
                self._first,
                int(n_rows[chosen].sum()),
                float(weights[chosen].sum()),
            )

        return [(part(number, False), part(number, True)) for number in range(int(cv))]

    def every(self, stride: int) -> ArrayRows:
        return self._smallest(max(1, -(-self.n_rows // stride)), None)

    def sample(self, size: int, keys: Callable[[FloatArray], Vector]) -> ArrayRows:
        return self._smallest(size, keys)

    def _smallest(self, size: int, keys: Callable[[FloatArray], Vector] | None) -> ArrayRows:
        reading, of_data = self.reading, self._of_data

        def smallest(piece: Piece) -> Smallest | None:
            data = reading(piece)
            if data is None:
                return None
            rows = of_data(data)
            own = (
                part_of(_hashes(data), 2**53, SAMPLE).astype(np.float64)
                if keys is None
                else keys(rows.features)
            )
            return Smallest(size, own, (rows.features, rows.labels, rows.weights)).kept()

        assert self._engine is not None
        found = self._engine.summed(Task(reading.layout, smallest)).ordered()
        return ArrayRows(*found.columns)  # type: ignore[arg-type]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None}


@dataclass(frozen=True, eq=False)
class _Pass:
    """Sums over the blocks of all rows; callable, and picklable with the objective that holds it."""

    rows: PartitionedRows
    width: int
    itemsize: int
    min_rows: int

    def __call__(self, contribution: Callable[[Block], State]) -> State:
        reading, of_data = self.rows.reading, self.rows._of_data
        sizes = self.width, self.itemsize, self.min_rows

        def of_piece(piece: Piece) -> State | None:
            data = reading(piece)
            if data is None:
                return None
            with of_data(data).passes(*sizes) as summed:
                return summed(contribution)

        assert self.rows._engine is not None
        return self.rows._engine.summed(Task(reading.layout, of_piece))


@dataclass(frozen=True, eq=False)
class Smallest:
    """The rows with the smallest keys, up to a given number; of two sets of rows those of their union."""

    size: int
    keys: Vector
    columns: tuple[NDArray[Any] | None, ...]
    merge: bool = False
    """Whether rows with equal keys are copies, of which one is kept with the sum of the weights, the third column."""

    def kept(self) -> Self:
        """Return the rows without those beyond the size."""
        whole = self._merged() if self.merge else self
        if len(whole.keys) <= whole.size:
            return whole
        return whole.taken(np.argpartition(whole.keys, whole.size)[: whole.size])

    def __add__(self, other: Self) -> Self:
        columns = tuple(
            None if mine is None or theirs is None else np.concatenate([mine, theirs])
            for mine, theirs in zip(self.columns, other.columns, strict=True)
        )
        return replace(self, keys=np.concatenate([self.keys, other.keys]), columns=columns).kept()

    def _merged(self) -> Self:
        keys, first, copies = np.unique(self.keys, return_index=True, return_inverse=True)
        if len(keys) == len(self.keys):
            return self
        taken = self.taken(first)
        weights = np.bincount(copies, self.columns[2], len(keys))
        return replace(taken, columns=(*taken.columns[:2], weights, *taken.columns[3:]))

    def ordered(self) -> Self:
        """Return the rows in an order that does not depend on where they came from."""
        features, labels, *_ = self.columns
        assert features is not None
        assert labels is not None
        return self.taken(np.lexsort((labels, features[:, 0], self.keys)))

    def taken(self, rows: Any) -> Self:
        """Return some of the rows."""
        columns = tuple(None if column is None else column[rows] for column in self.columns)
        return replace(self, keys=self.keys[rows], columns=columns)


def _salt_of_folds(reading: Reading) -> int:
    """Return the salt of the next folds: those inside of a fold are independent of it."""
    return FOLDS + OTHERS * len(reading.folds)


def _with_fold(reading: Reading, n_folds: int, number: int, held_out: bool) -> Reading:
    fold = Fold(n_folds, number, held_out, _salt_of_folds(reading))
    return replace(reading, folds=(*reading.folds, fold))


def _fold_counts(engine: Engine, reading: Reading, n_folds: int) -> NDArray[np.float64]:
    """Return the number of rows of every fold, and the weight of every class in it, (F, 1 + K)."""
    # The changes keep the number of rows and their order, and folds are those of the rows as they came.
    unchanged = replace(reading, changes=())

    def counts(piece: Piece) -> NDArray[np.float64] | None:
        given, data = unchanged(piece), reading(piece)
        if given is None or data is None:
            return None
        fold = part_of(_hashes(given), n_folds, _salt_of_folds(reading))
        cells = np.bincount(fold * data.n_classes + data.labels, data.weights, n_folds * data.n_classes)
        return np.column_stack([np.bincount(fold, minlength=n_folds), cells.reshape(n_folds, -1)])

    return engine.summed(Task(reading.layout, counts))


# More different labels than this, and four times as many as classes, are no labels.
MOST_LABELS = 1000


class Seen(NamedTuple):
    """Total weight of a label, and the position of its first row."""

    weight: float
    place: str

    def __add__(self, other: Self) -> Self:  # type: ignore[override]
        return type(self)(self.weight + other.weight, self.place)


@dataclass(frozen=True)
class Survey:
    """Labels, smallest probability and weights of some rows; two surveys add up."""

    n_rows: int  # Rows of positive weight
    labels: dict[str | int, Seen]  # :class:`Seen` for every label
    smallest: float  # Smallest positive probability
    has_zero: bool
    weight_range: tuple[float, float]  # Smallest and largest positive weight
    scores: FloatArray = field(repr=False)  # (1, K): one of the rows

    def __add__(self, other: Self) -> Self:
        labels = dict(self.labels)
        for label, seen in other.labels.items():
            labels[label] = labels[label] + seen if label in labels else seen
        return type(self)(
            self.n_rows + other.n_rows,
            labels,
            min(self.smallest, other.smallest),
            self.has_zero or other.has_zero,
            (
                min(self.weight_range[0], other.weight_range[0]),
                max(self.weight_range[1], other.weight_range[1]),
            ),
            self.scores,
        )


@dataclass(frozen=True)
class surveyed:  # noqa: N801 (called like a function, and pickled like a value)
    """The contribution of a piece of rows to the survey."""

    layout: Layout

    def __call__(self, piece: Piece) -> Survey | None:
        """Check the rows and return their survey; None if none of them counts."""
        layout = self.layout
        scores = layout.predictions(piece).scores
        labels, weights = layout.labels(piece), layout.weights(piece)
        if weights is not None:
            counts = weights > 0
            if not counts.any():
                return None
            scores, weights = scores[counts], weights[counts]
            places = np.flatnonzero(counts)
            labels = labels[counts]
        else:
            places = np.arange(len(labels))
        different, first, codes = np.unique(labels, return_index=True, return_inverse=True)
        if len(different) > max(MOST_LABELS, 4 * layout.n_classes):
            raise LabelError(
                f"{piece.where} has more than {len(different) - 1:,} different labels for {layout.n_classes} columns; "
                f"{layout.label!r} is not the column of labels."
            )
        totals = np.bincount(codes, weights, len(different))
        seen = {
            label: Seen(total, piece.place(int(places[row])))
            for label, total, row in zip(different.tolist(), totals.tolist(), first.tolist(), strict=True)
        }
        smallest, has_zero = np.inf, False
        if layout.space is Space.PROBABILITIES:
            smallest = float(scores.min())
            if smallest == 0:
                has_zero = True
                smallest = float(scores.min(where=scores > 0, initial=np.inf))
        weight_range = (1.0, 1.0) if weights is None else (float(weights.min()), float(weights.max()))
        return Survey(len(labels), seen, smallest, has_zero, weight_range, scores[:1].copy())


def classes_of(survey: Survey, layout: Layout, classes: Sequence[Any] | None) -> NDArray[Any]:
    """Return the label of every column, as :func:`~calibrant.labels.encode_labels` finds it for rows in memory."""
    if classes is not None:
        given = np.asarray(classes)
        if given.shape != (layout.n_classes,) or len(np.unique(given)) < len(given):
            raise LabelError(
                f"classes must be {layout.n_classes} different labels, not {listed(list(classes))}."
            )
        return given
    names = np.array(layout.scores) if len(layout.scores) > 1 else None
    labels = list(survey.labels)
    if len({isinstance(label, str) for label in labels}) > 1:
        text = next(label for label in labels if isinstance(label, str))
        raise LabelError(f"{survey.labels[text].place}: the label {text!r} is text, and others are integers.")
    try:
        found: NDArray[Any] = encode_labels(np.array(sorted(labels)), layout.n_classes, names)[1]
    except LabelError as error:
        rare = min(labels, key=lambda label: survey.labels[label].weight)
        raise LabelError(
            f"{str(error).rstrip('.')}; the rarest label, {rare!r}, is first in {survey.labels[rare].place}."
        ) from None
    return found
